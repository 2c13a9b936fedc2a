/* SPDX-License-Identifier: Apache-2.0 */
/* leader.h - the agents of the other nodes of an attempt, as the agent of node 0 commands them
 *
 * Words.  The head is the agent of node 0: it alone decides (agent/core/agent_core.h), stores
 * events and speaks to the controller.  A member is the agent of another node, 1 to nodes - 1
 * (agent/nodes/follower.h): it starts, watches, signals and sweeps the ranks of its node as it is
 * told.  The crew is what the head sees of all members.  Ranks are numbered node by node, and here
 * always by their number among all.
 *
 * The crew listens on a port that the system chooses; its door (addresses, port, a key drawn for this
 * attempt) goes over the controller to the members, which call, and call again when a connection
 * breaks (agent/nodes/node_channel.h).  Training does not depend on the controller.
 *
 * A member that was not heard of for 1.5 times the lost time is lost, for good: it has ended its
 * ranks by then, for its own limit is the lost time ($JOBCTL_NODE_LOST_S wins, for tests).  One
 * that somebody can prove to be gone is lost at once (leader_node_gone()).
 *
 *   leader_open -> [gathered] -> leader_prepare to each -> [prepared]
 *       -> leader_spawn -> [spawned] -> exited, line, ... -> leader_cleanup -> [swept]
 *       -> leader_ask_snapshots -> [kept] -> leader_spawn of the next generation ... -> leader_shutdown -> leader_close -> loop -> leader_destroy
 *
 * One question of a kind at a time; each is answered by its hook exactly once, by all members
 * together.  A lost member's answers count as given, so that nothing waits for it: `lost` is told
 * first.  Hooks come from the loop, never from inside a call of this header.  A hook may call
 * anything here, leader_close() too.
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
    /* All members have joined: leader_facts(), leader_name() and leader_address() know them. */
    void (*gathered)(void *arg);
    /* All have answered PREPARE. NULL: all can; else why one cannot, its name first: "gpu3: ...". */
    void (*prepared)(void *arg, const char *refusal);
    /* All have said what of earlier generations they have in memory: what all have
     * (snapshot_memfds.h). */
    void (*kept)(void *arg, int generation, const struct snapshot_memfds_claim *common, int n);
    /* All have started theirs; or `text` says why one could not, and then nothing of that generation
     * is left on any member. What ranks do or say is told only after this. */
    void (*spawned)(void *arg, int generation, const char *text);
    /* Generation 0: the setup of a member, e->rank is its node. */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    /* What a rank said to all others: give it to the ranks here (ranks_broadcast()); the other
     * members have it. Only of the present generation; may come before `spawned`, so start the
     * ranks here in the same turn of the loop as leader_spawn(). */
    void (*broadcast)(void *arg, const json_t *line);
    /* What a rank printed, for the rules of `watch:`; pieces may be missing. */
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    /* All have swept; left: who would not die, "gpu3: 123 (python3)", or "". */
    void (*cleaned)(void *arg, bool clean, const char *left);
    /* Native stacks of a member's ranks, or why there are none; once for each member asked. */
    void (*inspected)(void *arg, int node, const char *text);
    /* How NCCL has connected on a member, once it has: the body of an event
     * (agent/monitor/nccl_log.h). */
    void (*nccl)(void *arg, int node, const json_t *body);
    /* The machine of a member is taken away in so many milliseconds. */
    void (*notice)(void *arg, int node, const char *reason, int64_t grace_ms);
    /* What the driver there tells of a GPU of one of its ranks. */
    void (*gpu)(void *arg, int node, const struct gpu_event *e);
    /* Once per node: nothing was heard of it for too long, it never came, or it is gone. text names
     * it. */
    void (*lost)(void *arg, int node, const char *text);
    void *arg;
};

struct leader_options {
    int64_t       job, attempt;
    const char   *nonce;
    int           nodes;   /* the head's own counted: at least 2, at most LEADER_NODES */
    const json_t *names;   /* ["gpu1","gpu2",...], of all nodes; for people */
    const char   *version; /* a member of another one is refused */
    int           join_ms; /* how long to wait for all; 0: LEADER_JOIN_MS */
    int64_t       lost_ms; /* the lost time; 0: LEADER_LOST_MS */
};

/* Listens at once. The options are copied. */
int leader_open(struct leader **out, uv_loop_t *loop, const struct leader_options *o,
                const struct leader_hooks *hooks, struct err *err);
/* No hook comes any more; run the loop once more before leader_destroy(). NULL is fine for both. */
void leader_close(struct leader *c);
void leader_destroy(struct leader *c);

/* {"addresses":["10.0.0.1",...], "port":N, "key":"64 hex"}, for the members; a new object, NULL: no
 * memory. Whoever has the key is taken for a member: it goes into no file, log, event or report. */
json_t *leader_endpoint(const struct leader *c);

const json_t *leader_facts(const struct leader *c, int node); /* of a member that has joined, or NULL */
const char *leader_name(const struct leader *c, int node); /* of any node */
/* Where the other nodes reach this one; of node 0 as its members do, so only after `gathered`. NULL:
 * not known. For MASTER_ADDR, and for struct launch_env's node_addr of the ranks here. */
const char *leader_address(const struct leader *c, int node);
/* Where other members may call it to try whether they reach it (agent/doctor/reachability.h); or
 * NULL. */
const json_t *leader_follower_endpoint(const struct leader *c, int node);
/* What its preflight has found (agent/doctor/doctor.h), after `prepared`; or NULL. */
const json_t *leader_preflight(const struct leader *c, int node);

/* To one member; `prepared` comes when as many have answered as were asked. Body:
 *   {"spec":{}, "plan":{} of that node, "launch":{"name","ckpt_dir","secrets":{},"restarts",
 *    "deadline_s", "proof":{"path","text"}?, "consistency":{"names":[head, member],"list":{}}, "endpoints":[]}}
 * proof: a file that the head has written into the checkpoints' directory, and what is in it: a member
 * that does not find it there has another directory, and says so. alike: what the head has of data and
 * programs (agent/doctor/consistency.h); a member that has other ones says so, too. doors: of other
 * members, each of which it must reach. -1: the body is too large. */
int leader_prepare(struct leader *c, int node, const json_t *body, struct err *err);

/* Before generation `generation` is started: what could it resume from without a checkpoint? */
void leader_ask_snapshots(struct leader *c, int generation);

struct leader_spawn {
    int node, first_rank, ranks;
};

/* Start generation e->generation (0: the setup) on these members. Of *e the fields that are the same
 * on all nodes are used: generation, world_size, node_ranks, master_addr, master_port (not 0, unless
 * it is the setup), restarts, resume_step, skip_step, from, snapshot_step, rebuild, keep, deadline_s,
 * remedies. */
void leader_spawn(struct leader *c, const struct launch_env *e, const struct leader_spawn *where,
                  int n);
int64_t leader_pid(const struct leader *c, int rank); /* after `spawned`; 0: not known */

void leader_control(struct leader *c, const char *command); /* ranks_control() on all members */
void leader_broadcast(struct leader *c, const json_t *line); /* what a rank here says to all others */
void leader_signal(struct leader *c, int signo);          /* ranks_signal() on all members */
void leader_cleanup(struct leader *c, int generation);    /* 0: all of the attempt */
void leader_inspect(struct leader *c, int generation);

/* The newest page of a member's rank, its times moved to the clock of this machine (pid 0 in it: it
 * never attached), with the state and reading of its process (agent/os/process.h). Returns its
 * process, or 0 when that has ended. */
int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    uint64_t *io_mib);
/* Where the time of a rank went that has parted (engine/train/rejoin.h): init_ms, data_ms,
 * checkpoint_ms. */
void leader_phases(const struct leader *c, int rank, struct agent_exit *e);
/* How long nothing was heard of a member; it says something at least once a second. */
int leader_silent_ms(const struct leader *c, int node);
/* The last lines of its output, or "". */
const char *leader_last_lines(const struct leader *c, int rank);

/* Nothing of the agent of that node lives, or none will come: do not wait for it. text: what follows
 * its name. */
void leader_node_gone(struct leader *c, int node, const char *text);

/* The attempt is over: the members leave. */
void leader_shutdown(struct leader *c);

#endif
