/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - see world.h: what the controller has committed, and the state after a restart */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/cause.h"
#include "engine/base/err.h"
#include "tests/sim/world.h"

enum { REPLAY_EVERY = 8 };

static void append(struct stored *s, const struct core_event *e)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->events = reallocarray(s->events, (size_t)s->room, sizeof(*s->events));
        if (!s->events)
            abort();
    }
    s->events[s->count++] = (struct stored_event){ .kind = e->name, .from_agent = e->from_agent,
                                                   .at_ms = e->at_ms, .attempt = e->attempt,
                                                   .body = json_incref(e->body) };
}

static void note(struct world *w, int job, const struct core_event *e)
{
    struct stored *s = &w->store[job];
    enum cause cause;
    if (e->kind == EVENT_PLACED) {
        s->live = e->attempt;
        snprintf(s->nonce[e->attempt], CORE_NONCE, "%s", json_string_value(json_object_get(e->body, "nonce")));
    } else if (e->kind == EVENT_AGENT_LOST) {
        s->live = 0;
        w->cover.causes[CAUSE_AGENT_LOST]++;
    } else if (e->kind == EVENT_START_FAILED) {
        s->live = 0;
    } else if (e->kind == EVENT_ATTEMPT_ENDED) {
        s->live = 0;
    } else if (e->kind == EVENT_EXCLUDED) {
        s->excluded |= 1U << gpu_number(json_string_value(json_object_get(e->body, "gpu")));
    }
    const char *said = json_string_value(json_object_get(e->body, "cause"));
    if (said && cause_parse(&cause, said) == 0)
        w->cover.causes[cause]++;
}

static void finished(struct world *w, int job, const struct job_core *c)
{
    struct stored *s = &w->store[job];
    s->done = true;
    plan(w, between(w, 1, 3000), PERSON, job, 0, 0)->a = SAYS_WHY;
    w->cover.results[c->result]++;
    w->cover.job_ms += w->now - s->since_ms;
    for (int n = 1; n < ATTEMPTS; n++)
        if (w->agents[job][n].ranks_live > 0)
            broke(w, "job %d is done, and ranks of attempt %d live", job, n);
    if (c->result == RESULT_SUCCEEDED && !w->truth[job].completed)
        broke(w, "job %d succeeded without having been completed", job);
    if (c->result == RESULT_CANCELLED && !w->truth[job].asked_to_stop)
        broke(w, "job %d was cancelled and nobody had asked for it", job);
}

/* A restart is a replay: the job is what it was at the last commit. */
void history_compare(struct world *w, int job, const struct job_core *x)
{
    const struct job_core *y = &w->store[job].latest;
    const struct {
        const char *what;
        int64_t     now, before;
    } fields[] = {
        { "state", x->state, y->state },
        { "attempt", x->attempt, y->attempt },
        { "generation", x->generation, y->generation },
        { "live", x->live, y->live },
        { "held", x->held, y->held },
        { "failures", x->failures, y->failures },
        { "same", x->same, y->same },
        { "backoff_ms", x->backoff_ms, y->backoff_ms },
        { "not_before_ms", x->not_before_ms, y->not_before_ms },
        { "checkpoint", x->checkpoint, y->checkpoint },
        { "best", x->best, y->best },
        { "cpus", x->cpus, y->cpus },
        { "rank_ms", x->goodput.spent.rank_ms, y->goodput.spent.rank_ms },
        { "wall_ms", x->goodput.wall_ms, y->goodput.wall_ms },
        { "mark_ms", x->goodput.mark_ms, y->goodput.mark_ms },
        { "attempt_best", x->attempt_best, y->attempt_best },
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].now != fields[i].before)
            broke(w, "job %d after a replay: %s is %lld and was %lld", job, fields[i].what,
                  (long long)fields[i].now, (long long)fields[i].before);
    for (int i = 0; i < BUCKETS; i++)
        if (x->goodput.spent.ms[i] != y->goodput.spent.ms[i])
            broke(w, "job %d after a replay: %lld ms were %s, not %lld", job, (long long)x->goodput.spent.ms[i],
                  bucket_name((enum bucket)i), (long long)y->goodput.spent.ms[i]);
    if (strcmp(x->reason, y->reason) != 0 || strcmp(x->fingerprint, y->fingerprint) != 0)
        broke(w, "job %d after a replay: its reason is '%s' and was '%s'", job, x->reason, y->reason);
}

/* The job as a controller that starts now would read it. */
static void replayed(struct world *w, int job, struct job_core *core)
{
    const struct stored *s = &w->store[job];
    struct err err = { .code = ERR_NONE };
    job_core_init(core, job + 1);
    for (int i = 0; i < s->count; i++) {
        const struct stored_event *v = &s->events[i];
        const struct core_event e = { .kind = event_kind_of(v->kind), .name = v->kind,
                                      .from_agent = v->from_agent, .keep = true,
                                      .at_ms = v->at_ms, .attempt = v->attempt, .body = v->body };
        if (job_core_replay(core, &e, &err) < 0)
            broke(w, "job %d: replay of %s: %s", job, e.name, err.text);
    }
    core->step = s->step;
    core->steps = s->steps;
    history_compare(w, job, core);
}

void history_commit(struct world *w, int job, const struct job_core *c,
                  const struct core_output *out, const struct core_input *in, int64_t seq)
{
    struct stored *s = &w->store[job];
    if (s->count == 0)
        s->since_ms = w->now;
    for (int i = 0; i < out->count; i++) {
        const struct core_event *e = &out->events[i];
        rules_commit(w, job, e, in);
        if (!e->keep)
            continue;
        append(s, e);
        note(w, job, e);
        say(w, "job %d: %s%s -> %s", job, e->name, e->from_agent ? " (agent)" : "", job_state_name(c->state));
        w->cover.events++;
    }
    if (seq > 0) {
        if (seq != s->acked[c->attempt] + 1)
            broke(w, "job %d.%lld: event %lld is applied after %lld", job, (long long)c->attempt,
                  (long long)seq, (long long)s->acked[c->attempt]);
        s->acked[c->attempt] = seq;
    }
    s->step = c->step;
    s->steps = c->steps;
    s->latest = *c;
    struct job_core again;
    if (c->state == JOB_DONE || s->count % REPLAY_EVERY == 0)   /* not only where a restart happens to fall */
        replayed(w, job, &again);
    if (c->state == JOB_DONE)
        finished(w, job, c);
}

void history_end(struct stored *s)
{
    for (int i = 0; i < s->count; i++)
        json_decref(s->events[i].body);
    free(s->events);
}
