/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_internal.h - state of the agent's core, shared by agent_core*.c only */
#ifndef AGENT_CORE_AGENT_CORE_INTERNAL_H
#define AGENT_CORE_AGENT_CORE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent_core.h"
#include "agent/core/goodput.h"
#include "agent/core/gpu_blame.h"
#include "agent/core/nan_policy.h"
#include "agent/core/nccl_fallback.h"
#include "agent/core/progress_tracker.h"
#include "agent/core/restart_policy.h"
#include "agent/core/root_cause.h"
#include "agent/core/success_note.h"

/* The stages of stopping a generation. */
enum stage { STAGE_REPORT, STAGE_PART, STAGE_FLAG, STAGE_TERM, STAGE_ABORT, STAGE_KILL, STAGE_CLEANUP };

/* One rank of the generation. */
struct rank {
    int64_t pid;
    bool alive;
    bool ended_well; /* with code 0, before any failure */
    bool detached; /* lost its peers and waits for the next generation */
    struct spell_rank time;
    char reported[32]; /* cause in its own `failed` line, or "" */
    char text[424];
    int64_t failed_step; /* step in that line, -1 = none */
};

struct agent_core {
    enum agent_phase phase;
    struct agent_launch job; /* its pointers are not kept after the call */
    int64_t launched_ms;
    int64_t timer_at; /* 0 = none */

    int generation;
    int64_t generation_ms; /* when it began */
    int64_t ranks_ms;      /* when its ranks had started; 0 = they never did */
    struct rank *ranks;
    int alive;
    bool setup_done, done_seen;
    json_t *image;        /* the body of pull_started; NULL: no container */
    bool pulling, pulled;
    bool fetching, fetched; /* models are being downloaded */
    bool told; /* generation_ended has been sent */
    int keep;  /* ranks that continue in their processes into the next generation */

    struct root_cause blame; /* root cause of the failure */
    struct success_note note;
    bool not_clean;          /* a process survived the cleanup */
    bool lost;               /* a node or the lease is lost: the attempt ends with the generation */
    enum cause lost_cause;
    char lost_text[300];

    /* stopping */
    enum stage stage;
    bool stop_asked, preempted;
    bool grace_over;       /* the grace period has expired: SIGKILL */
    int64_t kill_at;       /* when the grace period ends */
    int64_t stop_grace_ms; /* grace of a stop that arrived while spawning */
    char stop_reason[200];

    struct progress_tracker tracker;
    struct restart_policy restart_policy;
    struct nan_policy nan_policy;
    struct gpu_blame gpu_blame;
    struct nccl_fallback fallback;

    /* how the attempt ends */
    const char *result;
    char text[CAUSE_TEXT + 180];
    bool retry_helps, gave_up;
};

/*
 * Call order, bottom up: actions and restart, generation_end, rejoin, then rank_end, nodes and
 * rank_lines, which handle inputs. A file calls only those before it; agent_core.c calls all.
 */

/* agent_core_actions.c.  Sets the one timer; 0 = none. */
void agent_core_timer(struct agent_core *c, struct agent_effects *out, int64_t at_ms);
void agent_core_signal(struct agent_effects *out, int signo);
/* Starts the next generation, or the setup before the first. */
void agent_core_start(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* Asks for an incident report, with a debugger if `inspect`; INPUT_REPORTED follows. */
void agent_core_ask_report(const struct agent_core *c, bool inspect, struct agent_effects *out);
/* A rank failed, and the others wait for it: SIGTERM at once, SIGKILL after the grace. */
void agent_core_stop_cascade(struct agent_core *c, int64_t now_ms, int64_t grace_ms, struct agent_effects *out);
/* The outcome is known: clean up, then send attempt_ended. */
void agent_core_close(struct agent_core *c, struct agent_effects *out, const char *result,
                      bool retry_helps, bool gave_up, const char *text);

/* agent_core_restart.c: decides after a generation or the setup failed and no process is left. */
void agent_core_decide(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* The failure was a hang for which the plan has another fallback to try. */
bool agent_core_has_fallback(const struct agent_core *c);

/* agent_core_generation_end.c: sends generation_ended; its ranks may still be alive. */
void agent_core_tell_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
/* The same when none of its ranks is alive: then cleans up. */
void agent_core_generation_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_rejoin.c. A rank has ended: stops the others if it failed, or gives them time to
 * detach from it; cleans up if it was the last. */
void agent_core_end_others(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
void agent_core_hear_detached(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* Starts the next generation once all surviving ranks have detached. */
void agent_core_join(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* Stops the ranks that wait to rejoin, because no next generation will come. */
void agent_core_detach_cancel(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
void agent_core_detach_late(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_rank_end.c: INPUT_RANK_EXITED, INPUT_HANG, INPUT_REPORTED. */
void agent_core_exited(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_hang(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_reported(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* The hung ranks run a command: they print their stacks on SIGABRT. */
bool agent_core_wants_stacks(const struct agent_core *c);
/* The report of a hang has arrived, or is late. */
void agent_core_stop_hanging(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_nodes.c: INPUT_NODE_LOST, and an INPUT_LAUNCH to which not all nodes connected. */
void agent_core_lose(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_nobody_came(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);

/* agent_core_rank_lines.c: INPUT_PROGRESS, a line that a rank wrote. */
void agent_core_hear(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);

#endif
