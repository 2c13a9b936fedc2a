/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_internal.h - state of an attempt, shared by attempt*.c only
 *
 * Call order: attempt.c (messages, timers) calls attempt_nodes.c (other nodes), which calls
 * attempt_launch.c (from LAUNCH to a start), and all call attempt_effects.c (effects of the core);
 * no file calls upwards.
 */
#ifndef AGENT_ATTEMPT_ATTEMPT_INTERNAL_H
#define AGENT_ATTEMPT_ATTEMPT_INTERNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/attempt/attempt.h"
#include "agent/attempt/deadline_timer.h"
#include "agent/attempt/disk_notice.h"
#include "agent/core/agent_core.h"
#include "agent/os/identity.h"
#include "engine/base/clock_jump.h"
#include "engine/base/dir_identity.h"

struct attempt {
    struct attempt_options o;
    struct identity identity;
    struct dir_identity dir;   /* identity of the run directory */
    bool dir_gone;             /* the run directory was moved or removed */
    struct clock_reading began; /* when this process started */
    struct clock_jump clock;    /* the clock as last seen */
    uv_loop_t loop;
    uv_prepare_t turn;         /* sends what this turn of the loop stored */
    bool untold, unsynced;     /* events wait to be sent; events are not yet on disk */
    uv_timer_t timer;          /* the core's one timer */
    uv_timer_t beat;           /* heartbeats, and limits on waiting for the controller */
    uv_timer_t lease_timer;    /* when to request leases on several nodes, or to let go of them for now */
    uv_timer_t deadline_timer; /* when to request a checkpoint before the machine ends */
    uv_signal_t sigterm, sigint;
    struct agent_core *core;
    struct follower *follower;  /* runs the ranks of this node */
    struct leader *leader;
    struct follower_link *link; /* not NULL: the leader is on another node; this node's leader and core are unused */
    struct monitor *monitor;    /* set from LAUNCH on */
    struct gpu_selftest_child *gpu_selftest; /* NULL: no self-test needed */
    void (*planned)(struct attempt *a);      /* called after begin_attempt() */
    void (*lease_nodes)(struct attempt *a);  /* several nodes: called before the plan if machines have leases */
    bool nccl_unlike; /* another node has reported unexpected NCCL transports */
    struct gpu_sampler *gpu_sampler; /* NULL: the load of the GPUs was never requested */
    struct session *session;
    struct call_home *call_home;       /* NULL: controllers connect to the socket */
    struct file_channel *file_channel; /* NULL: as for call_home */
    bool noticed;      /* RUN_DIR_NOTICE was seen */
    struct spool *spool;
    struct disk_notice disk;
    json_t *facts;

    /* from LAUNCH */
    json_t *launch;
    struct redact *redact; /* knows the job's secrets */
    char **base;           /* the environment that ranks start from; NULL: that of this process */
    json_t *plan;      /* the plan of all nodes */
    json_t *part;      /* this node's part of it; NULL: the whole */
    json_t *all_facts; /* GPU facts of all nodes; NULL: single node, see facts */
    char proof[4200];  /* file that other nodes must find (attempt_nodes.c), "" = none */
    json_t *incident; /* its report waits for stacks of incident_generation; NULL: no report pending */
    int     incident_generation;
    int64_t deadline_s;     /* deadline_timer.h; with several nodes the earliest */
    char deadline_node[80]; /* the node with that deadline; "": this one */
    char tag[48]; /* "7.1", for the log */
    json_t *few;  /* {few, usable, node}: the node with too few GPUs, for attempt_ended; NULL: none */
    char state_dir[PATH_MAX];
    int64_t restarts;
    struct mirror_child *mirror; /* NULL: job without mirror */
    struct lease_keeper *lease;  /* lease of the checkpoint.dir that the spec names; NULL: the job's own directory is
                                  * used */
    struct machine_wait *machine; /* lease of this node's GPUs and CPU slots; NULL: none */
    struct attempt_leases *leases; /* leases of all nodes of a multi-node attempt, before the plan; NULL: none */
    bool gathers_first;          /* the nodes join before this one plans */
    int lease_round;             /* round of `machine`, as requested by the leader of several nodes */
    bool unclean;                /* the last cleanup left a process alive */
    struct {
        bool there, clean;
        char left[200];
    } swept; /* the last cleanup is done, and the lease is being released */

    int64_t started_ms, finished_ms; /* finished: 0 = not yet */
    int64_t beats;
    bool now;          /* stop without waiting for copies */
    bool leaving;
    int fallbacks;   /* number of the plan's fallbacks in use */
    json_t *learned; /* as last stored, or NULL */
};

struct gpu_event;
struct leader_started;

/* --- attempt_effects.c: below the others, which call it --------------------------------------- */


/* [0, 1), for the jitter of the back-off. */
double attempt_jitter(void);

/* Feeds one input to the core; performing an effect may cause the next input. */
void attempt_feed(struct attempt *a, struct agent_input *in);

/* Stores one event; none follows attempt_ended. At the end of this turn of the loop everything stored is synced once,
 * then sent in one write. Takes the body. */
void attempt_store(struct attempt *a, const char *kind, json_t *body, bool droppable);
/* Hook: the connection has room for more events. */
void attempt_on_room(void *arg);
/* Hook: something is about to be sent; syncs what was stored. */
void attempt_sync(void *arg);
void attempt_watch_turns(struct attempt *a);
/* Stores a warning, once, when the disk of the run directory is full; writes the refused events once there is space
 * again. */
void attempt_check_disk(struct attempt *a);
/* Stores what was learned about this job, if it changed. */
void attempt_store_learned(struct attempt *a);

/* The mirror has its last copy: cleans up the attempt. */
void attempt_cleanup(struct attempt *a);

/* Hooks: native stacks of one node's ranks have arrived; of all nodes. */
void attempt_on_stacks(void *arg, int node, const char *text);
void attempt_on_stacks_done(void *arg);

/* Hook: how NCCL connected on a node: one event for all, unexpected transports first. */
void attempt_on_nccl(void *arg, int node, const json_t *body);

/* May ranks that lost a peer wait in their processes (engine/train/rejoin.h)? */
bool attempt_may_rejoin(const struct attempt *a);

/* Hook: the answer to a start. */
void attempt_on_started(void *arg, const struct leader_started *s);

/* Hooks: a cleanup has finished; the lease has been released. */
void attempt_on_swept(void *arg, bool clean, const char *left);
void attempt_on_lease_ended(void *arg);

/* Closes every handle, so that the loop ends. */
void attempt_leave(struct attempt *a);

/* --- attempt_launch.c ---------------------------------------------------------------------- */

/* attempt_env.c: reads the job's environment, if LAUNCH says that this machine has it. */
int attempt_take_environment(struct attempt *a, struct err *err);

/* Stores the LAUNCH. */
int attempt_take_launch(struct attempt *a, const json_t *body, struct err *err);
/* The same, once the agent holds the lease of checkpoint.dir; a job's own directory needs no lease. */
void attempt_claim(struct attempt *a, void (*planned)(struct attempt *a));
/* False if the core has already started, or the attempt was ended before. */
bool attempt_is_waiting(const struct attempt *a);
/* The plan is ready: starts watch and mirror, then launches the core. */
void attempt_ready(struct attempt *a);
/* Unix seconds by the wall clock as it was when this process started; later clock changes do not count. */
int64_t attempt_now_s(const struct attempt *a);
/* Sets the timer for checkpoints before a->deadline_s. */
void attempt_watch_deadline(struct attempt *a);
/* Hook: a driver event for a GPU. */
void attempt_on_gpu(void *arg, int node, const struct gpu_event *e);
/* Ends the attempt: it cannot run, or (`missing`) a node did not connect. */
void attempt_refuse(struct attempt *a, const char *refusal, const struct agent_lost *missing);
/* The same after a plan that failed; attempt_note_few() comes first if node `node` with these facts has too few GPUs. */
void attempt_note_few(struct attempt *a, const char *node, const json_t *facts);
void attempt_refuse_plan(struct attempt *a, const struct err *why);

/* Plans with the present facts, which are used from then on; then calls `planned`, or refuses the launch. */
void attempt_plan(struct attempt *a);
/* What machine_wait needs to lease this machine's resources. */
struct machine_wait_job attempt_machine_job(struct attempt *a);

/* --- attempt_lease.c: leases of several nodes' machines, after the nodes have joined ------------- */

/* Then calls attempt_plan(). */
void attempt_lease_all(struct attempt *a);
void attempt_leases_free(struct attempt *a);
/* Hook of the leader: a node's answer. */
void attempt_on_leased(void *arg, int node, int round, bool holds, const char *text);
/* Hook of the follower: the leader requests the lease of this machine. */
void attempt_on_lease(void *arg, int round, int nodes);

/* --- attempt_nodes.c: a LAUNCH of several nodes, after begin_attempt() ---------------------- */

/* Waits for the other nodes; a single node does not wait. */
void attempt_gather(struct attempt *a);
/* The same, before the plan: leases of all machines come first. */
void attempt_gather_first(struct attempt *a);
/* Sends LISTENING to the controller, again after each LAUNCH. */
void attempt_show_listener(struct attempt *a);
/* The controller reports that an agent is gone or will not start. */
void attempt_on_node_gone(struct attempt *a, const json_t *body);
/* Hooks, see agent/nodes/leader.h. */
void attempt_on_gathered(void *arg);
void attempt_on_prepared(void *arg, const char *refusal);
void attempt_on_lost(void *arg, const struct agent_lost *l);
void attempt_on_notice(void *arg, int node, const char *reason, int64_t grace_ms);

#endif
