/* SPDX-License-Identifier: Apache-2.0 */
/* shell_link.c - see shell.h: struct remote of controller/remote/remote.h, with the agents of node.c at its far end
 *
 * As controller/remote/remote_local.c: looks for the agent, starts it, reconnects; when it is dead, fences it, ends its
 * ranks, delivers its spool and reports that it is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "agent/wire/wire.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"
#include "tests/sim/shell.h"
#include "tests/sim/virtual_process.h"
#include "tests/sim/world.h"

enum { GRACE_MS = 5000, AGAIN_MS = 20, LOOK_MS = 400, BURY_MS = 50, BEAT_MS = 1000 };

struct remote_link {
    struct remote_link      *next;
    struct remote_link_hooks hooks;
    uv_timer_t               timer, beat;
    uv_async_t               wake;
    int                      handles;   /* to be closed */
    int64_t                  id;
    int                      job, attempt, conn;
    char                     nonce[CORE_NONCE];
    bool                     may_start, dismiss, greeted, closed;
    enum link_state          state;
    int64_t                  bury_until;
    struct message          *inbox[512];
    int                      first, count;
};

static struct remote_link *links;

void shell_link_forget(void)
{
    links = NULL;
}

static struct agent *agent_of(const struct remote_link *l)
{
    return &shell_world()->agents[l->job][l->attempt];
}

static void look(uv_timer_t *timer);

static void later(struct remote_link *l, int64_t ms)
{
    uv_timer_start(&l->timer, look, (uint64_t)ms, 0);
}

static void disconnect(struct remote_link *l, int64_t again_ms)
{
    if (l->state == LINK_UP && agent_of(l)->conn == l->conn)
        agent_of(l)->conn = 0;
    for (; l->count > 0; l->count--)
        message_drop(l->inbox[l->first++]);
    l->first = 0;
    l->state = LINK_LOOKING;
    l->conn = 0;
    l->may_start = false;
    if (!l->closed)
        later(l, again_ms);
}

/* ---- messages to the controller ---- */

static json_t *hello_body(const struct remote_link *l)
{
    const struct agent *a = agent_of(l);
    const struct world *w = shell_world();
    const struct daemon *d = shell_daemon();
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:b, s:i, s:I, s:{}, s:I}", "job", (json_int_t)l->id,
                     "attempt", (json_int_t)l->attempt, "nonce", l->nonce, "node", "here", "boot_id",
                     d->fleet->boot_id, "pid", 1000 + l->attempt, "start_time", 1, "incarnation", 1, "version",
                     JOBCTL_VERSION, "launched", (int)a->launched, "first_seq", 1, "last_seq", (json_int_t)a->spooled,
                     "facts", "wall_ms", (json_int_t)wall(w));
}

static json_t *event_body(const struct remote_link *l, const struct message *m)
{
    return json_pack("{s:I, s:I, s:s, s:i, s:I, s:I, s:I, s:s, s:O}", "job", (json_int_t)l->id, "attempt",
                     (json_int_t)m->attempt, "nonce", m->nonce, "incarnation", 1, "seq", (json_int_t)m->seq, "mono_ns",
                     (json_int_t)(m->mono_ms - shell_ms(0)) * 1000000, "wall_ms", (json_int_t)m->wall_ms, "kind",
                     m->kind, "body", m->body);
}

/* May close the link. */
static void give(struct remote_link *l, enum wire_message number, json_t *body)
{
    struct err err = { 0 };
    if (wire_check(wire_find(number, TO_CONTROLLER), body, &err) < 0)
        broke(shell_world(), "the simulator's message is wrong: %s", err.text);
    l->hooks.message(l->hooks.arg, number, body);
    json_decref(body);
}

/* In order with the events. */
static void beat(uv_timer_t *timer)
{
    struct remote_link *l = timer->data;
    const struct agent *a = agent_of(l);
    if (l->closed || l->state != LINK_UP || !l->greeted || !a->alive || !a->ranks_live ||
        !shell_world()->truth[l->job].engine)
        return;
    struct message *m = message_make(MSG_BEAT, l->attempt, l->nonce);
    m->seq = a->step;
    m->generation = a->generation;
    shell_sync(shell_world());
    post(shell_world(), true, l->job, l->conn, m);
}

static void give_beat(struct remote_link *l, const struct message *m)
{
    struct stored *s = &shell_world()->store[l->job];
    s->beat_life = shell_world()->life;
    s->beat_step = m->seq;
    s->beat_attempt = m->attempt;
    s->beat_generation = m->generation;
    give(l, WIRE_HEARTBEAT,
         json_pack("{s:I, s:I, s:s, s:i, s:s, s:I, s:I, s:s, s:f, s:n, s:n, s:i, s:f}", "job", (json_int_t)l->id,
                   "attempt", (json_int_t)l->attempt, "nonce", l->nonce, "generation", m->generation, "state",
                   "running", "step", (json_int_t)m->seq, "steps", (json_int_t)shell_world()->truth[l->job].steps,
                   "phase", "train", "loss", 0.5, "lr", "samples_per_s", "ranks_alive", 1, "step_ms", 100.0));
}

static void read_one(struct remote_link *l)
{
    struct message *m = l->inbox[l->first++];
    if (--l->count == 0)
        l->first = 0;
    else
        uv_async_send(&l->wake);
    if (m->type == MSG_HELLO) {
        l->greeted = true;
        give(l, WIRE_HELLO, hello_body(l));
    } else if (l->greeted && m->type == MSG_BEAT) {
        give_beat(l, m);
    } else if (l->greeted) {
        give(l, WIRE_EVENT, event_body(l, m));
    } else {                            /* it does not begin with hello */
        disconnect(l, AGAIN_MS);
    }
    message_drop(m);
}

static void woken(uv_async_t *wake)
{
    struct remote_link *l = wake->data;
    if (!l->closed && l->state == LINK_UP && l->count > 0)
        read_one(l);
}

static bool is_for(const struct remote_link *l, const struct happening *h)
{
    return l->job == h->job && l->state == LINK_UP && !l->closed && l->conn == h->a;
}

/* The fence of agent_stream.c: a message of another attempt is refused. */
void shell_link_hears(struct world *w, const struct happening *h)
{
    struct message *m = h->message;
    for (struct remote_link *l = links; l; l = l->next) {
        if (!is_for(l, h) || l->attempt != m->attempt || strcmp(l->nonce, m->nonce) != 0)
            continue;
        if (l->first + l->count == (int)(sizeof(l->inbox) / sizeof(l->inbox[0])))
            return broke(w, "job %d: too many messages at once", h->job);
        l->inbox[l->first + l->count++] = message_hold(m);
        uv_async_send(&l->wake);
        return;
    }
}

void shell_link_cut(struct world *w, const struct happening *h)
{
    for (struct remote_link *l = links; l; l = l->next) {
        if (l->job != h->job || l->state != LINK_UP || l->conn != h->a)
            continue;
        w->cover.harms[HARM_CUT]++;
        disconnect(l, AGAIN_MS);
        return;
    }
}

/* ---- the end of an attempt ---- */

static void give_lost(struct remote_link *l)
{
    static const enum cause unmade[] = { CAUSE_NONE, CAUSE_NONE, CAUSE_NONE, CAUSE_DISK_FULL, CAUSE_SLURM_REFUSED,
                                         CAUSE_HOST_UNUSABLE, CAUSE_HOST_UNREACHABLE };
    const uint64_t n = chance(shell_world()) % (sizeof(unmade) / sizeof(unmade[0]));
    const enum cause cause = agent_of(l)->made ? CAUSE_NONE : unmade[n];
    uv_timer_stop(&l->timer);
    l->state = LINK_NONE;
    if (cause != CAUSE_NONE && l->hooks.not_started)
        l->hooks.not_started(l->hooks.arg, cause, "its agent could not be started");
    else
        l->hooks.lost(l->hooks.arg, "its agent died");
}

static void bury(struct remote_link *l)
{
    struct world *w = shell_world();
    struct agent *a = agent_of(l);
    if (a->alive && !l->dismiss) {      /* it came up just now */
        l->state = LINK_LOOKING;
        later(l, AGAIN_MS);
        return;
    }
    if (l->state != LINK_BURYING) {
        a->fenced = true;
        l->state = LINK_BURYING;
        l->bury_until = w->now + GRACE_MS;
    }
    if (a->ranks_live > 0) {
        if (w->now >= l->bury_until)
            ranks_kill(w, l->job, l->attempt);
        later(l, BURY_MS);
        return;
    }
    const int64_t acked = l->hooks.acked(l->hooks.arg);
    for (int64_t i = acked; i < a->spooled && !l->closed; i++)
        give(l, WIRE_EVENT, event_body(l, a->spool[i]));
    if (!l->closed)
        give_lost(l);
}

/* ---- looking ---- */

static void look(uv_timer_t *timer)
{
    struct remote_link *l = timer->data;
    struct world *w = shell_world();
    struct agent *a = agent_of(l);
    shell_sync(w);
    if (l->closed || l->state == LINK_UP)
        return;
    if (l->dismiss && a->alive)
        agent_dies(w, l->job, l->attempt);
    if (l->state == LINK_BURYING || !l->may_start || a->made || a->fenced) {
        if (l->state == LINK_BURYING || !a->alive)
            return bury(l);
    } else if (fault(w, 60, HARM_AGENT_MISSING)) {
        return bury(l);
    } else {
        if (!fault(w, 20, HARM_AGENT_MISSING))
            plan(w, between(w, 5, fault(w, 10, HARM_AGENT_SLOW) ? 9000 : 300), AGENT_COMES, l->job, l->attempt, 0);
        later(l, LOOK_MS);
        return;
    }
    l->state = LINK_UP;
    l->greeted = false;
    l->conn = ++w->conns;
    agent_connect(w, l->job, l->attempt, l->conn);
    plan(w, between(w, 1000, 40000), LINK_CUT, l->job, l->attempt, w->life)->a = l->conn;
}

/* ---- the table ---- */

static int link_open(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                     const struct remote_link_hooks *hooks, struct err *err)
{
    struct remote_link *l = calloc(1, sizeof(*l));
    const int job = shell_job(spec->job);
    if (!l || job < 0 || spec->attempt >= ATTEMPTS) {
        broke(shell_world(), "job %lld: a link to attempt %lld", (long long)spec->job, (long long)spec->attempt);
        free(l);
        return err_set(err, ERR_BUG, "no such job");
    }
    *l = (struct remote_link){ .next = links, .hooks = *hooks, .handles = 3, .id = spec->job, .job = job,
                               .attempt = (int)spec->attempt, .may_start = spec->may_start, .dismiss = spec->dismiss,
                               .state = LINK_LOOKING };
    if (spec->attempt > shell_world()->store[job].latest.attempt)
        broke(shell_world(), "job %d: attempt %d begins before it is committed", job, (int)spec->attempt);
    snprintf(l->nonce, sizeof(l->nonce), "%s", spec->nonce);
    uv_timer_init(loop, &l->timer);
    uv_timer_init(loop, &l->beat);
    uv_async_init(loop, &l->wake, woken);
    l->timer.data = l->beat.data = l->wake.data = l;
    uv_timer_start(&l->beat, beat, BEAT_MS, BEAT_MS);
    links = l;
    later(l, (int64_t)spec->delay_ms + 1);
    *out = l;
    return 0;
}

static enum message_type type_of(enum wire_message number)
{
    return number == WIRE_LAUNCH ? MSG_LAUNCH : number == WIRE_STOP ? MSG_STOP : MSG_ACK;
}

static int64_t number_of(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

static void read_launch(struct message *m, const json_t *body)
{
    const json_t *budget = json_object_get(body, "budget"), *history = json_object_get(body, "history");
    const char *gpu;
    json_t *why;
    m->seq = number_of(body, "acked");
    m->budget = (struct retry_rules){ .max = number_of(budget, "restarts"),
                                      .no_progress = number_of(budget, "no_progress"),
                                      .same_line = number_of(budget, "same_line"),
                                      .same_line_ms = number_of(budget, "same_line_ms"),
                                      .backoff_min_ms = number_of(budget, "backoff_min_ms"),
                                      .backoff_max_ms = number_of(budget, "backoff_max_ms") };
    m->failures = number_of(history, "failures_without_progress");
    m->same = number_of(history, "same_fingerprint");
    m->last_step = number_of(history, "last_step");
    snprintf(m->fingerprint, sizeof(m->fingerprint), "%s",
             json_string_value(json_object_get(history, "fingerprint")));
    json_object_foreach (json_object_get(body, "excluded"), gpu, why)
        m->excluded |= 1U << gpu_number(gpu);
}

/* What begins with this message was decided: is that on the disk? */
static void check_committed(const struct remote_link *l, enum wire_message number)
{
    struct world *w = shell_world();
    const struct job *job = active_jobs_find(shell_daemon()->active_jobs, l->id);
    const struct job_core *latest = &w->store[l->job].latest;
    if ((number == WIRE_LAUNCH || number == WIRE_STOP) && job &&
        (job->core.state != latest->state || job->core.attempt != latest->attempt))
        broke(w, "job %d: message %d is sent before the state '%s' is committed", l->job, (int)number,
              job_state_name(job->core.state));
}

static void link_send(struct remote_link *l, enum wire_message number, json_t *body)
{
    struct err err = { 0 };
    struct world *w = shell_world();
    if (wire_check(wire_find(number, TO_AGENT), body, &err) < 0)
        broke(w, "job %d: the controller's message is wrong: %s", l->job, err.text);
    if (number_of(body, "job") != l->id)
        broke(w, "job %d gets a message for job %lld", l->job, (long long)number_of(body, "job"));
    check_committed(l, number);
    if (number == WIRE_ACK && number_of(body, "seq") > w->store[l->job].acked[l->attempt] && !w->store[l->job].done)
        broke(w, "job %d: event %lld is acknowledged before it is committed", l->job,
              (long long)number_of(body, "seq"));
    if (l->state == LINK_UP && !l->closed && (number == WIRE_LAUNCH || number == WIRE_ACK || number == WIRE_STOP)) {
        struct message *m = message_make(type_of(number), (int)number_of(body, "attempt"),
                                         json_string_value(json_object_get(body, "nonce")));
        m->seq = number_of(body, "seq");
        if (number == WIRE_LAUNCH)
            read_launch(m, body);
        post(w, false, l->job, l->conn, m);
    }
    json_decref(body);
}

static void handle_closed(uv_handle_t *h)
{
    struct remote_link *l = h->data;
    if (--l->handles == 0)
        free(l);
}

static void link_close(struct remote_link *l)
{
    struct remote_link **at = &links;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    l->closed = true;
    disconnect(l, 0);
    uv_close((uv_handle_t *)&l->timer, handle_closed);
    uv_close((uv_handle_t *)&l->beat, handle_closed);
    uv_close((uv_handle_t *)&l->wake, handle_closed);
}

const struct remote remote_local = { "local", link_open, link_send, link_close };
const struct remote remote_ssh = { "ssh", link_open, link_send, link_close };
const struct remote remote_slurm = { "slurm", link_open, link_send, link_close };

bool remote_ssh_there(void)
{
    return true;
}

void remote_share_gpus(char *out, size_t size, int64_t each, int node)
{
    (void)each;
    (void)node;
    if (size > 0)
        out[0] = 0;
}
