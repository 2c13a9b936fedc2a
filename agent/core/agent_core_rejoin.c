/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_rejoin.c - ranks that lost a peer continue in their processes; see agent_core.h
 *
 * Pure: no clock, no I/O.
 * An engine rank whose collective fails detaches from the run, sends "detached" and waits
 * (engine/train/rejoin.h). Once all surviving ranks have sent it the generation is over, and the
 * next one consists of them and new processes for the ranks that died. If that takes too long, or
 * the next generation cannot start at once, they are stopped like any other rank.
 */
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/cause.h"
#include "agent/core/rank_line.h"
#include "engine/base/field.h"

enum {
    PART_MS = 5000,
    CASCADE_GRACE_MS = 3000 /* for ranks whose peer has died */
};

static bool all_detached(const struct agent_core *c)
{
    for (int i = 0; i < c->job.np; i++)
        if (c->ranks[i].alive && !c->ranks[i].detached)
            return false;
    return c->alive > 0;
}

/* Is the failure only that a peer is gone? */
static bool only_detached(const struct agent_core *c)
{
    const enum cause cause = c->blame.verdict.cause;
    return c->job.rejoin && !c->stop_asked && !c->lost && c->blame.verdict.retry_helps &&
           (cause == CAUSE_RANK_CRASH || cause == CAUSE_NCCL_ERROR);
}

static bool await_detached(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (!only_detached(c))
        return false;
    c->stage = STAGE_PART;
    c->kill_at = now_ms + PART_MS;
    agent_core_timer(c, out, now_ms + PART_MS);
    return true;
}

void agent_core_end_others(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->alive == 0) {
        agent_core_generation_over(c, now_ms, out);
    } else if (c->phase == AGENT_RUNNING && c->blame.failed) {
        c->phase = AGENT_ENDING;
        agent_core_ask_report(c, false, out);
        if (!await_detached(c, now_ms, out))
            agent_core_stop_cascade(c, now_ms, CASCADE_GRACE_MS, out);
    }
}

/* No rank died, but they lost each other. */
static void blame_the_way(struct agent_core *c, int rank, int64_t now_ms)
{
    struct verdict v = {.cause = CAUSE_NCCL_ERROR, .retry_helps = true};
    snprintf(v.detail, sizeof(v.detail), "%s", c->ranks[rank].text);
    snprintf(v.text, sizeof(v.text), "rank %d lost its peers: %.180s", rank, c->ranks[rank].text);
    root_cause_set(&c->blame,
                   &(struct agent_exit){.generation = c->generation, .rank = rank,
                                        .none = true}, &v,
                   now_ms);
}

static int first_detached(const struct agent_core *c)
{
    for (int i = 0; i < c->job.np; i++)
        if (c->ranks[i].alive && c->ranks[i].detached)
            return i;
    return -1;
}

void agent_core_join(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    char why[200];
    if (c->phase != AGENT_ENDING || c->stage != STAGE_PART || !all_detached(c))
        return;
    for (int i = 0; i < c->job.np; i++)
        if (c->ranks[i].alive)
            c->ranks[i].time.exit = in->now_ms - c->ranks_ms;
    agent_core_tell_over(c, in->now_ms, out);
    if (!only_detached(c) || gpu_blame_guilty(&c->gpu_blame) ||
        restart_policy_decide(&c->restart_policy, why, sizeof(why)) < 0 ||
        restart_policy_wait_ms(&c->restart_policy, in->jitter) > 0) {
        agent_core_stop_cascade(c, in->now_ms, CASCADE_GRACE_MS, out);
        return;
    }
    agent_core_timer(c, out, 0);
    c->keep = c->alive;
    agent_core_decide(c, in, out);
}

void agent_core_hear_detached(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    struct rank *r = &c->ranks[in->progress.rank];
    const char *cause = rank_line_text(in->progress.line, "cause");
    const char *text = rank_line_text(in->progress.line, "text");
    if (!r->alive || r->detached)
        return;
    r->detached = true;
    r->time = (struct spell_rank){in->now_ms - c->ranks_ms, in->progress.init_ms,
                                  in->progress.data_ms, in->progress.checkpoint_ms};
    /* Kept as the cause in case it exits after all. */
    snprintf(r->reported, sizeof(r->reported), "%s", cause ? cause : "");
    snprintf(r->text, sizeof(r->text), "%s", text ? text : "");
    if (c->phase == AGENT_RUNNING && !c->blame.failed) {
        if (!all_detached(c)) { /* one died and its exit is not reported yet, or one is stuck */
            agent_core_timer(c, out, in->now_ms + PART_MS);
            return;
        }
        blame_the_way(c, in->progress.rank, in->now_ms);
        agent_core_end_others(c, in->now_ms, out);
    }
    agent_core_join(c, in, out);
}

void agent_core_detach_cancel(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->phase == AGENT_ENDING && c->stage == STAGE_PART)
        agent_core_stop_cascade(c, now_ms, CASCADE_GRACE_MS, out);
}

void agent_core_detach_late(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    const int first = first_detached(c);
    if (c->phase == AGENT_RUNNING && first >= 0 && !c->blame.failed) {
        blame_the_way(c, first, now_ms);
        agent_core_end_others(c, now_ms, out);
    }
    agent_core_detach_cancel(c, now_ms, out);
}
