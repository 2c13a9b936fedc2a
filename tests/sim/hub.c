/* SPDX-License-Identifier: Apache-2.0 */
/* hub.c - see world.h: the controller's shell around job_core, as controller/job.c,
 * effects.c, remote_local.c and replay.c do it, on a played store and network */
#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "engine/err.h"

enum { GRACE_MS = 5000 };

void post(struct world *w, bool to_hub, int job, int attempt, int conn, json_t *body)
{
    for (int copies = fault(w, 80) ? 2 : fault(w, 80) ? 0 : 1; copies > 0; copies--) {
        struct happening *h = plan(w, fault(w, 20) ? between(w, 1, 400) : between(w, 1, 3),
                                   to_hub ? HUB_HEARS : AGENT_HEARS, job, attempt, 0);
        h->a = conn;
        h->body = json_incref(body);
    }
    json_decref(body);
}

void hub_crash(struct world *w)
{
    if (!w->up)
        return;
    say(w, "! the controller dies");
    w->crashes++;
    w->up = false;
    w->life++;
    for (int j = 0; j < JOBS; j++)
        w->hub[j] = (struct hub_job){ .known = false };
    for (int j = 0; j < JOBS; j++)
        for (int n = 1; n < ATTEMPTS; n++)
            w->agents[j][n].conn = 0;
    plan(w, between(w, 1, 8000), HUB_START, 0, 0, 0);
}

static void pass_soon(struct world *w)
{
    plan(w, 0, HUB_PASS, 0, 0, w->life);
}

static void link_open(struct world *w, int job, bool may_start, int64_t in_ms)
{
    struct hub_job *b = &w->hub[job];
    if (b->link != LINK_NONE)
        return;
    b->link = LINK_LOOKING;
    b->may_start = may_start;
    plan(w, in_ms, HUB_LOOK, job, (int)b->core.attempt, w->life);
}

static void link_close(struct world *w, int job)
{
    struct hub_job *b = &w->hub[job];
    struct agent *a = &w->agents[job][b->core.attempt];
    if (b->link == LINK_UP && a->conn == b->conn)
        a->conn = 0;
    b->link = LINK_NONE;
    b->conn = 0;
}

static void send(struct world *w, int job, json_t *body)
{
    struct hub_job *b = &w->hub[job];
    if (b->link == LINK_UP)
        post(w, false, job, (int)b->core.attempt, b->conn, body);
    else
        json_decref(body);
}

static void launch(struct world *w, int job)
{
    const struct job_core *c = &w->hub[job].core;
    send(w, job, json_pack("{s:s, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:s}}", "type", "launch",
                           "acked", (json_int_t)w->store[job].acked[c->attempt], "restarts",
                           (json_int_t)c->rules.max, "no_progress",
                           (json_int_t)c->rules.no_progress, "history", "failures",
                           (json_int_t)c->failures, "same", (json_int_t)c->same, "last_step",
                           (json_int_t)c->best, "fingerprint", c->fingerprint));
}

static void perform(struct world *w, int job, enum job_effect effect)
{
    struct hub_job *b = &w->hub[job];
    if (!b->core.live && b->link != LINK_NONE)
        link_close(w, job);
    if (effect == DO_START)
        link_open(w, job, true, 1);
    else if (effect == DO_ATTACH && b->core.live)
        link_open(w, job, false, 1);
    else if (effect == DO_LAUNCH)
        launch(w, job);
    else if (effect == DO_STOP)
        send(w, job, json_pack("{s:s}", "type", "stop"));
    else if (effect != DO_NOTHING)
        pass_soon(w);
    if (effect == DO_REPORT)
        b->known = false;
}

/* ---- the store ---- */

static void commit(struct world *w, int job, const struct core_output *out, int64_t seq)
{
    struct stored *s = &w->store[job];
    const struct job_core *c = &w->hub[job].core;
    for (int i = 0; i < out->count; i++) {
        const struct core_event *e = &out->events[i];
        if (s->done)
            broke(w, "job %d is done, and then came '%s'", job, e->kind);
        if (!e->keep)
            continue;
        json_array_append_new(s->events, json_pack("{s:s, s:b, s:I, s:I, s:O}", "kind", e->kind,
                                                   "agent", (int)e->from_agent, "at",
                                                   (json_int_t)e->at_ms, "attempt",
                                                   (json_int_t)e->attempt, "body", e->body));
        say(w, "job %d: %s%s -> %s", job, e->kind, e->from_agent ? " (agent)" : "",
            job_state_name(c->state));
        w->events++;
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
    if (c->state == JOB_DONE) {
        s->done = true;
        for (int n = 1; n < ATTEMPTS; n++)
            if (w->agents[job][n].ranks_live > 0)
                broke(w, "job %d is done, and ranks of attempt %d live", job, n);
        if (c->result == RESULT_SUCCEEDED && !w->truth[job].completed)
            broke(w, "job %d succeeded without having been completed", job);
    }
}

/* As job_apply(): decided, committed, done. False: refused, or the controller died. */
static bool apply(struct world *w, int job, const struct core_input *in, int64_t seq,
                  struct err *err)
{
    struct hub_job *b = &w->hub[job];
    struct core_output out = { .count = 0 };
    if (fault(w, 150)) {                /* before the commit */
        hub_crash(w);
        return false;
    }
    if (job_core_step(&b->core, in, &out, err) < 0)
        return false;
    if (out.count > 0)
        commit(w, job, &out, seq);
    enum job_effect effect = out.effect;
    bool decided = out.count > 0;
    core_output_fini(&out);
    if (decided && fault(w, 60)) {      /* between commit and effect */
        hub_crash(w);
        return false;
    }
    if (seq > 0)
        send(w, job, json_pack("{s:s, s:I}", "type", "ack", "seq", (json_int_t)seq));
    perform(w, job, effect);
    return true;
}

/* A restart is a replay: the job is what it was at the last commit. */
static void compare(struct world *w, int job)
{
    const struct job_core *x = &w->hub[job].core, *y = &w->store[job].latest;
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
        { "not_before_ms", x->not_before_ms, y->not_before_ms },
        { "checkpoint", x->checkpoint, y->checkpoint },
        { "best", x->best, y->best },
        { "cpus", x->cpus, y->cpus },
        { "productive_ms", x->productive_ms, y->productive_ms },
        { "attempt_best", x->attempt_best, y->attempt_best },
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].now != fields[i].before)
            broke(w, "job %d after a restart: %s is %lld and was %lld", job, fields[i].what,
                  (long long)fields[i].now, (long long)fields[i].before);
    if (strcmp(x->reason, y->reason) != 0 || strcmp(x->fingerprint, y->fingerprint) != 0)
        broke(w, "job %d after a restart: its reason is '%s' and was '%s'", job, x->reason,
              y->reason);
}

static void replay(struct world *w, int job)
{
    struct hub_job *b = &w->hub[job];
    struct stored *s = &w->store[job];
    struct err err = { .code = ERR_NONE };
    if (!s->events || s->done)
        return;
    b->known = true;
    job_core_init(&b->core, job + 1);
    for (size_t i = 0; i < json_array_size(s->events); i++) {
        const json_t *v = json_array_get(s->events, i);
        const struct core_event e = {
            .kind = json_string_value(json_object_get(v, "kind")),
            .from_agent = json_is_true(json_object_get(v, "agent")), .keep = true,
            .at_ms = json_integer_value(json_object_get(v, "at")),
            .attempt = json_integer_value(json_object_get(v, "attempt")),
            .body = json_object_get(v, "body"),
        };
        if (job_core_replay(&b->core, &e, &err) < 0)
            broke(w, "job %d: replay of %s: %s", job, e.kind, err.text);
    }
    b->core.step = s->step;
    b->core.steps = s->steps;
    compare(w, job);
}

static void start(struct world *w)
{
    if (w->up)
        return;
    say(w, "the controller starts");
    w->up = true;
    w->life++;
    for (int j = 0; j < JOBS; j++)
        replay(w, j);
    for (int j = 0; j < JOBS && w->up; j++)
        if (w->hub[j].known)
            perform(w, j, w->hub[j].core.live || job_core_waits(&w->hub[j].core)
                              ? job_fsm_resume(w->hub[j].core.state) : DO_NOTHING);
    pass_soon(w);
}

/* ---- scheduling ---- */

static enum dep_state dep_of(const struct world *w, int job)
{
    int on = w->after[job];
    if (on < 0)
        return DEP_SUCCEEDED;
    if (!w->store[on].done)
        return DEP_OPEN;
    return w->store[on].latest.result == RESULT_SUCCEEDED ? DEP_SUCCEEDED : DEP_FAILED;
}

static void act(struct world *w, const struct sched_job *v)
{
    int job = (int)v->id - 1;
    struct err err = { .code = ERR_NONE };
    if (v->word == SCHED_AFTER_FAILED) {
        const struct core_input in = { .kind = CORE_REFUSE, .at_ms = wall(w),
                                       .text = "what it waited for failed" };
        apply(w, job, &in, 0, &err);
    } else if (v->word == SCHED_PLACE) {
        if (w->hub[job].core.attempt + 1 >= ATTEMPTS) {
            broke(w, "job %d has had %d attempts", job, ATTEMPTS - 1);
            return;
        }
        if (v->take_cpus != w->truth[job].np)
            broke(w, "job %d was given %lld CPU slots and needs %d", job, (long long)v->take_cpus,
                  w->truth[job].np);
        json_t *body = json_pack("{s:s, s:s, s:I, s:I}", "nonce", "n", "node", "here", "cpus",
                                 (json_int_t)v->take_cpus, "gpus", (json_int_t)0);
        const struct core_input in = { .kind = CORE_PLACE, .at_ms = wall(w), .body = body };
        apply(w, job, &in, 0, &err);
        json_decref(body);
    }
}

static void pass(struct world *w)
{
    struct sched_job queue[JOBS];
    struct sched_node node = { .cpus = CPUS, .cpus_free = CPUS, .gpus = 0, .gpus_free = 0 };
    size_t n = 0;
    char text[200];
    for (int j = 0; j < JOBS; j++) {
        const struct job_core *c = &w->hub[j].core;
        if (!w->hub[j].known)
            continue;
        node.cpus_free -= c->cpus;
        if (job_core_waits(c))
            queue[n++] = (struct sched_job){
                .id = j + 1, .priority = c->priority, .held = c->held,
                .not_before_ms = job_core_not_before(c, wall(w)), .cpus = w->truth[j].np,
                .dep = dep_of(w, j), .dep_id = w->after[j] + 1 };
    }
    if (node.cpus_free < 0)
        broke(w, "%lld CPU slots are given out, there are %d", (long long)(CPUS - node.cpus_free),
              CPUS);
    int64_t wake = sched_run(queue, n, &node, wall(w));
    for (size_t i = 0; i < n; i++) {
        w->hub[queue[i].id - 1].verdict = queue[i];
        sched_text(text, sizeof(text), &queue[i], wall(w));
        if (queue[i].word == SCHED_NONE || !text[0])
            broke(w, "job %lld waits without a reason", (long long)queue[i].id - 1);
    }
    if (wake >= 0)
        plan(w, wake > wall(w) ? wake - wall(w) : 0, HUB_PASS, 0, 0, w->life);
    for (size_t i = 0; i < n && w->up; i++)
        act(w, &queue[i]);
}

/* ---- a link ---- */

static void event(struct world *w, int job, const json_t *m)
{
    struct hub_job *b = &w->hub[job];
    struct err err = { .code = ERR_NONE };
    int64_t seq = json_integer_value(json_object_get(m, "seq"));
    int64_t *acked = &w->store[job].acked[b->core.attempt];
    if (seq <= *acked) {
        send(w, job, json_pack("{s:s, s:I}", "type", "ack", "seq", (json_int_t)*acked));
        return;
    }
    if (seq != *acked + 1) {            /* one is missing: ask anew */
        link_close(w, job);
        link_open(w, job, false, 1000);
        return;
    }
    const struct core_input in = {
        .kind = CORE_AGENT_EVENT, .at_ms = json_integer_value(json_object_get(m, "wall_ms")),
        .random = chance(w), .attempt = b->core.attempt,
        .event = json_string_value(json_object_get(m, "kind")), .body = json_object_get(m, "body") };
    if (!apply(w, job, &in, seq, &err) && w->up)
        broke(w, "job %d refuses event %lld %s of its agent: %s", job, (long long)seq, in.event,
              err.text);
}

static void hears(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    const char *type = json_string_value(json_object_get(h->body, "type"));
    struct err err = { .code = ERR_NONE };
    if (!w->up || !b->known || b->link != LINK_UP || b->conn != h->a ||
        b->core.attempt != h->attempt)
        return;
    if (strcmp(type, "hello") != 0) {
        if (b->greeted) {
            event(w, h->job, h->body);
        } else {                        /* it does not begin with hello */
            link_close(w, h->job);
            link_open(w, h->job, false, 20);
        }
        return;
    }
    b->greeted = true;
    json_t *body = json_pack("{s:s, s:i}", "node", "here", "pid", 1);
    const struct core_input in = { .kind = CORE_AGENT_UP, .at_ms = wall(w), .body = body,
                                   .attempt = b->core.attempt };
    if (!apply(w, h->job, &in, 0, &err) && w->up)
        broke(w, "job %d refuses its agent: %s", h->job, err.text);
    json_decref(body);
}

static void bury(struct world *w, int job)
{
    struct hub_job *b = &w->hub[job];
    const int attempt = (int)b->core.attempt;
    struct agent *a = &w->agents[job][attempt];
    struct err err = { .code = ERR_NONE };
    if (a->alive) {                     /* it holds the lock: it came up just now */
        b->link = LINK_NONE;
        link_open(w, job, false, 20);
        return;
    }
    if (b->link != LINK_BURYING) {
        a->fenced = true;
        b->link = LINK_BURYING;
        b->bury_until = w->now + GRACE_MS;
    }
    if (a->ranks_live > 0) {
        if (w->now >= b->bury_until)
            ranks_kill(w, job, attempt);
        plan(w, 50, HUB_BURY, job, attempt, w->life);
        return;
    }
    for (size_t i = (size_t)w->store[job].acked[attempt];
         i < json_array_size(a->spool) && w->up && b->known && b->core.live; i++)
        event(w, job, json_array_get(a->spool, i));
    if (!w->up || !b->known || !b->core.live || b->core.attempt != attempt)
        return;
    const struct core_input in = { .kind = CORE_AGENT_LOST, .at_ms = wall(w), .random = chance(w),
                                   .attempt = attempt, .text = "its agent died" };
    if (!apply(w, job, &in, 0, &err) && w->up)
        broke(w, "job %d refuses that its agent is lost: %s", job, err.text);
}

static void look(struct world *w, int job, int attempt)
{
    struct hub_job *b = &w->hub[job];
    struct agent *a = &w->agents[job][attempt];
    if (!b->known || b->core.attempt != attempt || b->link != LINK_LOOKING)
        return;
    if (!a->made && b->may_start && !a->fenced) {
        if (!fault(w, 20))
            plan(w, between(w, 5, fault(w, 10) ? 9000 : 300), AGENT_COMES, job, attempt, 0);
        plan(w, 400, HUB_LOOK, job, attempt, w->life);
    } else if (!a->alive) {
        bury(w, job);
    } else {
        b->link = LINK_UP;
        b->greeted = false;
        b->conn = ++w->conns;
        agent_connect(w, job, attempt, b->conn);
        plan(w, between(w, 500, 15000), LINK_CUT, job, attempt, w->life)->a = b->conn;
    }
}

static void cut(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    if (b->known && b->link == LINK_UP && b->conn == h->a) {
        link_close(w, h->job);
        link_open(w, h->job, false, 20);
    }
}

/* ---- people ---- */

static void person_again(struct world *w, const struct happening *h)
{
    struct happening *again = plan(w, 500, PERSON, h->job, 0, 0);
    again->a = h->a;
    again->body = json_incref(h->body);
}

static void person(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    struct stored *s = &w->store[h->job];
    struct err err = { .code = ERR_NONE };
    struct core_input in = { .at_ms = wall(w), .body = h->body };
    static const enum core_input_kind kinds[] = { CORE_SUBMIT, CORE_STOP, CORE_HOLD, CORE_RELEASE };
    if (!w->up || (h->a > 0 && !s->events)) {   /* the command starts one, and waits for it */
        person_again(w, h);
        return;
    }
    in.kind = kinds[h->a];
    if (in.kind == CORE_SUBMIT) {
        if (s->events)
            return;
        s->events = json_array();
        b->known = true;
        job_core_init(&b->core, h->job + 1);
        if (!apply(w, h->job, &in, 0, &err) && json_array_size(s->events) == 0) {
            json_decref(s->events);     /* it died before the commit: the person tries again */
            s->events = NULL;
            person_again(w, h);
        }
        return;
    }
    if (b->known && !apply(w, h->job, &in, 0, &err) && !w->up)
        person_again(w, h);
}

void hub_happens(struct world *w, const struct happening *h)
{
    switch (h->what) {
    case HUB_START:
        start(w);
        return;
    case HUB_CRASH:
        hub_crash(w);
        return;
    case HUB_HEARS:
        hears(w, h);
        return;
    case PERSON:
        person(w, h);
        return;
    default:
        break;
    }
    if (!w->up || h->life != w->life)
        return;
    if (h->what == HUB_PASS)
        pass(w);
    else if (h->what == HUB_LOOK)
        look(w, h->job, h->attempt);
    else if (h->what == HUB_BURY && w->hub[h->job].link == LINK_BURYING)
        bury(w, h->job);
    else if (h->what == LINK_CUT)
        cut(w, h);
}
