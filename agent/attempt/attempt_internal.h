/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_internal.h - the inside of an attempt, shared by job_attempt*.c only
 *
 * attempt.c (life, messages) calls attempt_nodes.c (other nodes), which calls attempt_launch.c (from
 * LAUNCH to a start), and all call attempt_effects.c (what the core wants done); none calls
 * upwards.
 */
#ifndef AGENT_ATTEMPT_ATTEMPT_INTERNAL_H
#define AGENT_ATTEMPT_ATTEMPT_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/attempt/attempt.h"
#include "agent/attempt/deadline_timer.h"
#include "agent/core/agent_core.h"
#include "agent/os/identity.h"
#include "agent/os/payload.h"

struct attempt {
    struct attempt_options o;
    struct identity identity;
    uv_loop_t loop;
    uv_timer_t timer;          /* the core's */
    uv_timer_t beat;           /* heartbeats, and patience with the controller */
    uv_timer_t deadline_timer; /* the machine will be taken away: time to save */
    uv_signal_t sigterm, sigint;
    struct agent_core *core;
    struct rank_set *rank_set;
    /* not NULL: a node that is not the first; the core decides nothing here */
    struct follower *follower;
    struct monitor *monitor; /* from LAUNCH on */
    struct inspector *inspector;
    struct gpu_watch *gpu_watch; /* NULL: the job has no GPUs */
    struct gpu_selftest_child *gpu_selftest; /* NULL: nothing was to be tried */
    void (*planned)(struct attempt *a); /* goes on after attempt_begin() */
    struct nccl_watch *nccl_watch; /* NULL: nothing of NCCL is to be expected */
    bool nccl_unlike; /* another node has told that NCCL does not do there as predicted */
    struct session *session;
    struct call_home *call_home;       /* NULL: controllers connect to the socket */
    struct file_channel *file_channel; /* as that */
    bool noticed;      /* RUN_DIR_NOTICE was seen */
    struct spool *spool;
    json_t *facts;

    /* from LAUNCH */
    json_t *launch;
    json_t *plan;      /* of all nodes */
    json_t *part;      /* what of it is of this node; NULL: all */
    json_t *all_facts; /* what is known of the GPUs of all nodes; NULL: there is one, see facts */
    char    proof[4200]; /* a file that other nodes are to find (attempt_nodes.c), "" = none */
    json_t *incident;  /* whose report waits for other nodes, so many of them */
    int     inspecting, inspect_generation;
    int64_t deadline_s; /* deadline_timer.h; of several nodes the first to be taken away */
    char    deadline_node[80]; /* that node; "": this one */
    char tag[48]; /* "7.1", for the log */
    struct payload payload;
    int64_t restarts;
    struct mirror_child *mirror; /* NULL: the job has none */

    int64_t started_ms, finished_ms; /* finished: 0 = not yet */
    int64_t beats;
    bool leaving;
    int fallbacks;   /* of the plan that are in use */
    json_t *learned; /* as it was stored last, or NULL */
};

struct gpu_event;
struct rank_set_started;

/* --- attempt_effects.c: below the others, which call it --------------------------------------- */

int64_t attempt_now_ms(void);

/* [0, 1), for the jitter of the back-off. */
double attempt_jitter(void);

/* One step of the core; performing an effect may lead to the next step. */
void attempt_feed(struct attempt *a, struct agent_input *in);

/* Stores one event; true if it must be on disk before anything else happens. Takes the body. */
bool attempt_store(struct attempt *a, const char *kind, json_t *body, bool droppable);
void attempt_sync(struct attempt *a);
/* What was learned of this job, if it is news. */
void attempt_store_learned(struct attempt *a);

/* The mirror has its last copy: end all that is left of the attempt. */
void attempt_cleanup(struct attempt *a);

/* An inspector has done its work, here or on another node. */
void attempt_on_inspected(void *arg, int generation, json_t *body);
void attempt_on_inspected_there(void *arg, int node, const char *text);

/* How NCCL connects here, and on another node: one word is for all, that of who is not as predicted. */
void attempt_on_nccl(struct attempt *a, json_t *body); /* takes the body, NULL: nothing new */
void attempt_on_nccl_there(void *arg, int node, const json_t *body);

/* May ranks that lost another one wait in their processes (engine/train/rejoin.h)? */
bool attempt_may_rejoin(const struct attempt *a);

/* The world's answer to a start (agent/nodes/rank_set.h). */
void attempt_on_started(void *arg, const struct rank_set_started *s);

/* Closes every handle, so that the loop ends. */
void attempt_leave(struct attempt *a);

/* --- attempt_launch.c ---------------------------------------------------------------------- */

/* Keeps it. */
int attempt_take_launch(struct attempt *a, const json_t *body, struct err *err);
/* What runs here, and the plan of this node, after a trial of its GPUs where that is wanted; tells the
 * facts. Then, at once or from the loop, `planned`, or it is refused. */
void attempt_begin(struct attempt *a, void (*planned)(struct attempt *a));
/* The core has not been told to begin, and nobody has ended it before it could. */
bool attempt_is_waiting(const struct attempt *a);
/* The plan is made: watch and mirror, then the core has the word. */
void attempt_ready(struct attempt *a);
/* The moments to save before a->deadline_s, from now on. */
void attempt_watch_deadline(struct attempt *a);
/* Hook of the world: the driver of another node has told of a GPU. */
void attempt_on_gpu_there(void *arg, int node, const struct gpu_event *e);
/* It cannot run, or (`missing`) not without who has not come. */
void attempt_refuse(struct attempt *a, const char *refusal, const struct agent_lost *missing);

/* --- attempt_nodes.c: a LAUNCH of several nodes, after attempt_take_launch() --------------- */

void attempt_gather(struct attempt *a);
/* Tell the controller, again after each LAUNCH, where the other nodes find this one. */
void attempt_show_listener(struct attempt *a);
/* The controller knows that an agent is gone, or will not come. */
void attempt_on_node_gone(struct attempt *a, const json_t *body);
/* Hooks of the world, see agent/nodes/leader.h. */
void attempt_on_gathered(void *arg);
void attempt_on_prepared(void *arg, const char *refusal);
void attempt_on_lost(void *arg, const struct agent_lost *l);
void attempt_on_notice(void *arg, int node, const char *reason, int64_t grace_ms);

#endif
