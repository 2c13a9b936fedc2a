/* SPDX-License-Identifier: Apache-2.0 */
/* hub.c - see world.h: the controller's shell around job_core, as controller/job/job_apply.c,
 * effects.c, fleet.c and remote_local.c do it, on a simulated store and network */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/job/sched_queue.h"
#include "engine/base/err.h"
#include "tests/sim/world.h"

enum { GRACE_MS = 5000, AGAIN_MS = 1000 };

void hub_crash(struct world *w)
{
    if (!w->up)
        return;
    w->up = false;
    w->life++;
    w->pass_due = INT64_MAX;
    for (int j = 0; j < w->jobs; j++)
        w->hub[j] = (struct hub_job){ .known = false };
    for (int j = 0; j < w->jobs; j++)
        for (int n = 1; n < ATTEMPTS; n++)
            w->agents[j][n].conn = 0;
    plan(w, between(w, 1, 8000), HUB_START, 0, 0, 0);
}

static void pass_in(struct world *w, int64_t ms)
{
    if (w->now + ms >= w->pass_due)
        return;
    w->pass_due = w->now + ms;
    plan(w, ms, HUB_PASS, 0, 0, w->life);
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

static void remote_link_close(struct world *w, int job)
{
    struct hub_job *b = &w->hub[job];
    struct agent *a = &w->agents[job][b->core.attempt];
    if (b->link == LINK_UP && a->conn == b->conn)
        a->conn = 0;
    b->link = LINK_NONE;
    b->conn = 0;
}

/* The agent repeats what is not acknowledged. */
static void start_over(struct world *w, int job)
{
    remote_link_close(w, job);
    link_open(w, job, false, AGAIN_MS);
}

static struct message *message_to(const struct world *w, int job, enum message_type type)
{
    const struct job_core *c = &w->hub[job].core;
    return message_make(type, (int)c->attempt, c->nonce);
}

static void send(struct world *w, int job, struct message *m)
{
    struct hub_job *b = &w->hub[job];
    if (b->link == LINK_UP)
        post(w, false, job, b->conn, m);
    else
        message_drop(m);
}

static void send_ack(struct world *w, int job, int64_t seq)
{
    struct message *m = message_to(w, job, MSG_ACK);
    m->seq = seq;
    send(w, job, m);
}

static void launch(struct world *w, int job)
{
    const struct job_core *c = &w->hub[job].core;
    struct message *m = message_to(w, job, MSG_LAUNCH);
    m->seq = w->store[job].acked[c->attempt];
    m->budget = c->rules;
    m->failures = c->failures;
    m->same = c->same;
    m->last_step = c->best;
    m->excluded = w->store[job].excluded;
    snprintf(m->fingerprint, sizeof(m->fingerprint), "%s", c->fingerprint);
    send(w, job, m);
}

static void perform(struct world *w, int job, enum job_effect effect)
{
    struct hub_job *b = &w->hub[job];
    const struct job_core *committed = &w->store[job].latest;
    if (b->core.state != committed->state || b->core.attempt != committed->attempt)
        broke(w, "job %d: '%s' begins before the state '%s' is committed", job,
              job_effect_name(effect), job_state_name(b->core.state));
    if (!b->core.live && b->link != LINK_NONE)
        remote_link_close(w, job);
    if (effect == DO_START)
        link_open(w, job, true, 1);
    else if (effect == DO_ATTACH && b->core.live)
        link_open(w, job, false, 1);
    else if (effect == DO_LAUNCH)
        launch(w, job);
    else if (effect == DO_STOP)
        send(w, job, message_to(w, job, MSG_STOP));
    else if (effect != DO_NOTHING)
        pass_in(w, 0);
    if (effect == DO_REPORT)
        b->known = false;
}

/* As start_clocks() of job_apply.c. */
static void start_clocks(struct world *w, int job, const struct core_output *out)
{
    struct hub_job *b = &w->hub[job];
    for (int i = 0; i < out->count; i++)
        if (out->events[i].kind == EVENT_RETRY)
            b->ready_ms = w->now + b->core.backoff_ms;
}

static int apply(struct world *w, int job, const struct core_input *in, int64_t seq, struct err *err);

/* As job_apply_clock(). */
static int apply_clock(struct world *w, int job, struct err *err)
{
    const struct clock_reading now = read_clocks(w);
    struct clock_jump clock = w->hub[job].clock;
    struct clock_change change;
    if (!clock_jump_look(&clock, &now, &change))
        return 0;
    w->hub[job].clock = clock;
    json_t *body = json_pack("{s:I, s:o}", "jump_ms", (json_int_t)change.jump_ms, "clock", job_core_clock(1, &clock));
    const struct core_input in = { .kind = CORE_CLOCK, .at_ms = wall(w), .body = body };
    const struct clock_jump before = { clock.ahead_ms - change.jump_ms, clock.asleep_ms };
    const int rc = apply(w, job, &in, 0, err);
    json_decref(body);
    if (rc < 0 && w->up)
        w->hub[job].clock = before;
    return rc;
}

void hub_clock(struct world *w)
{
    struct err err = { .code = ERR_NONE };
    for (int j = 0; j < w->jobs && w->up; j++)
        if (w->hub[j].known && w->hub[j].core.attempt > 0)
            apply_clock(w, j, &err);
}

/* As job_apply(): decided, committed, done. Refused, not stored, or the controller died: -1. */
static int apply(struct world *w, int job, const struct core_input *in, int64_t seq, struct err *err)
{
    struct hub_job *b = &w->hub[job];
    const struct job_core was = b->core;
    struct core_output out = { .count = 0 };
    w->cover.inputs++;
    if (in->kind != CORE_CLOCK && in->kind != CORE_SUBMIT && apply_clock(w, job, err) < 0)
        return -1;
    if (fault(w, 400, HARM_HUB_CRASH)) {    /* before the commit */
        hub_crash(w);
        return -1;
    }
    cover_arrows(&w->cover);
    int rc = job_core_step(&b->core, in, &out, err);
    cover_arrows(NULL);
    if (rc < 0)
        return -1;
    enum job_effect effect = out.effect;
    bool decided = out.count > 0;
    bool stored = !decided || store_commit(w, job, &b->core, &out, in, seq);
    if (stored)
        start_clocks(w, job, &out);
    core_output_fini(&out);
    if (!stored) {
        b->core = was;
        return err_set(err, ERR_SYSTEM, "the disk is full");
    }
    if (decided && fault(w, 200, HARM_HUB_CRASH)) {     /* between commit and effect */
        hub_crash(w);
        return -1;
    }
    if (seq > 0)
        send_ack(w, job, seq);
    perform(w, job, effect);
    return 0;
}

/* The controller lives and refuses what it should have understood. */
static bool absurd(const struct world *w, const struct err *err)
{
    return w->up && err->code == ERR_CONFLICT;
}

static void start(struct world *w)
{
    if (w->up)
        return;
    say(w, "the controller starts");
    w->up = true;
    w->life++;
    for (int j = 0; j < w->jobs; j++)
        store_replay(w, j);
    for (int j = 0; j < w->jobs && w->up; j++)
        if (w->hub[j].known)
            perform(w, j, job_fsm_resume(w->hub[j].core.state));
    if (w->up)
        pass_in(w, 0);
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

static bool act(struct world *w, const struct sched_job *v)
{
    int job = (int)v->id - 1;
    char nonce[CORE_NONCE];
    struct err err = { .code = ERR_NONE };
    struct core_input in = { .at_ms = wall(w) };
    if (v->word == SCHED_AFTER_FAILED) {
        in.kind = CORE_REFUSE;
        in.text = "what it waited for failed";
        return apply(w, job, &in, 0, &err) == 0 || !w->up;
    }
    if (v->word != SCHED_PLACE)
        return true;
    if (w->hub[job].core.attempt + 1 >= ATTEMPTS) {
        broke(w, "job %d has had %d attempts", job, ATTEMPTS - 1);
        return true;
    }
    if (v->take_cpus != w->truth[job].np)
        broke(w, "job %d was given %lld CPU slots and needs %d", job, (long long)v->take_cpus, w->truth[job].np);
    snprintf(nonce, sizeof(nonce), "%016llx", (unsigned long long)chance(w));
    if (apply_clock(w, job, &err) < 0)
        return !w->up;
    json_t *body = json_pack("{s:s, s:s, s:I, s:I, s:o}", "nonce", nonce, "node", "here", "cpus",
                             (json_int_t)v->take_cpus, "gpus", (json_int_t)0, "clock",
                             job_core_clock(1, &w->hub[job].clock));
    in.kind = CORE_PLACE;
    in.body = body;
    int rc = apply(w, job, &in, 0, &err);
    json_decref(body);
    return rc == 0 || !w->up;
}

size_t hub_queue(const struct world *w, struct sched_job *queue, struct sched_node *node)
{
    size_t n = 0;
    *node = (struct sched_node){ .cpus = w->cpus, .cpus_free = w->cpus };
    for (int j = 0; j < w->jobs; j++) {
        const struct job_core *c = &w->hub[j].core;
        if (!w->hub[j].known)
            continue;
        node->cpus_free -= c->cpus;
        if (job_core_waits(c))
            queue[n++] = (struct sched_job){
                .id = j + 1, .priority = c->priority, .held = c->held,
                .not_before_ms = w->hub[j].ready_ms, .cpus = w->truth[j].np,
                .dep = dep_of(w, j), .dep_id = w->after[j] + 1 };
    }
    return n;
}

static void pass(struct world *w)
{
    struct sched_job queue[JOBS];
    struct sched_node node;
    char text[200];
    if (w->now < w->pass_due)
        return;                 /* an older timer: it was replaced */
    w->pass_due = INT64_MAX;
    size_t n = hub_queue(w, queue, &node);
    struct sched_node left = node;
    struct sched_queue filed = { .nlines = 0 };
    int64_t wake, told = sched_run(queue, n, &node, w->now);
    for (size_t i = 0; i < n; i++)
        sched_queue_put(&filed, &queue[i]);
    sched_queue_pass(&filed, &left, w->now, &wake);
    if (wake != told || left.cpus_free != node.cpus_free)
        broke(w, "a pass leaves %lld slots and wakes at %lld, not %lld and %lld", (long long)left.cpus_free,
              (long long)wake, (long long)node.cpus_free, (long long)told);
    size_t starts = 0;
    for (size_t i = 0; i < n; i++)
        starts += queue[i].word == SCHED_PLACE || queue[i].word == SCHED_AFTER_FAILED;
    if (starts != filed.nstarts)
        broke(w, "a pass starts %zu jobs, not %zu", filed.nstarts, starts);
    for (size_t i = 0; i < n; i++) {
        w->hub[queue[i].id - 1].verdict = queue[i];
        sched_text(text, sizeof(text), &queue[i], w->now);
        if (queue[i].word == SCHED_NONE || !text[0])
            broke(w, "job %lld waits without a reason", (long long)queue[i].id - 1);
    }
    if (wake >= 0)
        pass_in(w, wake > w->now ? wake - w->now : 0);
    for (size_t i = 0; i < filed.nstarts && w->up; i++)
        if (!act(w, &filed.starts[i]))
            pass_in(w, AGAIN_MS);
    sched_queue_fini(&filed);
}

/* ---- a link ---- */

/* As told_at() of job_attempt.c. */
static int64_t told_at(const struct world *w, const struct message *m)
{
    return m->wall_ms + (w->asleep ? 0 : (wall(w) - w->now) - (m->wall_ms - m->mono_ms));
}

static void hear_event(struct world *w, int job, const struct message *m)
{
    struct hub_job *b = &w->hub[job];
    struct err err = { .code = ERR_NONE };
    const int64_t acked = w->store[job].acked[b->core.attempt];
    const bool ours = m->attempt == b->core.attempt && strcmp(m->nonce, b->core.nonce) == 0;
    if (m->seq <= acked) {
        send_ack(w, job, acked);
        return;
    }
    if (m->seq != acked + 1) {          /* one is missing: ask anew */
        start_over(w, job);
        return;
    }
    const struct core_input in = { .kind = CORE_AGENT_EVENT, .at_ms = told_at(w, m),
                                   .random = chance(w), .attempt = m->attempt, .nonce = m->nonce,
                                   .event = m->kind, .body = m->body };
    if (apply(w, job, &in, m->seq, &err) == 0)
        return;
    if (ours && absurd(w, &err))
        broke(w, "job %d refuses event %lld %s of its agent: %s", job, (long long)m->seq, m->kind, err.text);
    if (w->up)
        start_over(w, job);
}

static void hear_hello(struct world *w, int job, const struct message *m)
{
    struct hub_job *b = &w->hub[job];
    struct err err = { .code = ERR_NONE };
    const bool ours = m->attempt == b->core.attempt && strcmp(m->nonce, b->core.nonce) == 0;
    json_t *body = json_pack("{s:s, s:i}", "node", "here", "pid", 1);
    const struct core_input in = { .kind = CORE_AGENT_UP, .at_ms = wall(w), .body = body,
                                   .attempt = m->attempt, .nonce = m->nonce };
    int rc = apply(w, job, &in, 0, &err);
    json_decref(body);
    if (rc < 0 && ours && absurd(w, &err))
        broke(w, "job %d refuses its agent: %s", job, err.text);
    else if (rc < 0 && w->up)
        start_over(w, job);
}

static void hears(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    const struct message *m = h->message;
    const struct wire_id live = { h->job, b->core.attempt, b->core.nonce };
    const struct wire_id said = { h->job, m->attempt, m->nonce };
    if (!w->up || !b->known || b->link != LINK_UP || (h->a >= 0 && b->conn != h->a))
        return;
    if (h->a >= 0 && !wire_id_same(&live, &said)) {
        broke(w, "job %d: attempt %d is on the connection of attempt %lld", h->job, m->attempt,
              (long long)b->core.attempt);
    } else if (m->type == MSG_HELLO) {
        b->greeted = b->greeted || h->a >= 0;
        hear_hello(w, h->job, m);
    } else if (b->greeted) {
        hear_event(w, h->job, m);
    } else {                            /* it does not begin with hello */
        remote_link_close(w, h->job);
        link_open(w, h->job, false, 20);
    }
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
    for (int64_t i = w->store[job].acked[attempt];
         i < a->spooled && w->up && b->known && b->core.live && b->link == LINK_BURYING; i++)
        hear_event(w, job, a->spool[i]);
    if (!w->up || !b->known || !b->core.live || b->core.attempt != attempt ||
        b->link != LINK_BURYING)
        return;
    static const char *const unmade[] = { NULL, NULL, NULL, "disk_full", "slurm_refused", "host_unusable",
                                          "host_unreachable" };
    const char *cause = a->made ? NULL : unmade[chance(w) % (sizeof(unmade) / sizeof(unmade[0]))];
    const struct core_input in = { .kind = CORE_AGENT_LOST, .at_ms = wall(w), .random = chance(w),
                                   .attempt = attempt, .event = cause, .text = "its agent died" };
    if (apply(w, job, &in, 0, &err) == 0 || !w->up)
        return;
    if (absurd(w, &err))
        broke(w, "job %d refuses that its agent is lost: %s", job, err.text);
    start_over(w, job);
}

static void look(struct world *w, int job, int attempt)
{
    struct hub_job *b = &w->hub[job];
    struct agent *a = &w->agents[job][attempt];
    if (!b->known || b->core.attempt != attempt || b->link != LINK_LOOKING)
        return;
    if (!a->made && b->may_start && !a->fenced && fault(w, 60, HARM_AGENT_MISSING)) {
        bury(w, job);
    } else if (!a->made && b->may_start && !a->fenced) {
        if (!fault(w, 20, HARM_AGENT_MISSING))
            plan(w, between(w, 5, fault(w, 10, HARM_AGENT_SLOW) ? 9000 : 300), AGENT_COMES, job, attempt, 0);
        plan(w, 400, HUB_LOOK, job, attempt, w->life);
    } else if (!a->alive) {
        bury(w, job);
    } else {
        b->link = LINK_UP;
        b->greeted = false;
        b->conn = ++w->conns;
        agent_connect(w, job, attempt, b->conn);
        plan(w, between(w, 1000, 40000), LINK_CUT, job, attempt, w->life)->a = b->conn;
    }
}

static void cut(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    if (b->known && b->link == LINK_UP && b->conn == h->a) {
        w->cover.harms[HARM_CUT]++;
        remote_link_close(w, h->job);
        link_open(w, h->job, false, 20);
    }
}

/* ---- people ---- */

static void person(struct world *w, const struct happening *h)
{
    struct hub_job *b = &w->hub[h->job];
    struct stored *s = &w->store[h->job];
    const struct truth *t = &w->truth[h->job];
    struct err err = { .code = ERR_NONE };
    static const enum core_input_kind kinds[PERSON_WORDS] = {
        [SAYS_SUBMIT] = CORE_SUBMIT, [SAYS_STOP] = CORE_STOP, [SAYS_HOLD] = CORE_HOLD,
        [SAYS_RELEASE] = CORE_RELEASE };
    const struct core_input in = { .at_ms = wall(w), .kind = kinds[h->a],
                                   .body = h->a == SAYS_SUBMIT ? t->submit
                                           : h->a == SAYS_STOP ? t->stop : NULL };
    const bool submit = h->a == SAYS_SUBMIT;
    if (submit && s->count > 0) {
        plan(w, between(w, 20000, 40000), PERSON, h->job, 0, 0)->a = SAYS_RELEASE;
        return;
    }
    int rc = -1;
    if (w->up && submit) {
        b->known = true;
        job_core_init(&b->core, h->job + 1);
        const struct clock_reading now = read_clocks(w);
        b->clock = clock_jump_of(&now);
        json_object_set_new(t->submit, "clock", job_core_clock(1, &b->clock));
        rc = apply(w, h->job, &in, 0, &err);
        b->known = w->up && rc == 0;
    } else if (w->up && s->count > 0) {
        w->truth[h->job].asked_to_stop |= h->a == SAYS_STOP;
        rc = b->known && !s->done ? apply(w, h->job, &in, 0, &err) : 0;
        if (w->up && err.code == ERR_CONFLICT)
            rc = 0;                     /* it was told so */
    }
    if (rc < 0)                         /* no answer, or the disk is full: they try again */
        plan(w, 500, PERSON, h->job, 0, 0)->a = h->a;
    else if (submit || h->a == SAYS_HOLD)       /* nobody holds a job for ever, here */
        plan(w, between(w, 20000, 40000), PERSON, h->job, 0, 0)->a = SAYS_RELEASE;
}

static void disk(struct world *w, bool full)
{
    w->full = full;
    say(w, "! the store's disk %s", full ? "is full" : "has room again");
    if (!full)
        return;
    w->cover.harms[HARM_STORE_FULL]++;
    plan(w, between(w, 500, 20000), DISK_FREE, 0, 0, 0);
}

void hub_happens(struct world *w, const struct happening *h)
{
    switch (h->what) {
    case HUB_START:
        start(w);
        return;
    case HUB_CRASH:
        w->cover.harms[HARM_HUB_CRASH] += w->up;
        say(w, "! the controller dies");
        hub_crash(w);
        return;
    case HUB_HEARS:
        hears(w, h);
        return;
    case PERSON:
        person(w, h);
        return;
    case DISK_FULL:
    case DISK_FREE:
        disk(w, h->what == DISK_FULL);
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
    else if (h->what == HUB_BURY && w->hub[h->job].link == LINK_BURYING &&
             w->hub[h->job].core.attempt == h->attempt)
        bury(w, h->job);
    else if (h->what == LINK_CUT)
        cut(w, h);
}
