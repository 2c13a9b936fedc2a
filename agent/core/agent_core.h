/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core.h - what an agent decides: generations, stopping, restarts, the end
 *
 * Pure: no clock, no I/O.
 * A state machine: one input in, a list of effects out. Time, randomness, processes and the network
 * reach it only as inputs, so a simulator drives the same code as the agent. The shell performs the
 * effects of one step in order, events first (they are stored before anything happens), and feeds
 * the results back. An input that has no meaning in the present phase (a stale timer, a rank of an
 * older generation) changes nothing.
 *
 *   IDLE -launch-> SETUP -> SPAWNING -> RUNNING -> ENDING -> SPAWNING (at once)
 *                                                        |-> BACKOFF -> SPAWNING
 *                                                        '-> CLOSING -> OVER
 *
 * The first rank that fails or hangs is the root cause; the others are cascade and are stopped.
 * ENDING: report (after a hang), stop flag, SIGTERM, grace, SIGKILL, cleanup; CLOSING cleans up
 * once more, for every process of the attempt. attempt_ended is always the last event.
 *
 * A lost node takes its ranks with it, and the attempt ends once the other ranks are stopped: the
 * controller chooses the nodes of the next attempt. Ranks on other nodes may have noticed the loss first; their errors
 * are consequences of the loss.
 *
 * Engine ranks that only lost a peer may continue in their processes (agent_core_rejoin.c): the
 * generation then ends without a cleanup, once all surviving ranks have sent "detached".
 *
 * A lost lease of the checkpoint directory ends the attempt in the same way, at once.
 *
 * A GPU that failed (agent/core/gpu_blame.h) ends the attempt: the event `excluded` names it, and
 * the controller starts the next attempt without it.
 *
 * A generation made progress when its last step, or its newest checkpoint, is
 * beyond anything seen before in this job (agent/core/progress_tracker.h).  Only failures without
 * progress count against the budget (agent/core/restart_policy.h).
 */
#ifndef AGENT_CORE_AGENT_CORE_H
#define AGENT_CORE_AGENT_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/cause.h"

struct agent_effects;
struct err;
struct agent_core;

enum agent_phase {
    AGENT_IDLE,     /* no job yet */
    AGENT_SETUP,    /* the job's image is pulled, its models are fetched, or its `setup:` runs */
    AGENT_SPAWNING, /* ranks requested, not yet started */
    AGENT_RUNNING,
    AGENT_ENDING,  /* a generation has ended or is being stopped */
    AGENT_BACKOFF, /* waiting before the next generation */
    AGENT_CLOSING, /* the last cleanup */
    AGENT_OVER,
    AGENT_PHASES
};

enum agent_input_kind {
    INPUT_LAUNCH,
    INPUT_SETUP_EXITED,
    INPUT_SPAWNED,      /* reply to DO_SPAWN */
    INPUT_SPAWN_FAILED, /* or this; no process of the generation is left */
    INPUT_RANK_EXITED,
    INPUT_PROGRESS, /* a line of a rank (engine/contract/progress.h) */
    INPUT_HANG,     /* a rank hangs (agent/monitor/hang_detector.h) */
    INPUT_REPORTED, /* reply to DO_INCIDENT: soon, late or never */
    INPUT_TIMER,    /* the time of the last DO_TIMER has passed */
    INPUT_STOP,
    INPUT_CHECKPOINT,
    INPUT_CLEANED,  /* reply to DO_CLEANUP */
    INPUT_NODE_LOST /* one node of several is lost, with all of its ranks; or the lease is */
};

/* A node that is lost or never connected; or no node, but the lease of checkpoint.dir (agent/os/lease.h): node and
 * first_rank -1, no ranks. Then no rank may continue, because its checkpoints would be refused. */
struct agent_lost {
    bool        lease;
    int         node;
    const char *name;
    const char *text;      /* names the node: "gpu3: heartbeat timed out ..." */
    int first_rank, ranks; /* its ranks */
};

struct agent_budget {
    int64_t restarts; /* limit without progress; 0 = never restart */
    int64_t backoff_min_ms, backoff_max_ms;
    int64_t no_progress; /* this many identical failures end the attempt */
    int64_t same_line, same_line_ms; /* ... at one line of a script, so soon after its start (restart_policy.h) */
    int64_t early_ms;                /* a command that fails this soon is not restarted; 0 = it is */
};

/* Counters carried over from earlier attempts of the job. */
struct agent_history {
    int64_t     failures_without_progress;
    int64_t     same_fingerprint;
    int64_t last_step;       /* the highest step ever reached */
    const char *fingerprint; /* of the last failure, "" = none */
    int fallbacks;           /* number of NCCL fallbacks in use */
};

struct agent_launch {
    int                  np;
    bool                 engine;    /* `train:`, else `run:` */
    bool                 has_setup, has_fetch;
    const json_t        *container; /* of the plan: its image is pulled before anything else; NULL: none */
    /* surviving ranks may wait for the next generation (engine/train/rejoin.h) */
    bool                 rejoin;
    const char *refusal; /* NULL, or why the job cannot run here ... */
    enum cause cause;    /* ... and its cause; CAUSE_NONE: config_error */
    const struct agent_lost *missing; /* NULL, or a node that did not connect: node_lost */
    struct agent_budget  budget;
    struct agent_history history;
    const json_t *plan, *facts; /* agent/plan/plan.h; NULL: ranks have no GPUs */
};

/* How a process ended. */
struct agent_exit {
    int         generation; /* 0: the setup */
    int         rank;
    int64_t     pid;
    bool        signalled;
    int         signo;
    int         exit_code;
    bool        oom_killed;
    int64_t after_ms;                        /* since the process started */
    int64_t init_ms, data_ms, checkpoint_ms; /* time in these phases; 0: not known */
    bool gpu_held;          /* a program has computed on its GPU */
    bool none;              /* no process ended: stands for another kind of failure */
    const char *last_lines; /* tail of its output, or NULL */
    const char *kernel;     /* recent kernel messages, or NULL */
    const char *node;       /* name of its node; NULL: single-node job */
    const char *command;    /* `run:` or `setup:`, or NULL */
};

struct agent_input {
    enum agent_input_kind kind;
    int64_t now_ms;               /* monotonic: never smaller than in the input before */
    double                jitter; /* [0, 1) */
    /* Only the member for this kind is set.  Everything is borrowed for the call. */
    struct agent_launch launch;
    struct agent_exit   exited;   /* INPUT_SETUP_EXITED too */
    struct {
        int            generation;
        const int64_t *pids;      /* np entries */
        int64_t snapshot_step;    /* step to resume from memory; 0: from a checkpoint */
        const char    *text;      /* INPUT_SPAWN_FAILED: why */
    } spawn;
    struct {
        int           generation, rank;
        const json_t *line;
        int64_t       init_ms, data_ms, checkpoint_ms; /* with "detached": as in struct agent_exit */
    } progress;
    struct {
        int generation, rank;         /* generation 0: the present one; rank -1: all ranks */
        bool        init;             /* before the first step */
        bool value;                   /* its result is wrong, such as a NaN loss */
        const char *fault;            /* NULL, or the driver's error for its GPU (gpu_watch.h) */
        const char *text;
    } hang;
    struct {
        int           generation;
        const json_t *body; /* {path, text, ...}, or NULL: no report */
    } reported;
    struct {
        const char *reason;
        int64_t     grace_ms;
        bool        checkpoint;
        bool preempted; /* the machine is about to end; jobctl did not request the stop */
    } stop;
    struct {
        bool        clean;
        const char *left; /* the process that survived; if clean, those that were still running */
    } cleaned;
    struct agent_lost lost;
};

/* State for a heartbeat; numbers are NAN or -1 when not known. */
struct agent_view {
    enum agent_phase phase;
    int     generation;
    int     ranks_alive;
    int64_t step, steps;
    double  loss, lr, samples_per_s, step_ms;
};

int agent_core_create(struct agent_core **out, struct err *err);
void agent_core_destroy(struct agent_core *core);

/* Fills *out. Its old content is not freed: call agent_effects_fini() after each step. */
void agent_core_step(struct agent_core *core, const struct agent_input *in, struct agent_effects *out);

void agent_core_view(const struct agent_core *core, struct agent_view *out);
const char *agent_phase_name(enum agent_phase phase);

#endif
