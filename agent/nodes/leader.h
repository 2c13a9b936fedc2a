/* SPDX-License-Identifier: Apache-2.0 */
/* leader.h - commands the agents of the other nodes of an attempt, from the agent of node 0
 *
 * Terms. The leader is the agent of node 0: it alone decides (agent/core/agent_core.h), stores
 * events and talks to the controller. A follower is the agent of another node, 1 to nodes - 1
 * (agent/nodes/follower.h): it starts, watches, signals and cleans up the ranks of its node on the
 * leader's orders. Ranks are numbered node by node; functions here always use global rank numbers.
 *
 * The leader listens on a port chosen by the system; its endpoint (addresses, port, and a key drawn
 * for this attempt) goes through the controller to the followers, which connect, and reconnect when
 * a connection breaks (agent/nodes/node_channel.h). Training does not depend on the controller.
 *
 * A follower silent for 1.5 times the lost time is lost for good: it has killed its ranks by then,
 * because its own limit is the lost time ($JOBCTL_NODE_LOST_S overrides it, for tests). A follower
 * proven to be gone is lost at once (leader_node_gone()).
 *
 *   leader_open -> [gathered] -> leader_prepare to each -> [prepared]
 *       -> leader_spawn -> [spawned] -> exited, line, ... -> leader_cleanup -> [cleaned]
 *       -> leader_ask_snapshots -> [kept] -> leader_spawn of the next generation ... -> leader_shutdown -> leader_close -> loop -> leader_destroy
 *
 * One request of a kind at a time; each is answered by its hook exactly once, for all followers
 * together. A lost follower counts as having answered, so nothing waits for it: `lost` is called
 * first. Hooks are called from the loop, never from inside a call of this header. A hook may call
 * any function here, even leader_close().
 */
#ifndef AGENT_NODES_LEADER_H
#define AGENT_NODES_LEADER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_exit;
struct leader;
struct err;
struct flight_page;
struct gpu_event;
struct snapshot_memfds_claim;
struct launch_env;

enum { LEADER_JOIN_MS = 60 * 1000, LEADER_LOST_MS = 15 * 1000, LEADER_NODES = 1024 };

/* Everything is borrowed for the call. */
struct leader_hooks {
    /* All followers have joined: leader_facts(), leader_name() and leader_address() are valid. */
    void (*gathered)(void *arg);
    /* All have answered PREPARE. NULL: all are ready; else why one is not, beginning with its
     * name: "gpu3: ...". */
    void (*prepared)(void *arg, const char *refusal);
    /* All have reported the snapshots in their memory: those that all nodes have
     * (snapshot_memfds.h). */
    void (*kept)(void *arg, int generation, const struct snapshot_memfds_claim *common, int n);
    /* All have started their ranks; or `text` says why one could not, and then no process of
     * that generation is left on any follower. Lines and exits of ranks are delivered only after
     * this. */
    void (*spawned)(void *arg, int generation, const char *text);
    /* Generation 0: the setup of a follower, e->rank is its node. */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    /* A rank's line for all others: give it to the ranks on this node (ranks_broadcast()); the
     * other followers have it. Only of the present generation; may come before `spawned`, so
     * start the ranks of this node in the same turn of the loop as leader_spawn(). */
    void (*broadcast)(void *arg, const json_t *line);
    /* Output of a rank, for the rules of `watch:`; pieces may be missing. */
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    /* All have cleaned up; left: surviving processes, "gpu3: 123 (python3)", or "". */
    void (*cleaned)(void *arg, bool clean, const char *left);
    /* Native stacks of a follower's ranks, or why there are none; once for each follower asked. */
    void (*inspected)(void *arg, int node, const char *text);
    /* How NCCL has connected on a follower: the body of an event (agent/monitor/nccl_log.h). */
    void (*nccl)(void *arg, int node, const json_t *body);
    /* The machine of a follower ends in this many milliseconds. */
    void (*notice)(void *arg, int node, const char *reason, int64_t grace_ms);
    /* A driver event for the GPU of a follower's rank. */
    void (*gpu)(void *arg, int node, const struct gpu_event *e);
    /* Once per node: it was silent for too long, never connected, or is gone. text begins with
     * its name. */
    void (*lost)(void *arg, int node, const char *text);
    void *arg;
};

struct leader_options {
    int64_t       job, attempt;
    const char   *nonce;
    int nodes;             /* including the leader's: at least 2, at most LEADER_NODES */
    const json_t *names;   /* ["gpu1","gpu2",...], of all nodes; for messages */
    const char *version;   /* a follower of another version is refused */
    int join_ms;           /* limit for all to join; 0: LEADER_JOIN_MS */
    int64_t       lost_ms; /* the lost time; 0: LEADER_LOST_MS */
};

/* Starts to listen. The options are copied. */
int leader_open(struct leader **out, uv_loop_t *loop, const struct leader_options *o,
                const struct leader_hooks *hooks, struct err *err);
/* No hook is called any more; run the loop once more before leader_destroy(). Both accept NULL. */
void leader_close(struct leader *c);
void leader_destroy(struct leader *c);

/* The endpoint for followers, {"addresses":["10.0.0.1",...], "port":N, "key":"64 hex"}; a new
 * object, NULL: no memory. Whoever has the key is accepted as a follower: never put it into a
 * file, log, event or report. */
json_t *leader_endpoint(const struct leader *c);

const json_t *leader_facts(const struct leader *c,
                           int node); /* of a follower that has joined, or NULL */
const char *leader_name(const struct leader *c, int node); /* of any node */
/* The address of a node for the other nodes; of node 0 as its followers see it, so only after
 * `gathered`. NULL: not known. Used for MASTER_ADDR, and for struct launch_env's node_addr of
 * the ranks on this node. */
const char *leader_address(const struct leader *c, int node);
/* The endpoint at which other followers test whether they reach a node
 * (agent/doctor/reachability.h); or NULL. */
const json_t *leader_follower_endpoint(const struct leader *c, int node);
/* Problems found by a node's preflight (agent/doctor/doctor.h), after `prepared`; or NULL. */
const json_t *leader_preflight(const struct leader *c, int node);

/* Sends PREPARE to one follower; `prepared` is called when all that were asked have answered. Body:
 *   {"spec":{}, "plan":{} of that node, "launch":{"name","ckpt_dir","secrets":{},"restarts",
 *    "deadline_s", "proof":{"path","text"}?, "consistency":{"names":[leader, follower],"list":{}}, "endpoints":[]}}
 * proof: a file that the leader has written to the checkpoint directory, and its contents: a
 * follower that does not find it uses another directory, and refuses. consistency: the leader's
 * listing of data and programs (agent/doctor/consistency.h); a follower with other files
 * refuses. endpoints: of other followers, each of which must be reachable. -1: the body is too
 * large. */
int leader_prepare(struct leader *c, int node, const json_t *body, struct err *err);

/* Before generation `generation` is started: asks for snapshots in memory to resume from. */
void leader_ask_snapshots(struct leader *c, int generation);

struct leader_spawn {
    int node, first_rank, ranks;
};

/* Starts generation e->generation (0: the setup) on these followers. Uses the fields of *e that
 * are equal on all nodes: generation, world_size, node_ranks, master_addr, master_port (not 0,
 * except for the setup), restarts, resume_step, skip_step, from, snapshot_step, rejoin, keep,
 * deadline_s, fallbacks. */
void leader_spawn(struct leader *c, const struct launch_env *e, const struct leader_spawn *where,
                  int n);
int64_t leader_pid(const struct leader *c, int rank); /* after `spawned`; 0: not known */

void leader_control(struct leader *c, const char *command); /* ranks_control() on all followers */
void leader_broadcast(struct leader *c,
                      const json_t *line);             /* a local rank's line for all others */
void leader_signal(struct leader *c, int signo);       /* ranks_signal() on all followers */
void leader_cleanup(struct leader *c, int generation); /* 0: the whole attempt */
void leader_inspect(struct leader *c, int generation);

/* The newest flight page of a follower's rank, its times converted to the clock of this machine
 * (pid 0 in it: it never attached), with state and I/O of its process (agent/os/process.h).
 * Returns its pid, or 0 if it has exited. */
int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    uint64_t *io_mib);
/* The time by phase of a rank that has detached (engine/train/rejoin.h): init_ms, data_ms,
 * checkpoint_ms. */
void leader_phases(const struct leader *c, int rank, struct agent_exit *e);
/* Time since the last message of a follower, which sends one at least once a second. */
int leader_silent_ms(const struct leader *c, int node);
/* The last lines of a rank's output, or "". */
const char *leader_last_lines(const struct leader *c, int rank);

/* The agent of that node is gone with all processes, or will never start: do not wait for it.
 * text: follows its name. */
void leader_node_gone(struct leader *c, int node, const char *text);

/* The attempt is over: the followers leave. */
void leader_shutdown(struct leader *c);

#endif
