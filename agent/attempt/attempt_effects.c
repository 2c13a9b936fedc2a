/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_effects.c - performs the effects of a step of the core; see attempt_internal.h */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/attempt/attempt_internal.h"
#include "agent/attempt/incident.h"
#include "agent/attempt/machine_wait.h"
#include "agent/attempt/monitor.h"
#include "agent/attempt/session.h"
#include "agent/attempt/spool.h"
#include "agent/core/agent_effects.h"
#include "agent/core/redact.h"
#include "agent/mirror/mirror_child.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/follower_link.h"
#include "agent/nodes/leader.h"
#include "agent/os/lease_keeper.h"
#include "agent/os/log.h"
#include "agent/plan/gpu_selftest_child.h"
#include "agent/probe/gpu_sampler.h"
#include "agent/ranks/capture.h"
#include "agent/ranks/launch_env.h"
#include "agent/wire/call_home.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum {
    LAST_COPY_MS = 10 * 60 * 1000, /* to the mirror, at the end */
    NO_COPY_MS = 2000,             /* after a stop that does not wait: to release the mirror's lease */
    RELEASE_MS = 5000              /* to release checkpoint.dir's lease; if it takes longer, the file system hangs */
};

double attempt_jitter(void)
{
    uint32_t v = 0;
    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint32_t)uv_hrtime();
    return (double)v / 4294967296.0;
}

/* --- events ---------------------------------------------------------------------------- */

void attempt_store(struct attempt *a, const char *kind, json_t *body, bool droppable)
{
    struct err err = {0};
    if (a->finished_ms) {
        json_decref(body);
        return;
    }
    json_t *clean = redact_event(a->redact, body);
    json_t *event = json_make(
        "{s:I, s:I, s:I, s:s, s:O}", "incarnation", (json_int_t)a->identity.incarnation, "mono_ns",
        (json_int_t)uv_hrtime(), "wall_ms", (json_int_t)clock_unix_ms(),
        "kind", kind, "body", clean);
    int rc = event ? spool_append(a->spool, event, droppable, &err)
                   : err_set(&err, ERR_MEMORY, "no memory for an event");
    if (rc < 0)
        log_error(a->tag, "event %s was lost: %s", kind, err.text);
    if (!droppable)
        mirror_child_note(a->mirror, kind, clean);
    json_decref(event);
    json_decref(clean);
    json_decref(body);
    a->unsynced |= rc == 0 && !droppable;
    a->untold |= rc == 0 && !a->leaving;
}

void attempt_sync(void *arg)
{
    struct attempt *a = arg;
    struct err err = {0};
    if (a->unsynced && spool_sync(a->spool, &err) < 0)
        log_error(a->tag, "%s", err.text);
    a->unsynced = false;
}

void attempt_on_room(void *arg)
{
    struct attempt *a = arg;
    a->untold = !a->leaving;
}

static void turn_over(uv_prepare_t *handle)
{
    struct attempt *a = handle->data;
    const bool untold = a->untold;
    a->untold = false;
    attempt_sync(a);
    if (untold)
        session_pump(a->session);
}

void attempt_watch_turns(struct attempt *a)
{
    uv_prepare_init(&a->loop, &a->turn);
    a->turn.data = a;
    uv_prepare_start(&a->turn, turn_over);
}

void attempt_check_disk(struct attempt *a)
{
    struct err err = {0};
    char text[PATH_MAX + 300];
    if (spool_held(a->spool) > 0)
        spool_sync(a->spool, &err);
    const struct capture_losses losses = capture_losses();
    const struct disk_state now = {spool_held(a->spool), losses.logs, losses.bytes, clock_ms()};
    if (!disk_notice_look(&a->disk, &now, a->o.run_dir, text, sizeof(text)))
        return;
    log_warn(a->tag, "%s", text);
    if (!a->link && a->launch)
        attempt_store(a, "warning", json_make("{s:n, s:s}", "rank", "text", text), false);
}

void attempt_store_learned(struct attempt *a)
{
    json_t *learned = monitor_learned(a->monitor);
    if (a->fallbacks > 0 && (learned || (learned = json_object())))
        json_object_set_new(learned, "fallbacks", json_integer(a->fallbacks));
    if (!learned || (a->learned && json_equal(learned, a->learned))) {
        json_decref(learned);
        return;
    }
    json_decref(a->learned);
    a->learned = json_incref(learned);
    attempt_store(a, "learned", learned, false);
}

/* Logs events that a user would ask about, one line each, in agent.log. */
static void log_event(const struct attempt *a, const struct agent_effect *e)
{
    const char *text = json_string_value(json_object_get(e->body, "text"));
    if (!e->droppable)
        log_info(a->tag, "%s%s%s", e->event, text ? ": " : "", text ? text : "");
}

/* --- effects --------------------------------------------------------------------------- */

bool attempt_may_rejoin(const struct attempt *a)
{
    return json_is_true(json_object_get(a->plan, "engine")) && leader_ranks(a->leader) > 1;
}

static void start_processes(struct attempt *a, const struct agent_effect *by)
{
    const int generation = by->kind == DO_SETUP ? 0 : by->generation;
    const struct launch_env e = {
        .generation = generation,
        .restarts = a->restarts,
        .resume_step = generation ? by->resume_step : -1,
        .skip_step = generation ? by->skip_step : -1,
        .forget = by->forget,
        .pull = by->pull,
        .fetch = by->fetch,
        .keep = by->keep,
        .rejoin = attempt_may_rejoin(a),
        .deadline_s = a->deadline_s,
        .fallbacks = generation ? by->fallbacks : 0,
    };
    if (e.fallbacks > a->fallbacks) {
        a->fallbacks = e.fallbacks;
        attempt_store_learned(
            a); /* at once: this agent may be lost */
    }
    a->nccl_unlike = false;
    leader_start(a->leader, &e);
}

void attempt_on_started(void *arg, const struct leader_started *s)
{
    struct attempt *a = arg;
    struct agent_input in = {.kind = s->text ? INPUT_SPAWN_FAILED : INPUT_SPAWNED,
                             .spawn = {.generation = s->generation,
                                       .pids = s->pids,
                                       .snapshot_step = s->snapshot_step,
                                       .text = s->text}};
    if (s->text)
        log_error(a->tag, "%s", s->text);
    if (s->generation > 0) {
        attempt_feed(a, &in);
        if (!s->text)
            monitor_begin(a->monitor, s->generation);
    } else if (s->text) {
        in.kind = INPUT_SETUP_EXITED;
        in.exited = (struct agent_exit){.exit_code = 126, .last_lines = s->text};
        attempt_feed(a, &in);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct agent_input in = {.kind = INPUT_TIMER};
    attempt_feed(timer->data, &in);
}

static void set_timer(struct attempt *a, int64_t at_ms)
{
    if (!at_ms) {
        uv_timer_stop(&a->timer);
        return;
    }
    uv_update_time(&a->loop);
    int64_t wait = at_ms - clock_ms();
    uv_timer_start(&a->timer, on_timer, wait > 0 ? (uint64_t)wait + 1 : 1, 0);
}

static void tell_report(struct attempt *a, int generation, json_t *body)
{
    struct agent_input in = {.kind = INPUT_REPORTED,
                             .reported = {.generation = generation, .body = body}};
    attempt_feed(a, &in);
    json_decref(body);
}

/* Records what is visible at once; for a hang then collects stacks, one incident at a time, of the
 * blamed rank first. */
static void report(struct attempt *a, const struct agent_effect *e)
{
    struct err err = {0};
    const struct incident incident = {
        .run_dir = a->o.run_dir,
        .ckpt_dir = json_string_value(json_object_get(a->launch, "ckpt_dir")),
        .job = a->o.job,
        .attempt = a->o.attempt,
        .generation = e->generation,
        .reason = e->text,
        .leader = a->leader,
    };
    json_t *body = incident_write(&incident, &err);
    if (!body)
        log_warn(a->tag, "no incident report: %s", err.text);
    if (!body || !e->inspect || a->incident) {
        tell_report(a, e->generation, body);
        return;
    }
    a->incident = body;
    a->incident_generation = e->generation;
    leader_inspect(a->leader, e->generation, e->rank, json_string_value(json_object_get(body, "path")));
}

/* The stacks of this node are in the report already. */
void attempt_on_stacks(void *arg, int node, const char *text)
{
    struct attempt *a = arg;
    if (node > 0 && a->incident)
        incident_append(a->o.run_dir, a->incident_generation, leader_name(a->leader, node), text);
}

void attempt_on_stacks_done(void *arg)
{
    struct attempt *a = arg;
    json_t *body = a->incident;
    a->incident = NULL;
    tell_report(a, a->incident_generation, body);
}

static void finish(struct attempt *a)
{
    a->finished_ms = clock_ms();
    if (!a->unclean)
        machine_wait_release(a->machine);
    leader_shutdown(a->leader);
    if (spool_acked(a->spool) >= spool_last(a->spool))
        attempt_leave(a);
}

void attempt_on_nccl(void *arg, int node, const json_t *body)
{
    struct attempt *a = arg;
    const char *text = json_string_value(json_object_get(body, "text"));
    const bool expected = !json_is_false(json_object_get(body, "expected"));
    if (expected && (node > 0 || a->nccl_unlike))
        return;
    json_t *named = json_deep_copy(body);
    if (node > 0)
        json_object_set_new(named, "text", json_text_f("%s: %s", leader_name(a->leader, node), text ? text : ""));
    a->nccl_unlike = a->nccl_unlike || node > 0;
    attempt_store(a, "nccl", named, false);
}

/* Copies what is left to the mirror first. */
static void clean_up(struct attempt *a, int generation)
{
    monitor_end(a->monitor);
    if (generation == 0 && a->mirror)
        mirror_child_finish(a->mirror, a->now ? NO_COPY_MS : LAST_COPY_MS); /* then attempt_cleanup() */
    else
        leader_cleanup(a->leader, generation);
}

void attempt_cleanup(struct attempt *a)
{
    leader_cleanup(a->leader, 0);
}

static void perform(struct attempt *a, const struct agent_effect *e)
{
    switch (e->kind) {
    case DO_EVENT:
        break; /* stored already */
    case DO_SETUP:
    case DO_SPAWN:
        start_processes(a, e);
        break;
    case DO_CONTROL:
        leader_control(a->leader, e->command);
        break;
    case DO_SIGNAL:
        leader_signal(a->leader, e->signo);
        break;
    case DO_INCIDENT:
        report(a, e);
        break;
    case DO_CLEANUP:
        clean_up(a, e->generation);
        break;
    case DO_TIMER:
        set_timer(a, e->at_ms);
        break;
    case DO_FINISH:
        finish(a);
        break;
    }
}

void attempt_feed(struct attempt *a, struct agent_input *in)
{
    struct agent_effects out = {.n = 0};
    if (a->link) {
        if (in->kind == INPUT_STOP)
            follower_link_stop(a->link, in->stop.reason, in->stop.grace_ms, in->stop.preempted);
        return;
    }
    if (in->kind == INPUT_STOP && in->stop.grace_ms == 0 && !in->stop.checkpoint) {
        a->now = true;
        mirror_child_hurry(a->mirror, NO_COPY_MS);
    }
    in->now_ms = clock_ms();
    agent_core_step(a->core, in, &out);
    for (int i = 0; i < out.n; i++)
        if (out.list[i].kind == DO_EVENT) {
            if (strcmp(out.list[i].event, "generation_ended") == 0) {
                attempt_store_learned(a);
                attempt_check_disk(a); /* its logs will be closed */
            }
            log_event(a, &out.list[i]);
            json_t *body = out.list[i].body ? json_incref(out.list[i].body) : json_object();
            if (a->few && strcmp(out.list[i].event, "attempt_ended") == 0)
                json_object_update(body, a->few);
            attempt_store(a, out.list[i].event, body, out.list[i].droppable);
        }
    for (int i = 0; i < out.n; i++)
        perform(a, &out.list[i]);
    agent_effects_fini(&out);
}

/* --- no process is left ------------------------------------------------------------------- */

static void feed_swept(struct attempt *a, bool clean, const char *left)
{
    struct agent_view v;
    agent_core_view(a->core, &v);
    a->unclean = v.phase == AGENT_CLOSING && !clean;
    if (v.phase == AGENT_CLOSING && clean)
        machine_wait_release(a->machine); /* before the controller starts the next one */
    struct agent_input in = {.kind = INPUT_CLEANED,
                             .jitter = attempt_jitter(),
                             .cleaned = {.clean = clean, .left = left}};
    attempt_feed(a, &in);
}

/* No process of the attempt is left: the lease is released before the end of the attempt is reported. */
void attempt_on_swept(void *arg, bool clean, const char *left)
{
    struct attempt *a = arg;
    struct agent_view v;
    agent_core_view(a->core, &v);
    if (!a->lease || v.phase != AGENT_CLOSING) {
        feed_swept(a, clean, left);
        return;
    }
    if (a->swept.there)
        return;
    a->swept.there = true;
    a->swept.clean = clean;
    snprintf(a->swept.left, sizeof(a->swept.left), "%s", left ? left : "");
    lease_keeper_finish(a->lease, RELEASE_MS);
}

void attempt_on_lease_ended(void *arg)
{
    struct attempt *a = arg;
    feed_swept(a, a->swept.clean, a->swept.left);
}

/* --- leaving --------------------------------------------------------------------------- */

void attempt_leave(struct attempt *a)
{
    if (a->leaving)
        return;
    if (a->untold)
        session_pump(a->session);
    attempt_sync(a);
    a->untold = false;
    a->leaving = true;
    session_close(a->session);
    call_home_close(a->call_home);
    monitor_close(a->monitor);
    gpu_selftest_child_close(a->gpu_selftest);
    gpu_sampler_close(a->gpu_sampler);
    a->gpu_sampler = NULL;
    mirror_child_close(a->mirror);
    lease_keeper_close(a->lease);
    a->lease = NULL;
    machine_wait_close(a->machine);
    a->machine = NULL;
    leader_close(a->leader);
    follower_link_close(a->link);
    follower_close(a->follower);
    uv_close((uv_handle_t *)&a->turn, NULL);
    uv_close((uv_handle_t *)&a->timer, NULL);
    uv_close((uv_handle_t *)&a->beat, NULL);
    uv_close((uv_handle_t *)&a->deadline_timer, NULL);
    uv_close((uv_handle_t *)&a->lease_timer, NULL);
    uv_close((uv_handle_t *)&a->sigterm, NULL);
    uv_close((uv_handle_t *)&a->sigint, NULL);
}
