/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - see world.h: invariants, checked after every event
 *
 * Written from the headers of the modules, not from their code, so that a small change there contradicts this file.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/agent_effects.h"
#include "tests/sim/world.h"

enum { LOOK_EVERY = 8 };

static int64_t body_int(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

static const char *body_text(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : "";
}

/* min * 2^(n-2), at most max; nothing before the second failure. */
static int64_t backoff(const struct retry_rules *r, int64_t failures)
{
    if (failures < 2)
        return 0;
    int64_t doubled = failures - 2 < 40 ? r->backoff_min_ms << (failures - 2) : INT64_MAX;
    return doubled < r->backoff_max_ms ? doubled : r->backoff_max_ms;
}

/* ---- the scheduler: what could start is about to be looked at ---- */

static void wakes(struct world *w)
{
    struct sched_job queue[JOBS];
    struct sched_node node;
    if (!w->up)
        return;
    size_t n = hub_queue(w, queue, &node);
    if (node.cpus_free < 0)
        broke(w, "%lld CPU slots are given out, there are %d", (long long)(w->cpus - node.cpus_free), w->cpus);
    int64_t wake = -1;
    sched_run(queue, n, &node, w->now);
    const int64_t at = hub_pass(w), due = at == INT64_MAX ? INT64_MAX : at - w->now;
    for (size_t i = 0; i < n; i++) {
        if (queue[i].word == SCHED_BACKOFF && (wake < 0 || queue[i].not_before_ms < wake))
            wake = queue[i].not_before_ms;
        const bool now = queue[i].word == SCHED_PLACE || queue[i].word == SCHED_AFTER_FAILED;
        if (now && due > (w->full || w->now < FAULTS_UNTIL_MS ? 1002 : 2))
            broke(w, "the job with number %lld could start, but no scheduler pass runs for %lld ms",
                  (long long)queue[i].id, (long long)due);
    }
    if (wake >= 0 && due > wake - w->now + 2 && due > 2)
        broke(w, "a back-off is over in %lld ms, but the next scheduler pass runs in %lld",
              (long long)(wake - w->now), (long long)due);
}

/* ---- the controller ---- */

static void retry_commit(struct world *w, int job, const struct core_event *e, const struct core_input *in)
{
    const struct job_core *before = &w->store[job].latest;
    const struct retry_rules *r = &w->truth[job].rules;
    const struct job_core *c = &w->hub[job].core;
    const char *cause = in->kind != CORE_AGENT_LOST ? body_text(in->body, "cause") : in->event ? in->event : "";
    const bool dir = strcmp(cause, "dir_in_use") == 0 || strcmp(cause, "host_unreachable") == 0;
    const bool full = strcmp(cause, "disk_full") == 0;
    int64_t pause = backoff(r, dir ? c->same + 1 : full && c->same > c->failures ? c->same : c->failures);
    int64_t jitter = (int64_t)(in->random % (uint64_t)(pause / 4 + 1));
    if (dir && pause - jitter > RETRY_WAIT_MS)
        pause = RETRY_WAIT_MS + jitter;
    if (body_int(e->body, "delay_ms") != pause - jitter ||
        body_int(e->body, "not_before_ms") != e->at_ms + pause - jitter)
        broke(w, "job %d waits %lld ms after %lld failures, not %lld", job, (long long)body_int(e->body, "delay_ms"),
              (long long)c->failures, (long long)(pause - jitter));
    const bool limited = !dir && !full;    /* retry.h */
    if (limited && c->failures > r->max)
        broke(w, "job %d is tried again after %lld failures of at most %lld", job,
              (long long)c->failures, (long long)r->max);
    if (limited && r->no_progress > 0 && c->failures > 0 && c->same >= r->no_progress)
        broke(w, "job %d is tried again after %lld same failures", job, (long long)c->same);
    if (before->state == JOB_STOPPING)
        broke(w, "job %d was to stop and is tried again", job);
}

/* An attempt that died with its agent: did it gain anything? */
static void lost_commit(struct world *w, int job, const char *cause)
{
    const struct job_core *before = &w->store[job].latest, *c = &w->hub[job].core;
    int64_t due = c->best > before->attempt_best ? 0 : before->failures + retry_counts(cause);
    if (c->failures != due)
        broke(w, "job %d counts %lld failures after losing its agent, not %lld", job,
              (long long)c->failures, (long long)due);
}

/* Every millisecond of every rank is in one bucket. */
static void ledger_commit(struct world *w, int job, const struct core_event *e)
{
    const struct job_core *c = &w->hub[job].core;
    const struct job_goodput *a = &c->goodput;
    struct goodput told;
    if (!goodput_adds_up(&a->spent))
        broke(w, "job %d: the buckets do not sum to %lld rank-ms", job, (long long)a->spent.rank_ms);
    const json_t *spent = json_object_get(e->body, "goodput");
    const int np = w->agents[job][e->attempt].np;
    if (spent && (goodput_parse(&told, spent) < 0 || told.rank_ms % np))
        broke(w, "job %d: a generation's buckets do not sum to its wall time times %d ranks", job, np);
    if (e->kind == EVENT_GENERATION_ENDED && !spent && a->ranks_since_ms)
        broke(w, "job %d: a generation does not tell where its time went", job);
    if (e->kind != EVENT_DONE || w->asleep)    /* an agent does not count the time that its machine slept */
        return;
    if (a->wall_ms != c->ended_ms - c->submitted_ms - c->jumped_ms)
        broke(w, "job %d: %lld ms are accounted for, and it took %lld", job,
              (long long)a->wall_ms, (long long)(c->ended_ms - c->submitted_ms - c->jumped_ms));
    const int most = w->truth[job].np, least = most - __builtin_popcount(w->store[job].excluded);
    const bool many = a->np > 0 && (a->spent.rank_ms > a->wall_ms * most ||
                                    a->spent.rank_ms < a->wall_ms * (least > 0 ? least : 1));
    if (many || (a->np <= 0 && a->spent.rank_ms != a->wall_ms))
        broke(w, "job %d: %lld rank-ms in %lld ms", job, (long long)a->spent.rank_ms, (long long)a->wall_ms);
}

static void done_commit(struct world *w, int job, const struct core_event *e)
{
    const struct retry_rules *r = &w->truth[job].rules;
    const struct job_core *c = &w->hub[job].core;
    if (body_int(e->body, "exit_code") == 93 && c->failures <= r->max &&
        (r->no_progress == 0 || c->same < r->no_progress) && (r->same_line == 0 || c->same < r->same_line))
        broke(w, "job %d is given up after %lld failures, %lld the same", job,
              (long long)c->failures, (long long)c->same);
}

void rules_commit(struct world *w, int job, const struct core_event *e, const struct core_input *in)
{
    const struct stored *s = &w->store[job];
    if (s->done)
        broke(w, "job %d is done, and then came '%s'", job, e->name);
    const bool heard = e->from_agent || e->kind == EVENT_AGENT_UP;
    if (heard && (e->attempt != s->live || in->attempt != s->live || !in->nonce ||
                  strcmp(in->nonce, s->nonce[s->live]) != 0))
        broke(w, "job %d believes attempt %lld (%s) while attempt %lld lives", job,
              (long long)in->attempt, e->name, (long long)s->live);
    ledger_commit(w, job, e);
    if (e->kind == EVENT_PLACED) {
        const struct job_core *c = &s->latest;
        if (!w->asleep && wall(w) < c->not_before_ms)
            broke(w, "job %d starts %lld ms before its back-off is over", job, (long long)(c->not_before_ms - wall(w)));
        if (!w->asleep && w->now < w->hub[job].ready_ms)
            broke(w, "job %d starts %lld ms before its back-off is over, on a clock that does not jump",
                  job, (long long)(w->hub[job].ready_ms - w->now));
        if (s->live)
            broke(w, "job %d is placed while attempt %lld lives", job, (long long)s->live);
    } else if (e->kind == EVENT_RETRY) {
        retry_commit(w, job, e, in);
    } else if (e->kind == EVENT_AGENT_LOST || e->kind == EVENT_START_FAILED) {
        lost_commit(w, job, body_text(e->body, "cause"));
    } else if (e->kind == EVENT_DONE) {
        done_commit(w, job, e);
    }
}

/* ---- the agent ---- */

void rules_launched(struct agent *a, const struct message *launch)
{
    a->rule = (struct patience_rule){ .best = launch->last_step, .best_before = launch->last_step,
                                      .failures = launch->failures, .same = launch->same };
    snprintf(a->rule.last, sizeof(a->rule.last), "?%s", launch->fingerprint);
}

void rules_step(struct agent *a, int64_t step)
{
    if (step > a->rule.best)
        a->rule.best = step;
}

/* What makes two failures the same: cause, code, sentence without its numbers, step. */
static void shape(char *out, size_t size, const json_t *body)
{
    snprintf(out, size, "%s %lld %lld %s", body_text(body, "cause"), (long long)body_int(body, "signal"),
             (long long)body_int(body, "exit_code"), body_text(body, "text"));
    for (char *p = out; *p; p++)
        if (isdigit((unsigned char)*p))
            *p = '#';
    size_t at = strlen(out);
    snprintf(out + at, size - at, " @%lld", (long long)body_int(body, "step"));
}

static void failed(struct agent *a, const json_t *body)
{
    struct patience_rule *r = &a->rule;
    char now[sizeof(r->last)];
    shape(now, sizeof(now), body);
    r->failures = r->best > r->best_before ? 0 : r->failures + 1;
    if (r->last[0] == '?')      /* of an earlier attempt: only its fingerprint is known */
        r->same = strcmp(r->last + 1, body_text(body, "fingerprint")) == 0 ? r->same + 1 : 1;
    else
        r->same = strcmp(r->last, now) == 0 ? r->same + 1 : 1;
    if (r->best > r->best_before)
        r->same = 1;
    snprintf(r->last, sizeof(r->last), "%s", now);
    r->at_line = strstr(body_text(body, "text"), "train.py:41: ") && body_int(body, "step") == 0;
}

/* Always in the same way, here. */
static void setup_failed(struct agent *a)
{
    struct patience_rule *r = &a->rule;
    bool same = strncmp(r->last, "?setup:", 7) == 0 || strcmp(r->last, "setup") == 0;
    r->failures++;
    r->same = same ? r->same + 1 : 1;
    snprintf(r->last, sizeof(r->last), "setup");
}

/* The same mistake of a script as often as `retry.same_line` says. */
static bool hopeless(const struct retry_rules *r, const struct patience_rule *now)
{
    return r->same_line > 0 && now->at_line && now->failures > 0 && now->same >= r->same_line;
}

static void again(struct world *w, int job, int attempt, const json_t *body)
{
    struct agent *a = &w->agents[job][attempt];
    const struct retry_rules *r = &w->truth[job].rules;
    int64_t pause = backoff(r, a->rule.failures);
    int64_t due = pause + (int64_t)((double)pause * a->jitter / 4);
    if (due > r->backoff_max_ms)
        due = r->backoff_max_ms;
    if (pause == 0)
        due = 0;
    if (body_int(body, "delay_ms") != due)
        broke(w, "agent %d.%d waits %lld ms after %lld failures, not %lld", job, attempt,
              (long long)body_int(body, "delay_ms"), (long long)a->rule.failures, (long long)due);
    if (a->rule.failures > r->max)
        broke(w, "agent %d.%d tries again after %lld failures of at most %lld", job, attempt,
              (long long)a->rule.failures, (long long)r->max);
    if (hopeless(r, &a->rule))
        broke(w, "agent %d.%d tries again after %lld mistakes at one line", job, attempt, (long long)a->rule.same);
    if (r->no_progress > 0 && a->rule.failures > 0 && a->rule.same >= r->no_progress)
        broke(w, "agent %d.%d tries again after the same failure %lld times", job, attempt, (long long)a->rule.same);
    a->not_before = w->now + due;
}

static void over(struct world *w, int job, int attempt, const json_t *body)
{
    const struct agent *a = &w->agents[job][attempt];
    const struct retry_rules *r = &w->truth[job].rules;
    if (json_is_true(json_object_get(body, "gave_up")) && r->max > 0 &&
        a->rule.failures <= r->max &&
        (r->no_progress == 0 || a->rule.failures == 0 || a->rule.same < r->no_progress) && !hopeless(r, &a->rule))
        broke(w, "agent %d.%d gives up after %lld failures, %lld of them the same", job, attempt,
              (long long)a->rule.failures, (long long)a->rule.same);
    if (strcmp(body_text(body, "result"), "stopped") == 0 && !a->asked && !a->preempted)
        broke(w, "agent %d.%d stopped, and nobody had asked it to", job, attempt);
    if (a->ranks_live > 0)
        broke(w, "agent %d.%d says that it is over, and %d ranks live", job, attempt, a->ranks_live);
}

void rules_effect(struct world *w, int job, int attempt, const struct agent_effect *e)
{
    struct agent *a = &w->agents[job][attempt];
    if (e->kind == DO_SPAWN) {
        if (w->now < a->not_before)
            broke(w, "agent %d.%d starts ranks %lld ms before its back-off is over", job, attempt,
                  (long long)(a->not_before - w->now));
        if (a->not_before && w->now > a->not_before + (w->truth[job].has_setup ? 2000 : 0))
            broke(w, "agent %d.%d overslept its back-off by %lld ms", job, attempt,
                  (long long)(w->now - a->not_before));
        a->not_before = 0;
        suspicion_spawn(w, job, attempt);
        a->rule.best_before = a->rule.best;
    }
    if (e->kind != DO_EVENT)
        return;
    const char *cause = body_text(e->body, "cause");
    if (a->finished)
        broke(w, "agent %d.%d is over, and then says '%s'", job, attempt, e->event);
    if (!event_kind_is(event_kind_of(e->event), EVENT_IS_AGENTS))
        broke(w, "agent %d.%d sends '%s', which the table of events does not expect", job, attempt, e->event);
    if (strcmp(e->event, "generation_ended") == 0 && strcmp(cause, "none") != 0) {
        failed(a, e->body);
        suspicion_failed(a, e->body);
    } else if (strcmp(e->event, "excluded") == 0) {
        suspicion_excluded(w, job, attempt, e->body);
    }
    if (strcmp(e->event, "restart_scheduled") == 0 || strcmp(e->event, "attempt_ended") == 0)
        suspicion_over(w, job, attempt);
    if (strcmp(e->event, "setup_done") == 0 && body_int(e->body, "exit_code") != 0)
        setup_failed(a);
    else if (strcmp(e->event, "restart_scheduled") == 0)
        again(w, job, attempt, e->body);
    else if (strcmp(e->event, "attempt_ended") == 0)
        over(w, job, attempt, e->body);
}

/* ---- all of it ---- */

void rules_check(struct world *w)
{
    for (int j = 0; j < w->jobs; j++) {
        const struct stored *s = &w->store[j];
        const struct job_core *c = &s->latest;
        int live = 0, last = (int)c->attempt + 1 < ATTEMPTS ? (int)c->attempt + 1 : ATTEMPTS - 1;
        for (int n = 1; n <= last; n++)
            live += w->agents[j][n].ranks_live > 0;
        if (c->checkpoint > w->truth[j].checkpoint)
            broke(w, "job %d counts a checkpoint at step %lld, and the newest is at %lld", j, (long long)c->checkpoint,
                  (long long)w->truth[j].checkpoint);
        if (c->best > w->truth[j].most)
            broke(w, "job %d counts step %lld, and its ranks have made %lld", j, (long long)c->best,
                  (long long)w->truth[j].most);
        if (live > 1)
            broke(w, "job %d runs in %d attempts at once", j, live);
        if (s->done && live > 0)
            broke(w, "job %d is done and still runs", j);
    }
    if (w->order % LOOK_EVERY == 0)
        wakes(w);
}
