/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - see attempt.h */
#include "agent/attempt/attempt_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "agent/attempt/incident.h"
#include "agent/attempt/monitor.h"
#include "agent/attempt/session.h"
#include "agent/attempt/spool.h"
#include "agent/core/agent_core.h"
#include "agent/core/redact.h"
#include "agent/mirror/mirror_child.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/follower_link.h"
#include "agent/nodes/leader.h"
#include "agent/os/event_loop.h"
#include "agent/os/log.h"
#include "agent/printed/python_stack.h"
#include "agent/os/run_dir.h"
#include "agent/plan/gpu_selftest_child.h"
#include "agent/probe/gpu_sampler.h"
#include "agent/probe/probe.h"
#include "agent/wire/call_home.h"
#include "agent/wire/file_channel.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum {
    LAUNCH_WAIT_MS = 60 * 1000, /* without a LAUNCH: exit */
    LINGER_MS = 10 * 60 * 1000, /* without an acknowledgement: exit, keeping the spool */
    HEARTBEAT_MS = 1000,
    STOP_GRACE_MS = 10 * 1000, /* for a checkpoint */
    WATCH_MOST_MS = 10 * 60 * 1000, /* of one WATCH_GPUS */
    LEARNED_BEATS = 300 /* interval of storing learned durations, in case the node is lost */
};

/* --- inputs ---------------------------------------------------------------------------- */

/* The stacks that a hung Python program printed last are part of its report. */
static void keep_stacks(const struct attempt *a, const struct agent_exit *e)
{
    char who[64];
    const char *lines = e->last_lines ? e->last_lines : "";
    const char *stacks = strstr(lines, PYTHON_STACK_HEAD);
    if (!stacks)
        stacks = strstr(lines, "Fatal Python error: Aborted");
    if (!stacks && strstr(lines, "(most recent call first)"))
        stacks = lines; /* with many threads the first ones are cut off */
    snprintf(who, sizeof(who), "rank %d, stacks of Python", e->rank);
    if (stacks && e->generation > 0 && e->generation == a->incident_generation)
        incident_append(a->o.run_dir, e->generation, who, stacks);
}

static void on_exited(void *arg, const struct agent_exit *e)
{
    const struct attempt *a = arg;
    monitor_progress(a->monitor);
    keep_stacks(a, e);
    struct agent_input in = {.kind = e->generation ? INPUT_RANK_EXITED : INPUT_SETUP_EXITED,
                             .exited = *e,
                             .jitter = attempt_jitter()};
    const json_t *spec = json_object_get(a->launch, "spec");
    in.exited.command = field_text(spec, e->generation ? "run" : "setup");
    attempt_feed(arg, &in);
}

static void on_line(void *arg, int generation, int rank, const json_t *line, const json_t *spent)
{
    struct attempt *a = arg;
    if (rank == 0 && strcmp(field_text(line, "ev"), "step") == 0)
        monitor_tells_itself(a->monitor);
    struct agent_input in = {.kind = INPUT_PROGRESS,
                             .jitter = attempt_jitter(),
                             .progress = {.generation = generation,
                                          .rank = rank,
                                          .line = line,
                                          .init_ms = field_int(spent, "init_ms", 0),
                                          .data_ms = field_int(spent, "data_ms", 0),
                                          .checkpoint_ms = field_int(spent, "checkpoint_ms", 0)}};
    attempt_feed(arg, &in);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct attempt *a = arg;
    monitor_output(a->monitor, rank, bytes, size);
}

static void on_link_over(void *arg)
{
    attempt_leave(arg);
}

/* From now on the leader is on another node. */
static void become_follower(struct attempt *a)
{
    struct err err = {0};
    if (follower_link_open(&a->link, &a->loop, a->follower, a->launch, on_link_over, a, &err) < 0) {
        log_error(a->tag, "%s", err.text);
        attempt_leave(a);
    }
}

static void on_launch(struct attempt *a, const json_t *body)
{
    struct err err = {0};
    if (a->launch) { /* sent again after a reconnect */
        attempt_show_listener(a);
        return;
    }
    const bool follows = field_int(json_object_get(body, "group"), "node", 0) > 0;
    const int rc = attempt_take_launch(a, body, &err);
    if (rc < 0 && follows) {
        log_error(a->tag, "%s", err.text);
        attempt_leave(a);
    } else if (rc < 0) {
        attempt_refuse(a, err.text, NULL);
    } else if (follows) {
        become_follower(a);
    } else {
        a->lease_nodes = attempt_gather_first;
        attempt_claim(a, attempt_gather);
    }
}

/* The controller sends it again while a user is watching. */
static void on_watch_gpus(struct attempt *a, int64_t ms)
{
    if (ms <= 0 || a->leaving || !json_array_size(json_object_get(a->facts, "gpus")))
        return;
    if (a->gpu_sampler || (a->gpu_sampler = gpu_sampler_create(&a->loop)))
        gpu_sampler_want(a->gpu_sampler, ms < WATCH_MOST_MS ? ms : WATCH_MOST_MS);
}

static void on_message(void *arg, enum wire_message number, const json_t *body)
{
    struct attempt *a = arg;
    struct agent_input in = {.jitter = attempt_jitter()};
    switch (number) {
    case WIRE_LAUNCH:
        on_launch(a, body);
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
    case WIRE_NODE_GONE:
        attempt_on_node_gone(a, body);
        break;
    case WIRE_WATCH_GPUS:
        on_watch_gpus(a, json_integer_value(json_object_get(body, "for_ms")));
        break;
    default:
        break;
    }
}

/* Connected to the controller: clears or sets the reason of a failed call. */
static const char *trouble(void *arg)
{
    const struct attempt *a = arg;
    return call_home_trouble(a->call_home);
}

static void on_call_home(void *arg, struct byte_stream *stream)
{
    const struct attempt *a = arg;
    session_take(a->session, stream);
}

static void on_hung_up(void *arg)
{
    const struct attempt *a = arg;
    call_home_again(a->call_home);
}

static void on_acked(void *arg, int64_t seq)
{
    struct attempt *a = arg;
    (void)seq;
    if (a->finished_ms && spool_acked(a->spool) >= spool_last(a->spool))
        attempt_leave(a);
}

/* The agent was signalled: its ranks stop with it, and the controller gets the reason. */
static void on_end_signal(uv_signal_t *handle, int signo)
{
    struct agent_input in = {.kind = INPUT_STOP};
    in.stop.reason = signo != SIGTERM ? "the agent was interrupted"
                     : getenv("SLURM_JOB_ID")
                         ? "Slurm ended the allocation: the job was preempted, requeued or cancelled there (SIGTERM)"
                         : "the agent got SIGTERM";
    in.stop.grace_ms = STOP_GRACE_MS;
    in.stop.checkpoint = in.stop.preempted = true;
    attempt_feed(handle->data, &in);
}

/* --- heartbeats and leaving -------------------------------------------------------------- */

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *count(int64_t v)
{
    return v >= 0 ? json_integer(v) : json_null();
}

/* Progress and speed of the run: a new object, or NULL when out of memory. */
static json_t *heartbeat_body(const struct agent_core *core, const struct leader *leader)
{
    struct agent_view v;
    agent_core_view(core, &v);
    const char *phase = v.ranks_alive ? leader_phase(leader, 0) : NULL;
    return json_make("{s:i, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:i, s:o}", "generation",
                     v.generation, "state", agent_phase_name(v.phase), "step", count(v.step), "steps",
                     count(v.steps), "phase", phase ? phase : "", "loss", number(v.loss), "lr",
                     number(v.lr), "samples_per_s", number(v.samples_per_s), "ranks_alive",
                     v.ranks_alive, "step_ms", number(v.step_ms));
}

/* Two agents must never write to one directory: an agent whose directory was removed, renamed or replaced stops its
 * ranks, and reports where the directory is (in agent.log, which moves with it; in syslog if it was removed). */
static void check_dir(struct attempt *a)
{
    char where[PATH_MAX + 64], text[2 * PATH_MAX], now[PATH_MAX];
    if (a->dir_gone || !dir_identity_gone(&a->dir, a->o.run_dir))
        return;
    a->dir_gone = true;
    dir_identity_text(where, sizeof(where), &a->dir, a->o.run_dir);
    snprintf(text, sizeof(text), "its directory %s %s", a->o.run_dir, where);
    log_error(a->tag, "%s", text);
    if (dir_identity_path(now, sizeof(now), &a->dir) < 0)
        syslog(LOG_USER | LOG_ERR, "jobctl-agent %s: %s", a->tag, text);
    struct agent_input in = {.kind = INPUT_STOP, .jitter = attempt_jitter()};
    in.stop.reason = text;
    in.stop.grace_ms = STOP_GRACE_MS;
    in.stop.checkpoint = in.stop.preempted = true;
    if (a->launch && !a->finished_ms)
        attempt_feed(a, &in);
}

/* By path, so only while the path leads to this agent's directory. */
static bool is_fenced(const struct attempt *a)
{
    return dir_identity_here(&a->dir, a->o.run_dir) && run_dir_fenced(a->o.run_dir);
}

/* Checks the run directory for files from outside: the attempt was given up, or the machine will
 * end soon. */
static void look_around(struct attempt *a)
{
    struct agent_input in = {.kind = INPUT_STOP, .jitter = attempt_jitter()};
    char why[160], text[220];
    if (a->noticed || a->dir_gone || !a->launch || a->finished_ms)
        return;
    if (is_fenced(a)) {
        run_dir_fence_why(why, sizeof(why), a->o.run_dir);
        snprintf(text, sizeof(text), "the controller abandoned this attempt%s%s", why[0] ? ": " : "", why);
        in.stop.reason = text;
    } else if (run_dir_notice(a->o.run_dir, &in.stop.grace_ms)) {
        in.stop.reason = "the machine shuts down soon";
        in.stop.checkpoint = in.stop.preempted = true;
    } else {
        return;
    }
    a->noticed = true;
    log_warn(a->tag, "%s: stopping the ranks", in.stop.reason);
    attempt_feed(a, &in);
}

/* Reports once that the wall clock of this machine was set, or that it was suspended. The controller reports this for
 * its own machine. */
static void check_clock(struct attempt *a)
{
    const struct clock_reading now = clock_read();
    struct clock_change change;
    char text[400];
    if (!clock_jump_look(&a->clock, &now, &change))
        return;
    clock_jump_text(text, sizeof(text), &change);
    log_warn(a->tag, "%s", text);
    if (!a->o.away || !a->launch || a->link)
        return;
    attempt_store(a, "warning", json_make("{s:n, s:s}", "rank", "text", text), false);
}

/* What a slow end of the attempt waits for. */
static void tell_slow_end(struct attempt *a)
{
    char text[600];
    if (!mirror_child_slow(a->mirror, text, sizeof(text)))
        return;
    attempt_store(a, "warning", json_make("{s:n, s:s, s:b}", "rank", "text", text, "ending", 1), false);
}

static void tell_gpu_load(struct attempt *a)
{
    json_t *gpus = a->gpu_sampler ? gpu_sampler_news(a->gpu_sampler) : NULL;
    if (gpus)
        session_gpu_load(a->session, gpus);
}

static void on_beat(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    int64_t now = clock_ms();
    check_dir(a);
    look_around(a);
    tell_slow_end(a);
    check_clock(a);
    attempt_check_disk(a);
    tell_gpu_load(a);
    session_alive(a->session);
    if (a->dir_gone && (!a->launch || (a->finished_ms && !session_connected(a->session)))) {
        log_warn(a->tag, "exiting: its run directory is gone, so no controller can connect");
        attempt_leave(a);
    } else if (!a->launch && is_fenced(a)) {
        log_info(a->tag, "exiting: the controller abandoned this attempt before its launch");
        attempt_leave(a);
    } else if (!a->launch && now - a->started_ms > LAUNCH_WAIT_MS) {
        log_warn(a->tag, "exiting: no LAUNCH within %d s", LAUNCH_WAIT_MS / 1000);
        attempt_leave(a);
    } else if (a->finished_ms &&
               (now - a->finished_ms > LINGER_MS ||
                (is_fenced(a) && !session_connected(a->session)))) {
        log_warn(a->tag, "exiting: events %lld to %lld were not acknowledged; they stay in the spool",
                 (long long)spool_acked(a->spool) + 1, (long long)spool_last(a->spool));
        attempt_leave(a);
    } else if (a->launch && !a->finished_ms && !a->link) {
        session_heartbeat(a->session, heartbeat_body(a->core, a->leader));
        if (++a->beats % LEARNED_BEATS == 0)
            attempt_store_learned(a);
    }
}

/* --- creation and release -------------------------------------------------------------- */

static void init_handles(struct attempt *a)
{
    attempt_watch_turns(a);
    uv_timer_init(&a->loop, &a->timer);
    uv_timer_init(&a->loop, &a->beat);
    uv_timer_init(&a->loop, &a->deadline_timer);
    uv_timer_init(&a->loop, &a->lease_timer);
    uv_signal_init(&a->loop, &a->sigterm);
    uv_signal_init(&a->loop, &a->sigint);
    a->timer.data = a->beat.data = a->deadline_timer.data = a;
    a->sigterm.data = a->sigint.data = a;
    uv_timer_start(&a->beat, on_beat, HEARTBEAT_MS, HEARTBEAT_MS);
    uv_signal_start(&a->sigterm, on_end_signal, SIGTERM);
    uv_signal_start(&a->sigint, on_end_signal, SIGINT);
    signal(SIGPIPE, SIG_IGN);
}

/* When the first agent here started.  Each writes both files before it starts a process, and one may be lost. */
static void set_since(struct attempt *a, const struct identity *before, bool absent, const char *spool)
{
    if (absent && access(spool, F_OK) < 0 && errno == ENOENT)
        a->identity.since = a->identity.start_time;
    else
        identity_follow(&a->identity, before);
}

/* path: of the spool. */
static int take_identity(struct attempt *a, const char *path, struct err *err)
{
    struct identity before = {.since = 0};
    struct err why = {0};
    a->identity = (struct identity){.job = a->o.job, .attempt = a->o.attempt, .incarnation = 1};
    snprintf(a->identity.nonce, sizeof(a->identity.nonce), "%s", a->o.nonce);
    snprintf(a->identity.origin, sizeof(a->identity.origin), "%s", a->o.origin ? a->o.origin : "");
    snprintf(a->identity.version, sizeof(a->identity.version), "%s", JOBCTL_VERSION);
    if (identity_read(&before, a->o.run_dir, &why) == 0) {
        if (strcmp(before.nonce, a->o.nonce) != 0)
            return err_set(err, ERR_CONFLICT, "'%s' belongs to another attempt", a->o.run_dir);
        a->identity.incarnation = before.incarnation + 1;
    }
    if (identity_self(&a->identity, err) < 0)
        return -1;
    set_since(a, &before, why.code == ERR_NOT_FOUND, path);
    return 0;
}

/* Facts, spool and identity: everything that can fail before the agent is visible. */
static int open_files(struct attempt *a, struct err *err)
{
    char path[4096];
    if (dir_identity_open(&a->dir, a->o.run_dir, err) < 0)
        return -1;
    if (run_dir_fenced(a->o.run_dir))
        return err_set(err, ERR_CONFLICT, "the attempt of '%s' is over and must not start again", a->o.run_dir);
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_SPOOL, a->o.run_dir) >= sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    if (take_identity(a, path, err) < 0 || !(a->facts = probe_facts(a->o.run_dir, err)))
        return -1;
    return spool_open(&a->spool, path, SPOOL_BYTES, err);
}

/* A leader of this node, until a LAUNCH says otherwise. */
static int open_nodes(struct attempt *a, struct err *err)
{
    const struct follower_options o = {.job = a->o.job,
                                       .attempt = a->o.attempt,
                                       .nonce = a->o.nonce,
                                       .run_dir = a->o.run_dir,
                                       .train = a->o.train,
                                       .version = a->identity.version,
                                       .tag = a->tag,
                                       .facts = a->facts,
                                       .since = a->identity.since,
                                       .first = a->identity.incarnation == 1 &&
                                                a->identity.since == a->identity.start_time};
    const struct leader_hooks hooks = {.started = attempt_on_started,
                                       .exited = on_exited,
                                       .line = on_line,
                                       .output = on_output,
                                       .cleaned = attempt_on_swept,
                                       .stacks = attempt_on_stacks,
                                       .stacks_done = attempt_on_stacks_done,
                                       .nccl = attempt_on_nccl,
                                       .gpu = attempt_on_gpu,
                                       .gathered = attempt_on_gathered,
                                       .prepared = attempt_on_prepared,
                                       .leased = attempt_on_leased,
                                       .notice = attempt_on_notice,
                                       .lost = attempt_on_lost,
                                       .arg = a};
    if (follower_create(&a->follower, &a->loop, &o, err) < 0)
        return -1;
    follower_set_lease(a->follower, attempt_on_lease, a);
    return leader_create(&a->leader, &a->loop, a->follower, &hooks, err);
}

static int open_all(struct attempt *a, struct err *err)
{
    char path[4096];
    if (open_files(a, err) < 0 || agent_core_create(&a->core, err) < 0 || open_nodes(a, err) < 0)
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
                            .version = a->identity.version,
                            .origin = a->identity.origin};
    struct session_hooks hooks = {
        .message = on_message, .acked = on_acked, .trouble = trouble, .hung_up = on_hung_up, .sync = attempt_sync,
        .room = attempt_on_room, .arg = a};
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_SOCKET, a->o.run_dir) >= sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    /* Written before the socket: whoever finds the socket also finds the identity. */
    if (identity_write(&a->identity, a->o.run_dir, err) < 0 ||
        session_open(&a->session, &a->loop, path, &id, a->facts, a->spool, &hooks, err) < 0)
        return -1;
    if (!a->o.away)
        return 0;
    return call_home_open(&a->call_home, &a->loop, a->o.run_dir, on_call_home, a, err) < 0 ||
                   file_channel_open(&a->file_channel, a->o.run_dir, path, err) < 0
               ? -1
               : 0;
}

static void tell_ready(const struct attempt *a)
{
    if (a->o.ready_fd < 0)
        return;
    if (write(a->o.ready_fd, "ready\n", 6) < 0)
        log_warn(a->tag, "cannot report readiness: the reader closed the pipe");
    close(a->o.ready_fd);
}

int attempt_run(const struct attempt_options *options, struct err *err)
{
    struct attempt a = {.o = *options, .dir = DIR_IDENTITY_NONE, .started_ms = clock_ms(), .began = clock_read()};
    a.clock = clock_jump_of(&a.began);
    snprintf(a.tag, sizeof(a.tag), "%lld.%lld", (long long)options->job, (long long)options->attempt);
    if (event_loop_open(&a.loop, err) < 0)
        return -1;
    a.redact = redact_create();
    log_filter(redact_line, a.redact);
    int rc = a.redact ? open_all(&a, err) : err_set(err, ERR_MEMORY, "no memory for the attempt");
    if (rc == 0) {
        init_handles(&a);
        log_info(a.tag, "agent %s listens, pid %lld, incarnation %lld", JOBCTL_VERSION,
                 (long long)a.identity.pid, (long long)a.identity.incarnation);
        tell_ready(&a);
        uv_run(&a.loop, UV_RUN_DEFAULT);
        log_info(a.tag, "agent exits");
    }
    uv_loop_close(&a.loop);
    file_channel_close(a.file_channel);
    session_destroy(a.session);
    monitor_destroy(a.monitor);
    gpu_selftest_child_destroy(a.gpu_selftest);
    mirror_child_destroy(a.mirror);
    leader_destroy(a.leader);
    follower_link_destroy(a.link);
    attempt_leases_free(&a);
    follower_destroy(a.follower);
    agent_core_destroy(a.core);
    spool_close(a.spool);
    json_decref(a.facts);
    json_decref(a.launch);
    free(a.base);
    json_decref(a.plan);
    json_decref(a.part);
    json_decref(a.all_facts);
    json_decref(a.incident);
    json_decref(a.learned);
    json_decref(a.few);
    dir_identity_close(&a.dir);
    log_filter(redact_line, NULL);
    redact_destroy(a.redact);
    return rc;
}
