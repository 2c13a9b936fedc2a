/* SPDX-License-Identifier: Apache-2.0 */
/* leader.h - commands the followers of all nodes of an attempt, from the agent of node 0
 *
 * Terms. The leader is the agent of node 0: it alone decides (agent/core/agent_core.h), stores
 * events and talks to the controller. A follower (agent/nodes/follower.h) starts, watches, signals
 * and cleans up the ranks of its node on the leader's orders; every node has one. Node 0's follower is in this process,
 * and messages to and from it are calls. Ranks are numbered node by node; functions here always use global rank
 * numbers.
 *
 * With several nodes the leader listens on a port chosen by the system; its endpoint (addresses,
 * port, and a key drawn for this attempt) goes through the controller to the followers, which
 * connect, and reconnect when a connection breaks (agent/nodes/node_channel.h). Training does not
 * depend on the controller.
 *
 * A follower silent for 1.5 times the lost time is lost for good: it has killed its ranks by then,
 * because its own limit is the lost time ($JOBCTL_NODE_LOST_S overrides it, for tests). A follower that has provably
 * ended is lost at once (leader_node_gone()). Node 0 is never lost.
 *
 *   leader_create [-> leader_gather -> [gathered] -> leader_prepare to each other -> [prepared]]
 *       -> leader_place -> leader_start -> [started] -> exited, line, ... -> leader_cleanup
 *       -> [cleaned] -> leader_start of the next generation ... -> leader_shutdown -> leader_close
 *       -> loop -> leader_destroy
 *
 * One request of a kind at a time; each is answered by its hook exactly once, for all nodes
 * together, except that a cleanup gives up a start. A lost follower counts as having answered, so
 * nothing waits for it: `lost` is called first. These hooks are called from the loop, never from
 * inside a call of this header. A hook may call any function here, even leader_close().
 */
#ifndef AGENT_NODES_LEADER_H
#define AGENT_NODES_LEADER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct activity_sample;
struct agent_exit;
struct agent_lost;
struct err;
struct flight_page;
struct follower;
struct gpu_event;
struct launch_env;
struct leader;

enum { LEADER_JOIN_MS = 60 * 1000, LEADER_LOST_MS = 15 * 1000, LEADER_NODES = 1024 };

/* Generation 0 is the setup, which runs once on every node. */
struct leader_started {
    int            generation;
    const int64_t *pids;          /* of each rank */
    int64_t        snapshot_step; /* step to resume from memory; 0: from a checkpoint */
    const char    *text;          /* NULL, or the reason for a failure: no rank is left */
};

/* Everything is borrowed for the call. */
struct leader_hooks {
    /* Answers leader_start(). Lines and exits of ranks are delivered only after this. */
    void (*started)(void *arg, const struct leader_started *s);
    /* Generation 0: the setup has ended on all nodes; reports the first failure, if any. */
    void (*exited)(void *arg, const struct agent_exit *e);
    /* spent: {init_ms, data_ms, checkpoint_ms} of a rank that has detached, else NULL. */
    void (*line)(void *arg, int generation, int rank, const json_t *line, const json_t *spent);
    /* Output of a rank, for the rules of `watch:`; pieces of other nodes may be missing. */
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    /* Answers leader_cleanup(); left: surviving processes, "gpu3: 123 (python3)"; if clean, those
     * that were still running. */
    void (*cleaned)(void *arg, bool clean, const char *left);
    /* Native stacks of a node's ranks, or why there are none; after the last node, `stacks_done`. */
    void (*stacks)(void *arg, int node, const char *text);
    void (*stacks_done)(void *arg);
    /* How NCCL has connected on a node: the body of an event (agent/monitor/nccl_log.h). */
    void (*nccl)(void *arg, int node, const json_t *body);
    /* A driver event for the GPU of a rank. */
    void (*gpu)(void *arg, int node, const struct gpu_event *e);

    /* Other nodes only. All followers have joined: leader_facts(), leader_name() and
     * leader_address() are valid. */
    void (*gathered)(void *arg);
    /* All have answered PREPARE. NULL: all are ready; else why a node is not, beginning with its name: "gpu3: ...". */
    void (*prepared)(void *arg, const char *refusal);
    /* A node's answer to leader_lease(): it holds its machine's lease, or waits (reason in text, or NULL). */
    void (*leased)(void *arg, int node, int round, bool holds, const char *text);
    /* The machine of a follower ends in this many milliseconds. */
    void (*notice)(void *arg, int node, const char *reason, int64_t grace_ms);
    /* Once per node: it was silent for too long, never connected, or is gone. text begins with
     * its name. */
    void (*lost)(void *arg, const struct agent_lost *l);
    void *arg;
};

struct leader_options {
    int64_t       job, attempt;
    const char   *nonce;
    int           nodes;   /* including the leader's: at least 2, at most LEADER_NODES */
    const json_t *names;   /* ["gpu1","gpu2",...], of all nodes; for messages */
    const char   *version; /* a follower of another version is refused */
    int           join_ms; /* time limit for all to join; 0: LEADER_JOIN_MS */
    int64_t       lost_ms; /* the lost time; 0: LEADER_LOST_MS */
};

/* A leader for this node alone; the follower must outlive it. */
int leader_create(struct leader **out, uv_loop_t *loop, struct follower *follower,
                  const struct leader_hooks *hooks, struct err *err);
/* No hook is called any more; run the loop once more before leader_destroy(). Both accept NULL. */
void leader_close(struct leader *c);
void leader_destroy(struct leader *c);

/* Adds other nodes: listens for their followers, until `gathered`. The options are copied. */
int leader_gather(struct leader *c, const struct leader_options *o, struct err *err);

/* --- nodes --------------------------------------------------------------------------------- */

/* The endpoint for followers, {"addresses":["10.0.0.1",...], "port":N, "key":"64 hex"}; a new
 * object, NULL: a single node. Whoever has the key is accepted as a follower: never put it into a
 * file, log, event or report. */
json_t *leader_endpoint(const struct leader *c);

const json_t *leader_facts(const struct leader *c,
                           int node); /* of a follower that has joined, or NULL */
const char *leader_name(const struct leader *c, int node); /* of any node */
/* A node's address as seen by other nodes; node 0's comes from its followers, so it is valid only after `gathered`.
 * NULL: not known. Used for MASTER_ADDR, and for struct launch_env's node_addr of the ranks on this node. */
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

/* Asks a node to lease its machine's GPUs and CPU slots for `nodes` nodes on that machine, or to release the lease (0):
 * agent/machine/machine_order.h. Once the lease is held, leader_facts() marks the GPUs that are not the job's. The
 * answer may come before the call returns. */
void leader_lease(struct leader *c, int node, int round, int nodes);

/* --- ranks --------------------------------------------------------------------------------- */

/* Before the first start: the plan of all nodes, which assigns ranks to nodes. */
int leader_place(struct leader *c, const json_t *plan, struct err *err);

/* Starts generation e->generation (0: the setup) on all nodes or on none, from snapshots in memory
 * that all nodes have. Uses the fields of *e that are equal on all nodes and not known here:
 * generation, restarts, resume_step, skip_step, forget, rejoin, keep, deadline_s, fallbacks. */
void leader_start(struct leader *c, const struct launch_env *e);

/* Sends {"cmd":"..."} to every live rank; a signal to the process group of each. */
void leader_control(struct leader *c, const char *command);
void leader_signal(struct leader *c, int signo);

/* Kills all processes of a generation, or of the attempt if 0. */
void leader_cleanup(struct leader *c, int generation);

/* Collects native stacks of all ranks. Those of node 0 are appended to the file `path`, with the
 * rank `first` first (-1: none in particular). */
void leader_inspect(struct leader *c, int generation, int first, const char *path);

/* That node's agent has ended with all its processes, or will never start: do not wait for it. text: follows its
 * name. */
void leader_node_gone(struct leader *c, int node, const char *text);

/* The attempt is over: the other followers leave. */
void leader_shutdown(struct leader *c);

/* --- inspection -------------------------------------------------------------------------- */

int leader_ranks(const struct leader *c);

/* The name of a rank's node; "" with a single node. */
const char *leader_where(const struct leader *c, int rank);
bool leader_is_here(const struct leader *c, int rank);

/* Reads the newest flight page of a rank (pid 0 if it never attached), its times on the clock of
 * this machine, and, if not NULL, the state letter of the process that writes it
 * (agent/os/process.h; 0: not known; 't' while its node is silent) and the counters of all processes
 * of the rank. Returns the rank's pid, or 0 if it has exited. */
int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    struct activity_sample *use);

/* The name of the phase on a rank's page, or NULL if it never attached. */
const char *leader_phase(const struct leader *c, int rank);

/* The last lines of a rank's output, or "". */
const char *leader_last_lines(const struct leader *c, int rank);

#endif
