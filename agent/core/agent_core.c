/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core.c - see agent_core.h; the phases follow in the order of an attempt's life */
#include "agent/core/agent_core_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_effects.h"
#include "agent/core/agent_event.h"
#include "agent/core/cause.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum {
    LONGEST_GRACE_MS = 600000, /* for the checkpoint before a stop */
    ABORT_MS = 700,            /* for a hung command to print its stacks */
    KILL_REPEAT_MS = 1000      /* SIGKILL is repeated: a child may have forked meanwhile */
};

/* --- the end of the attempt ------------------------------------------------------------ */

static void finish_attempt(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    json_t *body = agent_event_totals(&c->blame, &c->tracker, &c->restart_policy);
    json_t *how =
        json_make("{s:s, s:s, s:i, s:b, s:I, s:b, s:b, s:b}", "result", c->result, "text", c->text,
                  "generations", c->generation, "clean", in->cleaned.clean && !c->not_clean,
                  "wall_ms", (json_int_t)(c->launched_ms ? in->now_ms - c->launched_ms : 0),
                  "retry_helps", c->retry_helps, "gave_up", c->gave_up, "early", c->restart_policy.early);
    if (body && how)
        json_object_update(body, how);
    json_decref(how);
    c->phase = AGENT_OVER;
    agent_effects_event(out, "attempt_ended", body);
    agent_effects_add(out, DO_FINISH);
}

/* --- starting ---------------------------------------------------------------------------*/

/* The job cannot run here. It waits for a directory that another job has, which is not a failure (retry.h). */
static void refuse(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    const char *text = in->launch.refusal ? in->launch.refusal : "no memory for the ranks";
    const enum cause cause = !in->launch.refusal ? CAUSE_UNKNOWN
                             : in->launch.cause  ? in->launch.cause : CAUSE_CONFIG_ERROR;
    const bool helps = in->launch.cause && cause_retry_helps(cause);
    char now[FINGERPRINT];
    c->blame.verdict.cause = cause;
    restart_policy_fingerprint(now, cause_name(cause), &(struct agent_exit){.rank = -1}, text, "", -1);
    if (cause == CAUSE_DIR_IN_USE)
        restart_policy_repeat(&c->restart_policy, now);
    else if (helps)
        restart_policy_failure(&c->restart_policy, now, 0);
    agent_core_close(c, out, "failed", helps, false, text);
}

static void on_launch(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase != AGENT_IDLE)
        return;
    c->job = in->launch;
    c->launched_ms = in->now_ms;
    progress_tracker_init(&c->tracker, in->launch.history.last_step);
    restart_policy_init(&c->restart_policy, &in->launch.budget, &in->launch.history);
    nccl_fallback_init(&c->fallback, json_object_get(in->launch.plan, "fallbacks"), in->launch.history.fallbacks);
    const json_t *image = in->launch.container;
    c->image = image ? json_make("{s:s, s:s, s:s}", "image", field_text(image, "image"), "runtime",
                                 field_text(image, "runtime"), "why", field_text(image, "why")) : NULL;
    c->job.history.fingerprint = c->job.refusal = NULL;
    c->job.container = NULL;
    c->job.missing = NULL;
    if (c->job.np > 0)
        c->ranks = calloc((size_t)c->job.np, sizeof(*c->ranks));
    int known = gpu_blame_init(&c->gpu_blame, in->launch.plan, in->launch.facts);
    c->job.plan = c->job.facts = NULL;
    if (in->launch.missing) {
        agent_core_nobody_came(c, in, out);
        return;
    }
    if (in->launch.refusal || !c->ranks || known < 0) {
        refuse(c, in, out);
        return;
    }
    agent_core_start(c, in, out);
}

static void on_spawned(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase != AGENT_SPAWNING || in->spawn.generation != c->generation)
        return;
    json_t *pids = json_array();
    for (int i = 0; i < c->job.np; i++) {
        c->ranks[i].pid = in->spawn.pids[i];
        c->ranks[i].alive = true;
        json_array_append_new(pids, json_integer(in->spawn.pids[i]));
    }
    c->alive = c->job.np;
    c->ranks_ms = in->now_ms;
    c->phase = AGENT_RUNNING;
    int64_t memory = in->spawn.snapshot_step;
    int64_t from = memory > 0 ? memory : c->tracker.checkpoint;
    bool known = from >= 0;
    json_t *body = json_make("{s:i, s:i, s:o, s:o, s:b}", "generation", c->generation, "np",
                             c->job.np, "pids", pids, "resume_step",
                             known ? json_integer(from) : json_null(), "fresh", !known);
    if (body && c->keep)
        json_object_set_new(body, "ranks_kept", json_integer(c->keep));
    c->keep = 0;
    agent_effects_event(out, "generation_started", body);
}

/* --- stopping ---------------------------------------------------------------------------*/

/* The present stage has used up its time: go to the next, harsher one. */
static void escalate(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->stage == STAGE_FLAG && now_ms < c->kill_at) {
        c->stage = STAGE_TERM;
        agent_core_signal(out, SIGTERM);
        agent_core_timer(c, out, c->kill_at);
        return;
    }
    if (c->phase == AGENT_ENDING && c->stage == STAGE_TERM && agent_core_wants_stacks(c)) {
        c->stage = STAGE_ABORT;
        agent_core_signal(out, SIGABRT);
        agent_core_timer(c, out, now_ms + ABORT_MS);
        return;
    }
    c->stage = STAGE_KILL;
    agent_core_signal(out, SIGKILL);
    agent_core_timer(c, out, now_ms + KILL_REPEAT_MS);
}

/* A stop by the user or the controller. The engine gets half of the grace period to act on the
 * flag; a plain command only understands SIGTERM. */
static void stop_processes(struct agent_core *c, int64_t now_ms, int64_t grace_ms, bool gently,
                           struct agent_effects *out)
{
    c->kill_at = now_ms + (grace_ms > 0 ? grace_ms : 0);
    c->stage = STAGE_FLAG;
    agent_effects_add(out, DO_CONTROL)->command = "stop";
    if (gently && grace_ms > 1)
        agent_core_timer(c, out, now_ms + grace_ms / 2);
    else
        escalate(c, now_ms, out);
}

/* A slow checkpoint gets twice its usual time; a caller that cannot wait that long kills the
 * agent. */
static int64_t enough(const struct agent_core *c, const struct agent_input *in)
{
    const int64_t asked = in->stop.grace_ms, twice = 2 * c->tracker.checkpoint_ms;
    if (!in->stop.checkpoint || !c->job.engine || asked >= twice)
        return asked;
    return twice < LONGEST_GRACE_MS ? twice : LONGEST_GRACE_MS;
}

static void on_stop(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase == AGENT_CLOSING || c->phase == AGENT_OVER)
        return;
    bool again = c->stop_asked;
    c->stop_asked = true;
    if (!again) {
        c->preempted = in->stop.preempted;
        snprintf(c->stop_reason, sizeof(c->stop_reason), "%s", in->stop.reason ? in->stop.reason : "");
        agent_effects_event(out, "stop_asked",
                            json_make("{s:s, s:b}", "reason", c->stop_reason, "checkpoint", in->stop.checkpoint));
    }
    switch (c->phase) {
    case AGENT_IDLE:
    case AGENT_BACKOFF:
        agent_core_close(c, out, "stopped", false, false, c->stop_reason);
        break;
    case AGENT_SETUP:
    case AGENT_RUNNING:
        if (c->phase == AGENT_RUNNING)
            c->phase = AGENT_ENDING;
        stop_processes(c, in->now_ms, enough(c, in),
                       in->stop.checkpoint && c->job.engine && c->phase != AGENT_SETUP, out);
        break;
    case AGENT_ENDING:
        /* A repeated stop, or one during a cascade, can only shorten the grace period. */
        if (c->stage < STAGE_KILL && in->now_ms + in->stop.grace_ms < c->kill_at)
            stop_processes(c, in->now_ms, in->stop.grace_ms, false, out);
        break;
    default:
        c->stop_grace_ms = in->stop.grace_ms; /* SPAWNING: applied once the ranks exist */
        break;
    }
}

/* --- when no process is left ------------------------------------------------------------*/

static void on_swept(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (!in->cleaned.clean && (c->phase == AGENT_ENDING || c->phase == AGENT_CLOSING)) {
        c->not_clean = true;
        char text[300];
        snprintf(text, sizeof(text), "a process survived SIGKILL: %.200s",
                 in->cleaned.left ? in->cleaned.left : "unknown");
        agent_effects_event(out, "warning", json_make("{s:n, s:s}", "rank", "text", text));
    }
    if (c->phase == AGENT_CLOSING)
        finish_attempt(c, in, out);
    if (c->phase != AGENT_ENDING || c->stage != STAGE_CLEANUP)
        return;
    if (c->done_seen && !c->blame.failed) {
        agent_core_close(c, out, "succeeded", false, false, "the run is complete");
    } else if (c->stop_asked) {
        agent_core_close(c, out, "stopped", false, false, c->stop_reason);
    } else if (c->blame.failed) {
        agent_core_decide(c, in, out);
    } else {
        if (c->tracker.step < 0) /* no step lines: all time of a successful run was productive */
            c->tracker.productive_ms += in->now_ms - c->generation_ms;
        char text[sizeof(c->text)];
        success_note_say(text, sizeof(text), &c->note, c->tracker.step, c->tracker.steps,
                         in->cleaned.left ? in->cleaned.left : "");
        agent_core_close(c, out, "succeeded", false, false, text);
    }
}

/* Reports a failed start as a failure like any other. */
static void on_spawn_failed(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase != AGENT_SPAWNING || in->spawn.generation != c->generation)
        return;
    struct verdict v = {.cause = CAUSE_UNKNOWN, .retry_helps = true};
    snprintf(v.detail, sizeof(v.detail), "%s", in->spawn.text ? in->spawn.text : "cannot start");
    snprintf(v.text, sizeof(v.text), "%s", v.detail);
    root_cause_set(&c->blame, &(struct agent_exit){.generation = c->generation}, &v, in->now_ms);
    agent_core_generation_over(c, in->now_ms, out);
}

/* What runs before the ranks. */
struct before {
    const char *done, *is, *kind; /* its event, its name in messages, its fingerprint */
};

static struct before take_before(struct agent_core *c)
{
    const struct before is = c->pulling    ? (struct before){"pull_done", "the pull", "pull"}
                             : c->fetching ? (struct before){"fetch_done", "the download of the job's models", "fetch"}
                                           : (struct before){"setup_done", "the setup", "setup"};
    c->pulling = false;
    return is;
}

static void went_well(struct agent_core *c, const struct before *is, const struct agent_input *in,
                      struct agent_effects *out)
{
    c->setup_done = c->setup_done || strcmp(is->kind, "setup") == 0;
    c->fetched = c->fetched || c->fetching;
    c->fetching = false;
    c->pulled = true;
    agent_core_start(c, in, out);
}

/* The last line of jobctl-fetch is its reason, which ends with the command that helps. */
static void say_reason(const struct agent_core *c, const struct agent_exit *e, struct verdict *v)
{
    char last[CAUSE_TEXT - 100];
    static const char who[] = "jobctl-fetch: ";
    cause_last_line(last, sizeof(last), e->last_lines);
    if (c->fetching && !e->signalled && strncmp(last, who, strlen(who)) == 0)
        snprintf(v->detail, sizeof(v->detail), "failed: %s", last + strlen(who));
}

static void went_wrong(struct agent_core *c, const struct before *is, const struct agent_input *in,
                       struct agent_effects *out)
{
    const struct agent_exit *e = &in->exited;
    struct verdict v;
    char now[FINGERPRINT];
    cause_classify(&v, &(struct evidence){.signalled = e->signalled, .signo = e->signo, .exit_code = e->exit_code,
                                          .last_lines = e->last_lines, .command = e->command}, 0);
    say_reason(c, e, &v);
    c->fetching = false;
    snprintf(v.text, sizeof(v.text), "%s %s%.60s%s%.400s", is->is, e->node ? "on " : "", e->node ? e->node : "",
             e->node ? " " : "", v.detail);
    root_cause_set(&c->blame, e, &v, in->now_ms);
    restart_policy_fingerprint(now, is->kind, e, v.detail, v.place, -1);
    restart_policy_failure(&c->restart_policy, now, 0);
    restart_policy_at_line(&c->restart_policy, v.place[0], false, e->after_ms);
    agent_core_decide(c, in, out);
}

static void on_setup_exited(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase != AGENT_SETUP)
        return;
    const struct agent_exit *e = &in->exited;
    json_t *body = json_make("{s:I}", "ms", (json_int_t)e->after_ms);
    agent_event_add_exit(body, e);
    const struct before is = take_before(c);
    agent_effects_event(out, is.done, body);
    if (c->stop_asked)
        agent_core_close(c, out, "stopped", false, false, c->stop_reason);
    else if (!e->signalled && e->exit_code == 0)
        went_well(c, &is, in, out);
    else
        went_wrong(c, &is, in, out);
}

static void on_timer(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->timer_at == 0 || in->now_ms < c->timer_at)
        return;
    c->timer_at = 0;
    if (c->phase == AGENT_BACKOFF)
        agent_core_start(c, in, out);
    else if (c->phase == AGENT_ENDING && c->stage == STAGE_REPORT)
        agent_core_stop_hanging(c, in->now_ms, out);
    else if (c->phase == AGENT_RUNNING || (c->phase == AGENT_ENDING && c->stage == STAGE_PART))
        agent_core_detach_late(c, in->now_ms, out);
    else if (c->phase == AGENT_ENDING || (c->phase == AGENT_SETUP && c->stop_asked)) {
        escalate(c, in->now_ms, out);
        c->grace_over = c->stage == STAGE_KILL;
    }
}

/* --- the machine ------------------------------------------------------------------------*/

int agent_core_create(struct agent_core **out, struct err *err)
{
    struct agent_core *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_MEMORY, "no memory for an agent");
    progress_tracker_init(&c->tracker, 0);
    *out = c;
    return 0;
}

void agent_core_destroy(struct agent_core *c)
{
    if (!c)
        return;
    root_cause_clear(&c->blame);
    progress_tracker_fini(&c->tracker);
    gpu_blame_fini(&c->gpu_blame);
    nccl_fallback_fini(&c->fallback);
    json_decref(c->image);
    free(c->ranks);
    free(c);
}

void agent_core_step(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    static void (*const handlers[])(struct agent_core *, const struct agent_input *, struct agent_effects *) = {
        [INPUT_LAUNCH] = on_launch,      [INPUT_SETUP_EXITED] = on_setup_exited,
        [INPUT_SPAWNED] = on_spawned,    [INPUT_SPAWN_FAILED] = on_spawn_failed,
        [INPUT_RANK_EXITED] = agent_core_exited,
        [INPUT_PROGRESS] = agent_core_hear,
        [INPUT_HANG] = agent_core_hang,
        [INPUT_REPORTED] = agent_core_reported,
        [INPUT_TIMER] = on_timer,        [INPUT_STOP] = on_stop,
        [INPUT_CLEANED] = on_swept,      [INPUT_NODE_LOST] = agent_core_lose,
    };
    out->n = 0;
    if (in->kind == INPUT_CHECKPOINT) {
        if (c->phase == AGENT_RUNNING)
            agent_effects_add(out, DO_CONTROL)->command = "checkpoint";
        return;
    }
    handlers[in->kind](c, in, out);
    /* A stop that arrived while the ranks were being started. */
    if (c->stop_asked && c->phase == AGENT_RUNNING) {
        c->phase = AGENT_ENDING;
        stop_processes(c, in->now_ms, c->stop_grace_ms, false, out);
    }
}
