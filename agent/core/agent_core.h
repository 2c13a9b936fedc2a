/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core.h - what an agent decides: generations, stopping, restarts, the end
 *
 * Pure: no clock, no I/O.
 * A pure machine: one input in, a list of effects out.  Time, randomness,
 * processes and the network reach it only as inputs, so a simulator drives the
 * same code as the agent does.  The shell performs the effects of one step in
 * their order, events first (they are stored before anything happens), and
 * feeds back what came of them.  An input that has no meaning in the present
 * phase - a stale timer, a rank of an older generation - changes nothing.
 *
 *   IDLE -launch-> SETUP -> SPAWNING -> RUNNING -> ENDING -> SPAWNING (at once)
 *                                                        |-> BACKOFF -> SPAWNING
 *                                                        '-> CLOSING -> OVER
 *
 * The first rank that fails or hangs decides; the others are cascade and are stopped.
 * ENDING: report (after a hang), flag, SIGTERM, grace, SIGKILL, sweep; CLOSING sweeps
 * once more, for everything of the attempt.  attempt_ended is always the last event.
 *
 * A node that is lost takes its ranks along, and the attempt ends when the others are stopped: on
 * which nodes the job goes on is the controller's choice.  Ranks elsewhere may have noticed first,
 * and what they say then only echoes it.
 *
 * Ranks of the engine that only lost another one may go on in their processes
 * (agent_core_rejoin.c): then the generation ends without a sweep, once all that live have
 * "detached".
 *
 * A GPU that failed (agent/core/gpu_blame.h) ends the attempt: `excluded` names it, and the
 * controller begins another one without it.
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

struct agent_effects;
struct err;
struct agent_core;

enum agent_phase {
    AGENT_IDLE,      /* nothing to run yet */
    AGENT_SETUP,     /* the job's `setup:` runs */
    AGENT_SPAWNING,  /* ranks asked for, not yet there */
    AGENT_RUNNING,
    AGENT_ENDING,    /* a generation is over, or is being made to end */
    AGENT_BACKOFF,   /* waiting before the next one */
    AGENT_CLOSING,   /* the last sweep */
    AGENT_OVER,
    AGENT_PHASES
};

enum agent_input_kind {
    INPUT_LAUNCH,
    INPUT_SETUP_EXITED,
    INPUT_SPAWNED,       /* answers DO_SPAWN */
    INPUT_SPAWN_FAILED,  /* or this; nothing of the generation is left then */
    INPUT_RANK_EXITED,
    INPUT_PROGRESS,      /* a line of a rank (engine/contract/progress.h) */
    INPUT_HANG,          /* a rank stands still (agent/monitor/hang_detector.h) */
    INPUT_REPORTED,      /* answers DO_INCIDENT, sooner or later or never */
    INPUT_TIMER,         /* the time of the last DO_TIMER has come */
    INPUT_STOP,
    INPUT_CHECKPOINT,
    INPUT_CLEANED,       /* answers DO_CLEANUP */
    INPUT_NODE_LOST      /* of an attempt on several nodes: one of them, with all of its ranks */
};

/* A node that is gone, or never came. */
struct agent_lost {
    int         node;
    const char *name;
    const char *text;              /* "gpu3 was not heard of for 22 s; ...": names it */
    int         first_rank, ranks; /* those that were there */
};

struct agent_budget {
    int64_t restarts;        /* without progress; 0 = never restart */
    int64_t backoff_min_ms, backoff_max_ms;
    int64_t no_progress;     /* the same failure so often ends the attempt */
};

/* What was counted in earlier attempts of the job. */
struct agent_history {
    int64_t     failures_without_progress;
    int64_t     same_fingerprint;
    int64_t     last_step;   /* the furthest ever */
    const char *fingerprint; /* of the last failure, "" = none */
    int         fallbacks;   /* that were in use */
};

struct agent_launch {
    int                  np;
    bool                 engine;    /* `train:`, else `run:` */
    bool                 has_setup;
    /* its ranks were told that they may wait (engine/train/rejoin.h) */
    bool                 rejoin;
    const char          *refusal;   /* NULL, or why it cannot run here: ends as config_error */
    const struct agent_lost *missing; /* NULL, or who did not come: ends as node_lost */
    struct agent_budget  budget;
    struct agent_history history;
    const json_t        *plan, *facts; /* agent/plan/plan.h; NULL: its ranks have no GPUs */
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
    int64_t     after_ms;   /* since it was started */
    int64_t     init_ms, data_ms, checkpoint_ms; /* of that, in these phases; 0: not known */
    bool        none;       /* it has not ended: this stands for another kind of failure */
    const char *last_lines; /* of its output, or NULL */
    const char *kernel;     /* what the kernel has lately said, or NULL */
    const char *node;       /* the name of the node where it was; NULL: there is only one */
};

struct agent_input {
    enum agent_input_kind kind;
    int64_t               now_ms; /* never smaller than in the input before */
    double                jitter; /* [0, 1) */
    /* The one that the kind asks for.  Everything is borrowed for the call. */
    struct agent_launch launch;
    struct agent_exit   exited;   /* INPUT_SETUP_EXITED too */
    struct {
        int            generation;
        const int64_t *pids;      /* np of them */
        int64_t        snapshot_step; /* what they go on from in memory; 0: a checkpoint */
        const char    *text;      /* INPUT_SPAWN_FAILED: why */
    } spawn;
    struct {
        int           generation, rank;
        const json_t *line;
        int64_t       init_ms, data_ms, checkpoint_ms; /* with "detached": as in struct agent_exit */
    } progress;
    struct {
        int         generation, rank; /* generation 0: the present one; rank -1: all together */
        bool        init;             /* before the first step */
        bool        value;            /* what it computes is wrong, such as a loss of NaN */
        const char *fault;            /* NULL, or what the driver says of its GPU (gpu_watch.h) */
        const char *text;
    } hang;
    struct {
        int           generation;
        const json_t *body;           /* {path, text, ...}, or NULL: there is none */
    } reported;
    struct {
        const char *reason;
        int64_t     grace_ms;
        bool        checkpoint;
        bool        preempted; /* nobody of ours asked: the machine wants it */
    } stop;
    struct {
        bool        clean;
        const char *left;         /* not clean: who would not die */
    } cleaned;
    struct agent_lost lost;
};

/* What a heartbeat tells; numbers are NAN or -1 where not known. */
struct agent_view {
    enum agent_phase phase;
    int     generation;
    int     ranks_alive;
    int64_t step, steps;
    double  loss, lr, samples_per_s, step_ms;
};

int agent_core_create(struct agent_core **out, struct err *err);
void agent_core_destroy(struct agent_core *core);

/* Fills *out (what was in it is not freed: agent_effects_fini() after each step). */
void agent_core_step(struct agent_core *core, const struct agent_input *in,
                     struct agent_effects *out);

void agent_core_view(const struct agent_core *core, struct agent_view *out);
const char *agent_phase_name(enum agent_phase phase);

#endif
