/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - see attempt.h */
#include "agent/attempt_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_effects.h"
#include "agent/heartbeat.h"
#include "agent/incident.h"
#include "agent/inspector.h"
#include "agent/launch_env.h"
#include "agent/log.h"
#include "agent/mail.h"
#include "agent/mirror_child.h"
#include "agent/probe.h"
#include "agent/ranks.h"
#include "agent/run_dir.h"
#include "agent/session.h"
#include "agent/spool.h"
#include "agent/sweep.h"
#include "agent/vigil.h"
#include "engine/err.h"

enum {
    LAUNCH_WAIT_MS = 60 * 1000, /* nobody launches: leave */
    LINGER_MS = 10 * 60 * 1000, /* nobody acknowledges: leave, the spool stays */
    HEARTBEAT_MS = 1000,
    LEARNED_BEATS = 300, /* what was learned is stored so often, in case the node is lost */
    SWEEP_EVERY_MS = 5,
    LAST_COPY_MS = 10 * 60 * 1000, /* to the mirror, at the end */
    SWEEP_WARN_MS = 10 * 1000 /* what has not died by then is stuck in the kernel */
};

static int64_t now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

/* [0, 1), for the jitter of the back-off. */
double attempt_dice(void)
{
    uint32_t v = 0;
    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint32_t)uv_hrtime();
    return (double)v / 4294967296.0;
}

/* --- events ---------------------------------------------------------------------------- */

/* Stores one event; true if it must be on disk before anything else happens. Takes the body. */
bool attempt_store(struct attempt *a, const char *kind, json_t *body, bool droppable)
{
    struct err err = {0};
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    json_t *event = json_pack(
        "{s:I, s:I, s:I, s:s, s:o}", "incarnation", (json_int_t)a->identity.incarnation, "mono_ns",
        (json_int_t)uv_hrtime(), "wall_ms", (json_int_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000,
        "kind", kind, "body", body);
    int rc = event ? spool_append(a->spool, event, droppable, &err)
                   : err_set(&err, ERR_MEMORY, "no memory for an event");
    if (rc < 0)
        log_error(a->tag, "event %s is lost: %s", kind, err.text);
    if (!droppable)
        mirror_child_note(a->mirror, kind, body);
    json_decref(event);
    return rc == 0 && !droppable;
}

void attempt_sync(struct attempt *a)
{
    struct err err = {0};
    if (spool_sync(a->spool, &err) < 0)
        log_error(a->tag, "%s", err.text);
}

static void store_learned(struct attempt *a)
{
    json_t *learned = vigil_learned(a->vigil);
    if (a->remedies > 0 && (learned || (learned = json_object())))
        json_object_set_new(learned, "remedies", json_integer(a->remedies));
    if (!learned || (a->learned && json_equal(learned, a->learned))) {
        json_decref(learned);
        return;
    }
    json_decref(a->learned);
    a->learned = json_incref(learned);
    attempt_store(a, "learned", learned, false);
}

/* One line of the agent's own log per event that a person would ask for. */
static void log_event(const struct attempt *a, const struct agent_effect *e)
{
    const char *text = json_string_value(json_object_get(e->body, "text"));
    if (!e->droppable)
        log_info(a->tag, "%s%s%s", e->event, text ? ": " : "", text ? text : "");
}

/* --- effects --------------------------------------------------------------------------- */

static void start_processes(struct attempt *a, const struct agent_effect *by)
{
    const char *ckpt = json_string_value(json_object_get(a->launch, "ckpt_dir"));
    const int generation = by->kind == DO_SETUP ? 0 : by->generation;
    struct launch_env e = {
        .job = a->o.job,
        .attempt = a->o.attempt,
        .generation = generation,
        .name = json_string_value(json_object_get(a->launch, "name")),
        .nonce = a->o.nonce,
        .run_dir = a->o.run_dir,
        .ckpt_dir = ckpt,
        .world_size = a->np,
        .restarts = a->restarts,
        .resume_step = generation ? by->resume_step : -1,
        .skip_step = generation ? by->skip_step : -1,
        .forget = by->forget,
        .deadline_s = a->deadline_s,
        .plan = a->plan,
        .remedies = generation ? by->remedies : 0,
        .secrets = json_object_get(a->launch, "secrets"),
    };
    struct err err = {0};
    if (e.remedies > a->remedies) {
        a->remedies = e.remedies;
        store_learned(a); /* at once: should this agent be lost, the next one begins with it */
    }
    int rc = ranks_start(a->ranks, &e, a->pids, &err);
    struct agent_input in = {
        .spawn = {.generation = generation,
                  .pids = a->pids,
                  .snapshot_step = e.snapshot_step,
                  .text = err.text}};
    if (rc < 0)
        log_error(a->tag, "%s", err.text);
    if (generation > 0) {
        in.kind = rc < 0 ? INPUT_SPAWN_FAILED : INPUT_SPAWNED;
        attempt_feed(a, &in);
        if (rc == 0)
            vigil_begin(a->vigil, generation);
    } else if (rc < 0) {
        in.kind = INPUT_SETUP_EXITED;
        in.exited = (struct agent_exit){.exit_code = 126, .last_lines = err.text};
        attempt_feed(a, &in);
    }
}

/* One look: kill what is ours; answer once nothing is found, or once it must be stuck. */
static void sweep_look(struct attempt *a)
{
    char left[512];
    struct sweep s = {
        .nonce = a->o.nonce, .generation = a->sweep_generation, .adopted = true, .kill = true};
    int n = sweep_run(&s, left, sizeof(left));
    int64_t waited = now_ms() - a->sweep_since_ms;
    if (n > 0 && waited < SWEEP_WARN_MS)
        return; /* the broom comes again */
    uv_timer_stop(&a->broom);
    struct agent_input in = {.kind = INPUT_SWEPT, .jitter = attempt_dice()};
    in.swept.clean = n == 0;
    in.swept.left = n < 0 ? "/proc cannot be read" : left;
    attempt_feed(a, &in);
}

static void on_broom(uv_timer_t *timer)
{
    sweep_look(timer->data);
}

void attempt_sweep(struct attempt *a)
{
    a->sweep_since_ms = now_ms();
    uv_timer_start(&a->broom, on_broom, SWEEP_EVERY_MS, SWEEP_EVERY_MS);
    sweep_look(a);
}

static void leave(struct attempt *a);

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
    int64_t wait = at_ms - now_ms();
    uv_timer_start(&a->timer, on_timer, wait > 0 ? (uint64_t)wait + 1 : 1, 0);
}

static void on_inspected(void *arg, int generation, json_t *body)
{
    struct agent_input in = {.kind = INPUT_REPORTED,
                             .reported = {.generation = generation, .body = body}};
    attempt_feed(arg, &in);
}

/* What can be seen at once; for a hang then what takes a debugger, the one to blame first. */
static void report(struct attempt *a, const struct agent_effect *e)
{
    struct err err = {0};
    const struct incident incident = {
        .run_dir = a->o.run_dir,
        .ckpt_dir = json_string_value(json_object_get(a->launch, "ckpt_dir")),
        .job = a->o.job,
        .attempt = a->o.attempt,
        .generation = e->generation,
        .np = a->np,
        .reason = e->text,
        .ranks = a->ranks,
    };
    json_t *body = incident_write(&incident, &err);
    if (!body)
        log_warn(a->tag, "no incident report: %s", err.text);
    int64_t *pids = e->inspect ? ranks_workers(a->ranks, e->rank) : NULL;
    inspector_begin(a->inspector, e->generation, body, pids, pids ? a->np : 0);
    free(pids);
}

static void finish(struct attempt *a)
{
    a->finished_ms = now_ms();
    session_pump(a->session);
    if (spool_acked(a->spool) >= spool_last(a->spool))
        leave(a);
}

static void perform(struct attempt *a, const struct agent_effect *e)
{
    switch (e->kind) {
    case DO_EVENT:
        break; /* stored already */
    case DO_SETUP:
        start_processes(a, e);
        break;
    case DO_SPAWN:
        start_processes(a, e);
        break;
    case DO_CONTROL:
        ranks_control(a->ranks, e->command);
        break;
    case DO_SIGNAL:
        ranks_signal(a->ranks, e->signo);
        break;
    case DO_INCIDENT:
        report(a, e);
        break;
    case DO_SWEEP:
        vigil_end(a->vigil);
        a->sweep_generation = e->generation;
        if (e->generation == 0 && a->mirror)
            mirror_child_finish(a->mirror, LAST_COPY_MS); /* on_mirror_ended() sweeps */
        else
            attempt_sweep(a);
        break;
    case DO_TIMER:
        set_timer(a, e->at_ms);
        break;
    case DO_FINISH:
        finish(a);
        break;
    }
}

/* One step of the core. Performing an effect may lead to the next step. */
void attempt_feed(struct attempt *a, struct agent_input *in)
{
    struct agent_effects out = {.n = 0};
    in->now_ms = now_ms();
    agent_core_step(a->core, in, &out);
    bool sync = false;
    for (int i = 0; i < out.n; i++)
        if (out.list[i].kind == DO_EVENT) {
            if (strcmp(out.list[i].event, "generation_ended") == 0)
                store_learned(a);
            log_event(a, &out.list[i]);
            json_t *body = out.list[i].body ? json_incref(out.list[i].body) : json_object();
            if (attempt_store(a, out.list[i].event, body, out.list[i].droppable))
                sync = true;
        }
    if (sync)
        attempt_sync(a);
    if (out.n && !a->leaving)
        session_pump(a->session); /* stored: the news goes out before the work begins */
    for (int i = 0; i < out.n; i++)
        perform(a, &out.list[i]);
    agent_effects_fini(&out);
}

/* --- inputs ---------------------------------------------------------------------------- */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct agent_input in = {.kind = e->generation ? INPUT_RANK_EXITED : INPUT_SETUP_EXITED,
                             .exited = *e,
                             .jitter = attempt_dice()};
    attempt_feed(arg, &in);
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct agent_input in = {.kind = INPUT_PROGRESS,
                             .progress = {.generation = generation, .rank = rank, .line = line}};
    attempt_feed(arg, &in);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct attempt *a = arg;
    vigil_output(a->vigil, rank, bytes, size);
}

static void on_message(void *arg, enum wire_message number, const json_t *body)
{
    struct attempt *a = arg;
    struct agent_input in = {.jitter = attempt_dice()};
    switch (number) {
    case WIRE_LAUNCH:
        attempt_on_launch(a, body);
        break;
    case WIRE_STOP:
        in.kind = INPUT_STOP;
        in.stop.reason = json_string_value(json_object_get(body, "reason"));
        in.stop.grace_ms = json_integer_value(json_object_get(body, "grace_ms"));
        in.stop.checkpoint = json_is_true(json_object_get(body, "checkpoint"));
        attempt_feed(a, &in);
        break;
    case WIRE_CHECKPOINT:
        in.kind = INPUT_CHECKPOINT;
        attempt_feed(a, &in);
        break;
    default:
        break;
    }
}

static void on_acked(void *arg, int64_t seq)
{
    struct attempt *a = arg;
    (void)seq;
    if (a->finished_ms && spool_acked(a->spool) >= spool_last(a->spool))
        leave(a);
}

/* Somebody ends the agent: its ranks stop with it, and the controller will hear of it. */
static void on_end_signal(uv_signal_t *handle, int signo)
{
    struct agent_input in = {.kind = INPUT_STOP};
    in.stop.reason = signo == SIGTERM ? "the agent got SIGTERM" : "the agent was interrupted";
    in.stop.grace_ms = 10000;
    in.stop.checkpoint = in.stop.preempted = true;
    attempt_feed(handle->data, &in);
}

/* --- heartbeats and leaving -------------------------------------------------------------- */

/* What others leave in the run directory: that this attempt was given up, or that the machine will
 * soon be taken away. */
static void look_around(struct attempt *a)
{
    struct agent_input in = {.kind = INPUT_STOP, .jitter = attempt_dice()};
    if (a->noticed || !a->launch || a->finished_ms)
        return;
    if (run_dir_fenced(a->o.run_dir)) {
        in.stop.reason = "the controller has given this attempt up";
    } else if (run_dir_notice(a->o.run_dir, &in.stop.grace_ms)) {
        in.stop.reason = "the machine will soon be taken away";
        in.stop.checkpoint = in.stop.preempted = true;
    } else {
        return;
    }
    a->noticed = true;
    log_warn(a->tag, "%s: the ranks stop", in.stop.reason);
    attempt_feed(a, &in);
}

static void on_beat(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    int64_t now = now_ms();
    look_around(a);
    if (!a->launch && now - a->started_ms > LAUNCH_WAIT_MS) {
        log_warn(a->tag, "nobody launched anything within %d s: leaving", LAUNCH_WAIT_MS / 1000);
        leave(a);
    } else if (a->finished_ms && now - a->finished_ms > LINGER_MS) {
        log_warn(a->tag, "the controller has not taken events %lld to %lld; they stay in the spool",
                 (long long)spool_acked(a->spool) + 1, (long long)spool_last(a->spool));
        leave(a);
    } else if (a->launch && !a->finished_ms) {
        session_heartbeat(a->session, heartbeat_body(a->core, a->ranks));
        if (++a->beats % LEARNED_BEATS == 0)
            store_learned(a);
    }
}

/* Closes every handle, so that the loop ends. */
static void leave(struct attempt *a)
{
    if (a->leaving)
        return;
    a->leaving = true;
    session_close(a->session);
    vigil_close(a->vigil);
    inspector_close(a->inspector);
    mirror_child_close(a->mirror);
    ranks_close(a->ranks);
    uv_close((uv_handle_t *)&a->timer, NULL);
    uv_close((uv_handle_t *)&a->beat, NULL);
    uv_close((uv_handle_t *)&a->broom, NULL);
    uv_close((uv_handle_t *)&a->dusk, NULL);
    uv_close((uv_handle_t *)&a->sigterm, NULL);
    uv_close((uv_handle_t *)&a->sigint, NULL);
}

/* --- life ------------------------------------------------------------------------------ */

static void init_handles(struct attempt *a)
{
    uv_timer_init(&a->loop, &a->timer);
    uv_timer_init(&a->loop, &a->beat);
    uv_timer_init(&a->loop, &a->broom);
    uv_timer_init(&a->loop, &a->dusk);
    uv_signal_init(&a->loop, &a->sigterm);
    uv_signal_init(&a->loop, &a->sigint);
    a->timer.data = a->beat.data = a->broom.data = a->dusk.data = a;
    a->sigterm.data = a->sigint.data = a;
    uv_timer_start(&a->beat, on_beat, HEARTBEAT_MS, HEARTBEAT_MS);
    uv_signal_start(&a->sigterm, on_end_signal, SIGTERM);
    uv_signal_start(&a->sigint, on_end_signal, SIGINT);
    signal(SIGPIPE, SIG_IGN);
}

/* Facts, spool and identity: all that can fail before anybody hears of us. */
static int open_files(struct attempt *a, struct err *err)
{
    char path[4096];
    struct identity before;
    /* Held until this process ends; the ranks do not inherit it. */
    if (run_dir_lock(a->o.run_dir, err) < 0)
        return -1;
    if (run_dir_fenced(a->o.run_dir))
        return err_set(err, ERR_CONFLICT, "the attempt of '%s' is over: it must not start again",
                       a->o.run_dir);
    a->identity = (struct identity){.job = a->o.job, .attempt = a->o.attempt, .incarnation = 1};
    snprintf(a->identity.nonce, sizeof(a->identity.nonce), "%s", a->o.nonce);
    snprintf(a->identity.version, sizeof(a->identity.version), "%s", JOBCTL_VERSION);
    if (identity_read(&before, a->o.run_dir, NULL) == 0) {
        if (strcmp(before.nonce, a->o.nonce) != 0)
            return err_set(err, ERR_CONFLICT, "'%s' belongs to another attempt", a->o.run_dir);
        a->identity.incarnation = before.incarnation + 1;
    }
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_SPOOL, a->o.run_dir) >= sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    a->facts = probe_facts(a->o.run_dir, err);
    if (!a->facts || identity_self(&a->identity, err) < 0)
        return -1;
    return spool_open(&a->spool, path, SPOOL_BYTES, err);
}

static int open_all(struct attempt *a, struct err *err)
{
    char path[4096];
    if (open_files(a, err) < 0 || agent_core_create(&a->core, err) < 0 ||
        ranks_create(&a->ranks, &a->loop,
                     &(struct ranks_hooks){.exited = on_exited,
                                           .line = on_line,
                                           .output = on_output,
                                           .arg = a},
                     err) < 0 ||
        inspector_create(&a->inspector, &a->loop, on_inspected, a, err) < 0)
        return -1;
    const char *node = json_string_value(json_object_get(a->facts, "hostname"));
    struct session_id id = {.job = a->o.job,
                            .attempt = a->o.attempt,
                            .incarnation = a->identity.incarnation,
                            .nonce = a->o.nonce,
                            .node = node ? node : "",
                            .boot_id = a->identity.boot_id,
                            .pid = a->identity.pid,
                            .start_time = a->identity.start_time,
                            .version = a->identity.version};
    struct session_hooks hooks = {.message = on_message, .acked = on_acked, .arg = a};
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_SOCKET, a->o.run_dir) >= sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    /* The identity first: whoever finds the socket finds it too. */
    if (identity_write(&a->identity, a->o.run_dir, err) < 0 ||
        session_open(&a->session, &a->loop, path, &id, a->facts, a->spool, &hooks, err) < 0)
        return -1;
    if (a->o.mail && mail_open(&a->mail, a->o.run_dir, path, err) < 0)
        return -1;
    return 0;
}

static void tell_ready(const struct attempt *a)
{
    if (a->o.ready_fd < 0)
        return;
    if (write(a->o.ready_fd, "ready\n", 6) < 0)
        log_warn(a->tag, "nobody waits for this agent to be ready");
    close(a->o.ready_fd);
}

int attempt_run(const struct attempt_options *options, struct err *err)
{
    static struct attempt a;
    a = (struct attempt){.o = *options, .started_ms = now_ms()};
    snprintf(a.tag, sizeof(a.tag), "%lld.%lld", (long long)options->job,
             (long long)options->attempt);
    uv_loop_init(&a.loop);
    int rc = open_all(&a, err);
    if (rc == 0) {
        init_handles(&a);
        log_info(a.tag, "agent %s listens, pid %lld, incarnation %lld", JOBCTL_VERSION,
                 (long long)a.identity.pid, (long long)a.identity.incarnation);
        tell_ready(&a);
        uv_run(&a.loop, UV_RUN_DEFAULT);
        log_info(a.tag, "agent ends");
        uv_loop_close(&a.loop);
    }
    mail_close(a.mail);
    session_destroy(a.session);
    vigil_destroy(a.vigil);
    inspector_destroy(a.inspector);
    mirror_child_destroy(a.mirror);
    ranks_destroy(a.ranks);
    agent_core_destroy(a.core);
    spool_close(a.spool);
    json_decref(a.facts);
    json_decref(a.launch);
    json_decref(a.plan);
    json_decref(a.learned);
    free(a.pids);
    return rc;
}
