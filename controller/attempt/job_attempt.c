/* SPDX-License-Identifier: Apache-2.0 */
/* job_attempt.c - see job_attempt.h */
#include "controller/attempt/job_attempt.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/os/log.h"
#include "agent/wire/channel.h"
#include "agent/wire/wire.h"
#include "controller/attempt/followers.h"
#include "controller/attempt/gpu_request.h"
#include "controller/attempt/launch.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/checkpoint_duration.h"
#include "controller/job/commit_group.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/job/job_apply.h"
#include "controller/job/job_store.h"
#include "controller/job/sweep.h"
#include "controller/nodes/hosts.h"
#include "controller/nodes/orphan.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/placement.h"
#include "controller/remote/remote.h"
#include "engine/base/clock_jump.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { REPEAT_MS = 1000 };

static const char *tag(const struct job *job, char out[48])
{
    snprintf(out, 48, "%lld.%lld", (long long)job->core.id, (long long)job->core.attempt);
    return out;
}

#define TAG(job) tag(job, (char[48]){ 0 })

static void send_message(struct job *job, enum wire_message number, json_t *body)
{
    if (job->agents.link)
        job->need.remote->send(job->agents.link, number, body);
    else
        json_decref(body);
}

static void start_over(struct job *job, const char *why);

static void close_link(struct job *job)
{
    if (job->agents.link)
        job->need.remote->close(job->agents.link);
    job->agents.link = NULL;
    job->texts->channel_text[0] = 0;
}

static void hear_hello(struct job *job, const json_t *hello)
{
    struct err err = { 0 };
    const char *origin = field_text(hello, "origin");
    if (origin[0] && job->spec.origin[0] && strcmp(origin, job->spec.origin) != 0) {
        start_over(job, "the agent belongs to another job"); /* then its identity file decides */
        return;
    }
    json_t *body = json_make("{s:O, s:O, s:O, s:O, s:O, s:O}", "node",
                             json_object_get(hello, "node"), "boot_id",
                             json_object_get(hello, "boot_id"), "pid",
                             json_object_get(hello, "pid"), "start_time",
                             json_object_get(hello, "start_time"), "incarnation",
                             json_object_get(hello, "incarnation"), "version",
                             json_object_get(hello, "version"));
    const json_t *clock = json_object_get(hello, "wall_ms");
    if (body && json_is_integer(clock)) /* includes the short transit time of the message */
        json_object_set_new(body, "skew_ms", json_integer(json_integer_value(clock) - (json_int_t)daemon_now_ms()));
    const struct core_input in = { .kind = CORE_AGENT_UP, .at_ms = daemon_now_ms(),
                                   .attempt = wire_id_of(hello).attempt,
                                   .nonce = wire_id_of(hello).nonce, .body = body };
    job->texts->waits[0] = 0;
    if (placement_learn(job, &err) < 0) {
        log_error(TAG(job), "%s", err.text);
        start_over(job, "the nodes of the attempt are not known yet");
        json_decref(body);
        return;
    }
    followers_open(job, !job->agents.gathered);
    if (job->need.remote == &remote_ssh) {
        hosts_answered(job->daemon, job->attempt->node, json_object_get(hello, "facts"));
        fleet_dirty(job->daemon);
    }
    log_info(TAG(job), "agent connected, pid %lld, last event %lld",
             (long long)json_integer_value(json_object_get(hello, "pid")),
             (long long)json_integer_value(json_object_get(hello, "last_seq")));
    const char *version = json_string_value(json_object_get(hello, "version"));
    if (version && strcmp(version, JOBCTL_VERSION) != 0)
        log_warn(TAG(job), "its agent has version %.40s, this controller %s: the attempt continues, the next one uses "
                           "the new version", version, JOBCTL_VERSION);
    if (!body || job_apply(job, &in, NULL, &err) < 0) {
        log_error(TAG(job), "hello: %s", body ? err.text : "out of memory");
        start_over(job, "the HELLO message could not be stored");
    }
    json_decref(body);
}

static void open_link(struct job *job, bool may_start, uint64_t delay_ms);

/* Restarts the session: the agent then repeats unacknowledged events. */
static void start_over(struct job *job, const char *why)
{
    log_warn(TAG(job), "%s; asking the agent to send it again", why);
    close_link(job);
    open_link(job, false, REPEAT_MS);
}

void job_attempt_repeat(struct job *job)
{
    start_over(job, "events could not be stored");
}

static void note_node_lost(struct job *job, const json_t *body)
{
    const char *text = field_text(body, "text");
    if (job->need.remote == &remote_ssh && field_text(body, "name")[0])
        hosts_lost(job->daemon, field_text(body, "name"), text[0] ? text : "lost");
}

/* When the agent stored its event, by the wall clock of today: the clock may have been set since. Of an agent on this
 * machine and in this boot only; after a suspend, which its monotonic clock does not count, it stays as told. */
static int64_t told_at(const struct job *job, const json_t *message)
{
    const int64_t wall_ms = json_integer_value(json_object_get(message, "wall_ms"));
    const int64_t mono_ms = json_integer_value(json_object_get(message, "mono_ns")) / 1000000;
    const struct clock_reading now = clock_read();
    const int64_t set_ms = (now.wall_ms - now.mono_ms) - (wall_ms - mono_ms);
    const bool ours = job_core_boot(job->attempt->boot_id) == job->daemon->machine.boot &&
                      !job->daemon->clock.suspended_ms;
    return ours && (set_ms >= CLOCK_JUMP_MS || set_ms <= -CLOCK_JUMP_MS) ? wall_ms + set_ms : wall_ms;
}

/* A store that was rebuilt, or restored, may lack events that its agent has thrown away, because they were
 * acknowledged: if the same one comes first after the agent (or its spool) was asked for those before it, they are
 * nowhere. */
static enum channel_order order_of(struct job *job, int64_t seq)
{
    const enum channel_order order = channel_order(job->attempt->acked, seq);
    const bool asked = job->agents.gap_seq == seq;
    if (order != CHANNEL_GAP)
        return order;
    job->agents.gap_seq = seq;
    if (!job->core.rebuilt && !asked)
        return order;
    log_warn(TAG(job), "events %lld to %lld of its agent are missing from the store, which was rebuilt or restored "
             "from an older copy", (long long)job->attempt->acked + 1, (long long)seq - 1);
    return CHANNEL_NEW;
}

static void hear_event(struct job *job, const json_t *message)
{
    struct err err = { 0 };
    const struct event_source told = {
        .seq = json_integer_value(json_object_get(message, "seq")),
        .incarnation = json_integer_value(json_object_get(message, "incarnation")),
    };
    const char *kind = json_string_value(json_object_get(message, "kind"));
    const enum channel_order order = order_of(job, told.seq);
    if (order == CHANNEL_REPEATED && commit_group_flush(job->daemon, NULL, NULL) == 0)
        job_attempt_ack(job, job->attempt->acked);
    if (order == CHANNEL_GAP)
        start_over(job, "an event is missing");
    if (order != CHANNEL_NEW)
        return;
    struct core_input in = {
        .kind = CORE_AGENT_EVENT,
        .at_ms = told_at(job, message),
        .random = daemon_random(), .attempt = wire_id_of(message).attempt,
        .nonce = wire_id_of(message).nonce, .event = kind,
        .body = json_object_get(message, "body"),
    };
    log_debug(TAG(job), "event %lld %s", (long long)told.seq, kind);
    if (event_kind_of(kind) == EVENT_NODE_LOST)
        note_node_lost(job, json_object_get(message, "body"));
    json_t *few = event_kind_of(kind) == EVENT_ATTEMPT_ENDED ? placement_too_few(&in.places, job, in.body) : NULL;
    in.body = few ? few : in.body;
    const int rc = job_apply(job, &in, &told, &err);
    json_decref(few);
    if (rc == 0)
        return;
    log_error(TAG(job), "event %lld %s: %s", (long long)told.seq, kind, err.text);
    if (err.code != ERR_CONFLICT || commit_group_flush(job->daemon, NULL, NULL) < 0 ||
        job_store_heard(job, &told, &err) < 0)
        start_over(job, "an event could not be stored");
    else
        job_attempt_ack(job, told.seq);
}

static void hear_heartbeat(struct job *job, const json_t *body)
{
    struct job_live_stats *p = &job->live_stats;
    double step = field_number(body, "step"), steps = field_number(body, "steps");
    double loss = field_number(body, "loss"), rate = field_number(body, "samples_per_s");
    if (job->core.state != JOB_RUNNING)
        return;
    snprintf(p->phase, sizeof(p->phase), "%s", field_text(body, "phase"));
    p->lr = field_number(body, "lr");
    p->step_ms = field_number(body, "step_ms");
    if (isfinite(loss))
        p->loss = loss;
    if (isfinite(rate))
        p->samples_per_s = rate;
    /* Live numbers, not events: stored with the next event or row. */
    if (isfinite(step))
        job->core.step = (int64_t)step;
    if (isfinite(step) && job->core.step > job->core.gen_from)
        job_rhythm_step(&p->rhythm, job->core.step, daemon_now_ms());
    if (isfinite(steps))
        job->core.steps = (int64_t)steps;
}

static void hear(void *arg, enum wire_message number_, const json_t *body)
{
    struct job *job = arg;
    switch (number_) {
    case WIRE_HELLO:
        job->agents.gpus_asked_ms = 0;
        hear_hello(job, body);
        return;
    case WIRE_EVENT:
        hear_event(job, body);
        return;
    case WIRE_HEARTBEAT:
        hear_heartbeat(job, body);
        gpu_request_hear(job, job->agents.link, job->core.node, &job->agents.gpus_asked_ms, number_, body);
        return;
    case WIRE_GPU_LOAD:
        gpu_request_hear(job, job->agents.link, job->core.node, &job->agents.gpus_asked_ms, number_, body);
        return;
    case WIRE_LISTENING:
        followers_endpoint(job, json_object_get(body, "endpoint"));
        return;
    default:
        return;
    }
}

/* `cause`: NULL: none known. False: the store failed. */
static bool lose(struct job *job, const char *cause, int64_t places, const char *text)
{
    struct err err = { 0 };
    const struct core_input in = { .kind = CORE_AGENT_LOST, .at_ms = daemon_now_ms(),
                                   .random = daemon_random(), .attempt = job->core.attempt,
                                   .event = cause, .places = places, .text = text };
    job->texts->waits[0] = 0;
    log_warn(TAG(job), "lost: %s", text);
    if (job_apply(job, &in, NULL, &err) == 0)
        return true;
    log_error(TAG(job), "%s", err.text);
    start_over(job, "the end of the attempt could not be stored");
    return false;
}

static void lost(void *arg, const char *text)
{
    lose(arg, NULL, 0, text);
}

static void not_started(void *arg, enum cause cause, const char *text)
{
    struct job *job = arg;
    if (job->need.remote == &remote_ssh)
        hosts_failed(job->daemon, job->attempt->node, text);
    char nearest[460], both[900];
    if (cause == CAUSE_SLURM_REFUSED && placement_nearest(nearest, sizeof(nearest), job))
        snprintf(both, sizeof(both), "%s; without it: %.400s", nearest, text);
    else
        snprintf(both, sizeof(both), "%s", text);
    lose(job, cause_name(cause), placement_places(job, cause == CAUSE_HOST_UNUSABLE ? job->attempt->node : NULL), both);
}

static void vanished(void *arg, const char *text)
{
    struct job *job = arg;
    const struct attempt_row row = *job->attempt;
    struct daemon *d = job->daemon;
    const struct remote *remote = job->need.remote;
    hosts_vanished(d, row.node, text);
    if (lose(job, NULL, 0, text))      /* the job may be destroyed now */
        orphan_add(d, &row, remote, 0, row.node);
}

static void waiting(void *arg, const char *text)
{
    struct job *job = arg;
    if (strncmp(job->texts->waits, text, sizeof(job->texts->waits) - 1) != 0)
        log_info(TAG(job), "%s", text);
    snprintf(job_texts(job)->waits, sizeof(job->texts->waits), "%s", text);
}

static void channel_text(void *arg, const char *text, bool best)
{
    struct job *job = arg;
    job->agents.channel_degraded = !best;
    snprintf(job_texts(job)->channel_text, sizeof(job->texts->channel_text), "%s", text);
}

static int64_t acked(void *arg)
{
    const struct job *job = arg;
    return job->attempt->acked;
}

/* "a,b": the nodes that the placement excluded. */
static void names_to_avoid(char *out, size_t size, const json_t *placed)
{
    size_t i, at = 0;
    json_t *one;
    out[0] = 0;
    json_array_foreach (json_object_get(placed, "left_out"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && at + strlen(name) + 2 < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? "," : "", name);
    }
}

/* Members of a sweep go to Slurm together. */
static struct remote_array array_of(const struct job *job, char dir[PATH_MAX])
{
    const struct job_member *m = job->need.remote == &remote_slurm ? job->member : NULL;
    const struct job *sweep = m ? active_jobs_find(job->daemon->active_jobs, m->sweep) : NULL;
    if (!sweep || !sweep->sweep)
        return (struct remote_array){ .sweep = 0 };
    job_dir(dir, PATH_MAX, job->daemon, m->sweep);
    return (struct remote_array){ .sweep = m->sweep, .dir = dir, .most = sweep->sweep->max_parallel,
                                  .wave = job->core.attempt == 1 ? m->wave : 0, .size = m->size };
}

static void open_link(struct job *job, bool may_start, uint64_t delay_ms)
{
    if (job->agents.link || !job->core.live || !job->attempt)
        return;
    job->texts->waits[0] = job->texts->channel_text[0] = 0;
    job_env_recall(job);
    struct err err = { 0 };
    char key[48], avoid[1024], gpus[512] = "", code[PATH_MAX], sweep_dir[PATH_MAX];
    const bool sent = job->need.remote == &remote_ssh && job_code_dir(code, sizeof(code), job->daemon, job->core.id);
    remote_key(key, sizeof(key), job->daemon->instance, job->core.id);
    names_to_avoid(avoid, sizeof(avoid), job->nodes.placed);
    if (job->need.nodes > 1)
        remote_share_gpus(gpus, sizeof(gpus), job->need.node_gpus, 0);
    const int64_t least = json_integer_value(json_object_get(job->nodes.placed, "least"));
    const struct remote_link_spec spec = { .files = job->daemon->files, .job = job->core.id, .attempt = job->core.attempt,
                                    .host = job->attempt->node, .key = key,
                                    .nonce = job->core.nonce, .origin = job->spec.origin,
                                    .run_dir = job->attempt->run_dir, .code = sent ? code : NULL,
                                    .may_start = may_start, .known = job->core.agent_known, .yields = true,
                                    .delay_ms = delay_ms,
                                    .nodes = job->nodes.names ? (int)json_array_size(job->nodes.names)
                                                        : job->need.nodes,
                                    .least = least ? (int)least : job->need.nodes, .avoid = avoid,
                                    .save_ms = job->need.remote == &remote_slurm
                                                   ? checkpoint_duration_ms(job->daemon->store, job->core.id)
                                                   : 0,
                                    .gpus = gpus, .no_nvml = fleet_lacks_nvml(job->daemon), .array = array_of(job, sweep_dir) };
    const struct remote_link_hooks hooks = { .message = hear, .lost = lost, .acked = acked,
                                      .not_started = not_started, .vanished = vanished,
                                      .waiting = waiting, .channel_text = channel_text, .arg = job };
    if (job->need.remote->open(&job->agents.link, &job->daemon->loop, &spec, &hooks, &err) < 0)
        log_error(TAG(job), "%s", err.text);
}

void job_attempt_open(struct job *job, bool may_start)
{
    open_link(job, may_start, 0);
    if (job->core.state == JOB_STOPPING)    /* a link that waits for a place ends at once */
        job_attempt_stop(job);
    followers_open(job, may_start || !job->agents.gathered);
}

void job_attempt_close(struct job *job)
{
    followers_close(job);
    close_link(job);
}

void job_attempt_ack(struct job *job, int64_t seq)
{
    json_t *body = job_envelope(job);
    if (body && json_object_set_new(body, "seq", json_integer(seq)) == 0)
        send_message(job, WIRE_ACK, body);
    else
        json_decref(body);
}

bool job_attempt_checkpoint(struct job *job)
{
    if (!job->agents.link || !job->core.agent_known)
        return false;
    json_t *body = job_envelope(job);
    if (body)
        send_message(job, WIRE_CHECKPOINT, body);
    return body != NULL;
}

void job_attempt_stop(struct job *job)
{
    json_t *body = job_envelope(job);
    json_t *more = json_make("{s:s, s:I, s:b}", "reason", job->core.reason, "grace_ms",
                             (json_int_t)(job->core.stop_now ? 0 : job->spec.grace_ms), "checkpoint",
                             job->core.stop_now ? 0 : 1);
    if (body && more && json_object_update(body, more) == 0)
        send_message(job, WIRE_STOP, body);
    else
        json_decref(body);
    json_decref(more);
}

void job_attempt_launch(struct job *job)
{
    struct err err = { 0 };
    json_t *body = launch_leader(job, &err);
    if (body)
        send_message(job, WIRE_LAUNCH, body);
    else
        log_error(TAG(job), "cannot launch: %s", err.text);
}
