/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_internal.h - the inside of an agent's core, shared by agent_core*.c only */
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

/* How far the stopping of a generation has got. */
enum stage { STAGE_REPORT, STAGE_PART, STAGE_FLAG, STAGE_TERM, STAGE_KILL, STAGE_CLEANUP };

/* One rank of the generation. */
struct rank {
    int64_t pid;
    bool alive;
    bool detached; /* it lost the others, and waits */
    struct spell_rank time;
    char reported[32]; /* cause of its own `failed` line, or "" */
    char text[224];
    int64_t failed_step; /* of that line, -1 = none */
};

struct agent_core {
    enum agent_phase phase;
    struct agent_launch job; /* its pointers are not kept */
    int64_t launched_ms;
    int64_t timer_at; /* 0 = none */

    int generation;
    int64_t generation_ms; /* when it was started */
    int64_t ranks_ms;      /* when its ranks were there; 0 = they never were */
    struct rank *ranks;
    int alive;
    bool setup_done, done_seen;
    bool told; /* generation_ended */
    int keep;  /* ranks that go on in their processes, until the next generation is there */

    struct root_cause blame; /* the failure that decides */
    bool not_clean;     /* a sweep found something that would not die */
    bool lost;          /* a node: the attempt ends when nothing of the generation is left */
    char lost_text[300];

    /* stopping */
    enum stage stage;
    bool stop_asked, preempted;
    bool grace_over;       /* it was not enough: SIGKILL */
    int64_t kill_at;       /* when the grace ends */
    int64_t stop_grace_ms; /* of a stop that came while spawning */
    char stop_reason[200];

    struct progress_tracker tracker;
    struct restart_policy restart_policy;
    struct nan_policy nan_policy;
    struct gpu_blame gpu_blame;
    struct nccl_fallback fallback;

    /* how the attempt ends */
    const char *result;
    char text[400];
    bool retry_helps, gave_up;
};

/*
 * From the bottom up: act and again, over, part, then end, nodes and words, which hear; a file calls
 * those below it, agent_core.c all.
 */

/* agent_core_actions.c.  The one timer; 0 = none. */
void agent_core_timer(struct agent_core *c, struct agent_effects *out, int64_t at_ms);
void agent_core_signal(struct agent_effects *out, int signo);
/* The next generation, or the setup before it. */
void agent_core_start(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* The story of the failure, by a debugger too if asked; INPUT_REPORTED follows. */
void agent_core_ask_report(const struct agent_core *c, bool inspect, struct agent_effects *out);
/* Others wait in vain for a rank that has failed: SIGTERM at once, SIGKILL after the grace. */
void agent_core_stop_cascade(struct agent_core *c, int64_t now_ms, int64_t grace_ms,
                             struct agent_effects *out);
/* Everything that can be said is known: sweep, then say it. */
void agent_core_close(struct agent_core *c, struct agent_effects *out, const char *result,
                      bool retry_helps, bool gave_up, const char *text);

/* agent_core_restart.c: a generation, or the setup, failed, and nothing of it is left. */
void agent_core_decide(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* What failed was a hang for which the plan has something left to try. */
bool agent_core_has_fallback(const struct agent_core *c);

/* agent_core_generation_end.c: generation_ended, while its ranks may live. */
void agent_core_tell_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
/* The same when no rank of it lives, or none ever did: then it is swept. */
void agent_core_generation_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_rejoin.c.  A rank, or more than one, has ended: the others are stopped if it failed,
 * or given time to part from it; swept if it was the last. */
void agent_core_end_others(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
void agent_core_hear_detached(struct agent_core *c, const struct agent_input *in,
                              struct agent_effects *out);
/* The next generation, if all that live have parted. */
void agent_core_join(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
/* Who waits for others is stopped, for there will be none. */
void agent_core_detach_cancel(struct agent_core *c, int64_t now_ms, struct agent_effects *out);
void agent_core_detach_late(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_rank_end.c: INPUT_RANK_EXITED, INPUT_HANG, INPUT_REPORTED. */
void agent_core_exited(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_hang(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_reported(struct agent_core *c, const struct agent_input *in,
                         struct agent_effects *out);
/* The report of a hang is there, or late. */
void agent_core_stop_hanging(struct agent_core *c, int64_t now_ms, struct agent_effects *out);

/* agent_core_nodes.c: INPUT_NODE_LOST, and an INPUT_LAUNCH for which not all nodes came. */
void agent_core_lose(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);
void agent_core_nobody_came(struct agent_core *c, const struct agent_input *in,
                            struct agent_effects *out);

/* agent_core_rank_lines.c: INPUT_PROGRESS, what a rank says of itself. */
void agent_core_hear(struct agent_core *c, const struct agent_input *in, struct agent_effects *out);

#endif
