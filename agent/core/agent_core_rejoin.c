/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_rejoin.c - ranks that have lost another one go on in their processes; see agent_core.h
 *
 * Pure: no clock, no I/O.
 * A rank of the engine whose collective fails lets go of the run, says so ("detached") and waits
 * (engine/train/rejoin.h).  Once all that live have parted the generation is over, and the next one
 * has them and new processes for those that are gone.  Where that takes too long, or is not the
 * time to start at once, they are stopped as any other rank.
 */
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/cause.h"
#include "agent/core/rank_line.h"

enum {
    PART_MS = 5000,
    CASCADE_GRACE_MS = 3000 /* for ranks whose neighbour has died */
};

static bool all_detached(const struct agent_core *c)
{
    for (int i = 0; i < c->job.np; i++)
        if (c->ranks[i].alive && !c->ranks[i].detached)
            return false;
    return c->alive > 0;
}

/* Is it only that somebody is gone? */
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

/* Nobody has died, and yet they have lost each other. */
static void blame_the_way(struct agent_core *c, int rank, int64_t now_ms)
{
    struct verdict v = {.cause = CAUSE_NCCL_ERROR, .retry_helps = true};
    snprintf(v.detail, sizeof(v.detail), "%s", c->ranks[rank].text);
    snprintf(v.text, sizeof(v.text), "rank %d lost the others: %.180s", rank, c->ranks[rank].text);
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

void agent_core_hear_detached(struct agent_core *c, const struct agent_input *in,
                              struct agent_effects *out)
{
    struct rank *r = &c->ranks[in->progress.rank];
    const char *cause = rank_line_text(in->progress.line, "cause");
    const char *text = rank_line_text(in->progress.line, "text");
    if (!r->alive || r->detached)
        return;
    r->detached = true;
    r->time = (struct spell_rank){in->now_ms - c->ranks_ms, in->progress.init_ms,
                                  in->progress.data_ms, in->progress.checkpoint_ms};
    /* Should it end after all, this is why. */
    snprintf(r->reported, sizeof(r->reported), "%s", cause ? cause : "");
    snprintf(r->text, sizeof(r->text), "%s", text ? text : "");
    if (c->phase == AGENT_RUNNING && !c->blame.failed) {
        if (!all_detached(c)) { /* one has died, and that is not known yet; or it is stuck */
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
