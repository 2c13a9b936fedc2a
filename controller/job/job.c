/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h */
#include "controller/job/job.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/field.h"
#include "controller/base/daemon.h"
#include "controller/job/job_dir.h"
#include "controller/job/sweep.h"
#include "controller/remote/remote.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { GRACE_MS = 30000 };

_Static_assert(sizeof(struct job) <= 1750, "20,000 queued jobs take more than 35 MB");

static struct job_texts no_texts;       /* only ever cleared */

struct job_texts *job_texts(struct job *job)
{
    static struct job_texts lost;       /* no memory: what is written is not shown */
    struct job_texts *own = job->texts == &no_texts ? calloc(1, sizeof(*own)) : job->texts;
    if (own)
        job->texts = own;
    return own ? own : &lost;
}

/* What each node has to have: a `run:` command takes one CPU slot per rank, training all, or the share of its GPUs
 * (sched_need()). A job without a given number of slots never waits for more than this machine has. */
static int64_t slots(const struct job_need *need, const struct daemon_machine *m, bool trains, const json_t *r)
{
    const int64_t here = need->remote == &remote_local ? m->cpus : 0;
    const int64_t gpus = need->node_gpus < 0 ? m->gpus : need->node_gpus;
    const int64_t one_per_gpu = gpus < 1 ? 1 : here > 0 && gpus > here && need->nodes == 1 ? here : gpus;
    return field_int(r, "cpus", trains ? -1 : field_int(r, "ranks", one_per_gpu));
}

/* Simulated nodes share all GPUs of this machine, with no other jobs. */
static void wants(struct job_need *need, const struct daemon_machine *m, bool trains, const json_t *spec)
{
    const json_t *r = json_object_get(spec, "resources");
    const bool one = strcmp(field_text(r, "gpus"), "one") == 0; /* per rank, if there are any (sched_need()) */
    need->nodes = (int)field_int(r, "nodes", 1);
    need->min_nodes = (int)field_int(r, "min_nodes", trains ? 1 : need->nodes);
    need->node_gpus = field_int(r, "gpus", one ? field_int(r, "ranks", 1) : -1);
    need->node_cpus = slots(need, m, trains, r);
    if (need->remote != &remote_local)
        return;     /* it needs no resources of this machine */
    need->want_gpus = need->nodes > 1 && need->node_gpus > 0 ? -1 : need->node_gpus;
    need->want_cpus = need->node_cpus > 0 ? need->node_cpus * need->nodes : need->node_cpus;
}

/* checkpoint.dir, unless it is below the job's own directory, here or on the host (submission.c). */
static char *named_dir(const struct job *job, const json_t *spec)
{
    char own[PATH_MAX];
    const char *dir = field_text(json_object_get(spec, "checkpoint"), "dir");
    job_dir(own, sizeof(own), job->daemon, job->core.id);
    const size_t n = strlen(own);
    const bool below = strncmp(dir, own, n) == 0 && dir[n] == '/';
    return dir[0] == '/' && !below ? strdup(dir) : NULL;
}

int job_know_origin(struct job *job, const json_t *spec, struct err *err)
{
    free(job->spec.origin);
    job->spec.origin = strdup(field_text(json_object_get(spec, "checkpoint"), "origin"));
    return job->spec.origin ? 0 : err_set(err, ERR_MEMORY, "out of memory for job %lld", (long long)job->core.id);
}

/* An id, or "afterany:ID". */
static void take_after(struct job_after *a, const json_t *entry)
{
    const char *id;
    a->id = json_integer_value(entry);
    if (!json_is_string(entry))
        return;
    a->kind = spec_after_parse(&id, json_string_value(entry));
    a->id = strtoll(id, NULL, 10);
}

struct job *job_create(struct daemon *d, int64_t id, const json_t *spec, struct err *err)
{
    const json_t *after = json_object_get(spec, "after");
    const struct clock_reading now = clock_read();
    struct job *job = calloc(1, sizeof(*job));
    if (!job || !(job->spec.after = calloc(json_array_size(after) + 1, sizeof(*job->spec.after)))) {
        free(job);
        err_set(err, ERR_MEMORY, "out of memory for job %lld", (long long)id);
        return NULL;
    }
    job->daemon = d;
    job->need.remote = remote_of_spec(spec);
    job_core_init(&job->core, id);
    job->retry_of = -1;
    job->stored.curve_stride = 1;
    job->stored.curve_points = -1;
    job->filed.verdict.id = id;
    job->times.clock = clock_jump_of(&now);
    job->live_stats = (struct job_live_stats){ .loss = NAN, .lr = NAN, .samples_per_s = NAN, .step_ms = NAN,
                                               .tokens_per_s = NAN, .epoch = NAN, .epochs = NAN, .eta_s = NAN };
    job->texts = &no_texts;
    snprintf(job->spec.name, sizeof(job->spec.name), "%s", field_text(spec, "name"));
    job->spec.nafter = (uint32_t)json_array_size(after);
    for (size_t i = 0; i < job->spec.nafter; i++)
        take_after(&job->spec.after[i], json_array_get(after, i));
    const json_t *limit = json_object_get(spec, "max_duration");
    job->spec.max_duration_ms = json_is_number(limit) ? (int64_t)(json_number_value(limit) * 1000) : 0;
    const json_t *grace = json_object_get(spec, "grace");
    job->spec.grace_ms = json_is_number(grace) ? (int64_t)(json_number_value(grace) * 1000) : GRACE_MS;
    job->spec.signal_saves = json_is_string(json_object_get(spec, "checkpoint_signal"));
    job->spec.has_secrets = json_array_size(json_object_get(spec, "secrets")) > 0;
    job->spec.trains = json_is_object(json_object_get(spec, "train"));
    if (job->need.remote == &remote_ssh)
        job->need.hosts = json_incref(json_object_get(spec, "hosts"));
    wants(&job->need, &d->machine, job->spec.trains, spec);
    job->spec.dir = named_dir(job, spec);
    if (job_know_origin(job, spec, err) < 0 ||
        (sweep_points_is(spec) && (!(job->sweep = sweep_create(spec, err)) || job_aim(job, err) < 0))) {
        job_destroy(job);
        return NULL;
    }
    return job;
}

void job_destroy(struct job *job)
{
    if (!job)
        return;
    json_decref(job->secrets);
    json_decref(job->need.hosts);
    json_decref(job->nodes.placed);
    json_decref(job->nodes.names);
    json_decref(job->nodes.lost);
    sweep_destroy(job->sweep);
    if (job->member)
        free(job->member->point);
    free(job->member);
    free(job->spec.after);
    free(job->spec.dir);
    free(job->spec.origin);
    free(job->checkpoint_path);
    free(job->attempt);
    if (job->texts != &no_texts)
        free(job->texts);
    free(job);
}

#define EXCHANGE(member)                            \
    do {                                            \
        const __typeof__(a->member) kept = a->member; \
        a->member = b->member;                      \
        b->member = kept;                           \
    } while (0)

void job_exchange_spec(struct job *a, struct job *b)
{
    EXCHANGE(spec);
    EXCHANGE(need);
    if (a->texts != &no_texts)
        *a->texts = (struct job_texts){.unplaced = ""};
}

int job_aim(struct job *a, struct err *err)
{
    const int index = sweep_next(a->sweep);
    json_t *spec = index >= 0 ? sweep_points_member(a->sweep->spec, index) : NULL;
    struct job *b = spec ? job_create(a->daemon, a->core.id, spec, err) : NULL;
    json_decref(spec);
    if (!b)
        return index < 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory for a member of job %lld", (long long)a->core.id);
    EXCHANGE(need);
    job_destroy(b);
    return 0;
}

int job_join(struct job *job, int64_t sweep, int index, const json_t *point)
{
    if (!job->member && !(job->member = calloc(1, sizeof(*job->member))))
        return -1;
    free(job->member->point);
    *job->member = (struct job_member){ .sweep = sweep, .index = index };
    job->member->point = json_object_size(point) > 0 ? json_dumps(point, JSON_COMPACT) : NULL;
    return 0;
}

int64_t job_sweep_of(const struct job *job)
{
    return job->member ? job->member->sweep : 0;
}

void job_take_back(struct job *job, const struct job_past *was)
{
    job->core = was->core;
    job->stored = was->stored;
    job->times = was->times;
    job->live_stats = was->live_stats;
}

static void after_json(char *out, size_t size, const struct job *job)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (size_t i = 0; i < job->spec.nafter && at < size - 48; i++) {
        const struct job_after *a = &job->spec.after[i];
        at += (size_t)snprintf(out + at, size - at, a->kind == AFTER_OK ? "%s%.0s%lld" : "%s\"%s:%lld\"", i ? "," : "",
                               spec_after_name(a->kind), (long long)a->id);
    }
    snprintf(out + at, size - at, "]");
}

void job_row_make(struct job_row *row, const struct job *job)
{
    const struct job_core *c = &job->core;
    *row = (struct job_row){
        .id = c->id, .priority = c->priority, .held = c->held, .attempt = c->attempt,
        .generation = c->generation, .np = c->np, .step = c->step, .steps = c->steps,
        .exit_code = c->state == JOB_DONE ? c->exit_code : -1, .retry_of = job->retry_of,
        .submitted_ms = c->submitted_ms, .started_ms = c->started_ms ? c->started_ms : -1,
        .ended_ms = c->ended_ms ? c->ended_ms : -1, .productive_ms = c->goodput.spent.ms[BUCKET_PRODUCTIVE],
        .busy_ms = job_goodput_busy_ms(&c->goodput.spent),
        .last_seq = job->stored.last_seq, .loss = job->live_stats.loss,
        .samples_per_s = job->live_stats.samples_per_s,
    };
    snprintf(row->name, sizeof(row->name), "%s", job->spec.name);
    snprintf(row->state, sizeof(row->state), "%s", job_state_name(c->state));
    snprintf(row->result, sizeof(row->result), "%s", job_result_name(c->result));
    snprintf(row->reason, sizeof(row->reason), "%s", c->reason);
    after_json(row->after, sizeof(row->after), job);
    row->members = job->sweep ? job->sweep->indices.count : -1;
    row->sweep = job->member ? job->member->sweep : -1;
    row->sweep_index = job->member ? job->member->index : -1;
    if (job->member && job->member->point && strlen(job->member->point) < sizeof(row->point))
        snprintf(row->point, sizeof(row->point), "%s", job->member->point);
}

bool job_clock_look(const struct job *job, struct clock_jump *clock, struct clock_change *change)
{
    const struct clock_reading now = clock_read();
    *clock = job->times.clock;
    return clock_jump_look(clock, &now, change);
}

json_t *job_envelope(const struct job *job)
{
    return json_make("{s:I, s:I, s:s}", "job", (json_int_t)job->core.id, "attempt",
                     (json_int_t)job->core.attempt, "nonce", job->core.nonce);
}

static void note_placed(struct job *job, const json_t *body)
{
    json_decref(job->nodes.placed);
    json_decref(job->nodes.names);
    job->nodes.placed = json_deep_copy(body);
    job->nodes.names = json_incref(json_object_get(job->nodes.placed, "nodes"));
    job->agents.gathered = false;
    job->texts->unplaced[0] = job->texts->absent[0] = job->texts->lease[0] = 0;
}

/* Of several nodes only the number is for people. */
static void note_plan(struct job *job, const json_t *body)
{
    const char *gpus = field_text(body, "gpus");
    json_t *uuids = json_array(), *rank;
    size_t i;
    for (const char *at = field_text(body, "uuids"); *at; at += strcspn(at, ","), at += *at == ',')
        json_array_append_new(uuids, json_text_n(at, strcspn(at, ",")));
    json_array_foreach (json_object_get(body, "ranks"), i, rank)
        if (!gpus[0] && json_is_string(json_object_get(rank, "gpu")))
            json_array_append(uuids, json_object_get(rank, "gpu"));
    json_t *text = gpus[0] ? json_text(gpus) : json_text_f("%zux", json_array_size(uuids));
    if (job->nodes.placed && json_array_size(uuids) > 0)
        json_object_set_new(job->nodes.placed, "planned", json_make("{s:O, s:O}", "gpus", text, "uuids", uuids));
    json_decref(text);
    json_decref(uuids);
}

/* One entry per node: the newest loss. unusable: the job cannot run there. */
static void note_lost(struct job *job, const json_t *body, const char *key, bool unusable, int64_t at_ms)
{
    const char *name = field_text(body, key);
    if (!job->nodes.lost)
        job->nodes.lost = json_array();
    for (size_t i = json_array_size(job->nodes.lost); i-- > 0;)
        if (strcmp(field_text(json_array_get(job->nodes.lost, i), "name"), name) == 0)
            json_array_remove(job->nodes.lost, i);
    json_array_append_new(job->nodes.lost, json_make("{s:s, s:s, s:b, s:O*, s:I}", "name", name[0] ? name : "?", "text",
                                                     field_text(body, "text"), "unusable", (int)unusable, "usable",
                                                     json_object_get(body, "usable"), "at_ms", (json_int_t)at_ms));
}

/* Shifts the times of lost nodes, so that they were lost as long ago as before. */
static void note_clock(struct job *job, const json_t *body)
{
    const json_int_t by_ms = json_integer_value(json_object_get(body, "jump_ms"));
    size_t i;
    json_t *one;
    json_array_foreach (job->nodes.lost, i, one)
        json_object_set_new(one, "at_ms", json_integer(json_integer_value(json_object_get(one, "at_ms")) + by_ms));
}

static void note_checkpoint(struct job *job, const json_t *path)
{
    char *copy = json_is_string(path) ? strdup(json_string_value(path)) : NULL;
    if (!copy)
        return;
    free(job->checkpoint_path);
    job->checkpoint_path = copy;
}

static void note_rebuilt(struct job *job, const json_t *body)
{
    const json_t *placed = json_object_get(body, "placed"), *lost = json_object_get(body, "lost");
    if (json_is_object(placed))
        note_placed(job, placed);
    json_decref(job->nodes.lost);
    job->nodes.lost = json_is_array(lost) ? json_deep_copy(lost) : NULL;
    job->times.lease_ms = field_safe_int(body, "lease_ms", 0);
    note_checkpoint(job, json_object_get(body, "checkpoint"));
    job->live_stats.loss = field_number(body, "loss");
    job->live_stats.samples_per_s = field_number(body, "samples_per_s");
}

/* Training that waits for a disk is paused. */
int64_t job_still_since(const struct job *job, int64_t now_ms)
{
    const struct job_core *c = &job->core;
    return c->state == JOB_RUNNING && !c->goodput.disk_since_ms
           ? job_rhythm_still_since(&job->live_stats.rhythm, now_ms) : 0;
}

void job_spent(struct goodput *out, const struct job *job, int64_t now_ms)
{
    const int64_t since_ms = job_still_since(job, now_ms);
    job_core_spent_still(out, &job->core, now_ms, since_ms ? since_ms : now_ms);
}

/* A member of a sweep may wait in Slurm's queue for its siblings: max_duration is for its ranks. */
static void note_queue(struct job *job, enum event_kind kind, int64_t at_ms)
{
    struct job_member *m = job->member;
    if (!m || job->need.remote != &remote_slurm)
        return;
    const int64_t ms = kind == EVENT_AGENT_UP && m->placed_ms && at_ms > m->placed_ms ? at_ms - m->placed_ms : 0;
    m->placed_ms = kind == EVENT_PLACED ? at_ms : 0;
    job->times.lease_ms += ms;
    if (job->times.limit_ms)
        job->times.limit_ms += ms;
}

void job_note(struct job *job, enum event_kind kind, const json_t *body, int64_t at_ms)
{
    const json_t *v;
    if (kind == EVENT_PLACED || kind == EVENT_AGENT_UP)
        note_queue(job, kind, at_ms);
    if (kind == EVENT_PLACED) {
        job->texts->nccl[0] = 0;
        note_placed(job, body);
    } else if (kind == EVENT_SUBMITTED && json_object_get(body, "sweep")) {
        job_join(job, json_integer_value(json_object_get(body, "sweep")),
                 (int)json_integer_value(json_object_get(body, "index")), json_object_get(body, "point"));
    } else if (kind == EVENT_NODES) {
        job->agents.gathered = true;
        job->texts->absent[0] = 0;
    } else if (kind == EVENT_LEASE) {
        const bool over = json_is_true(json_object_get(body, "over"));
        const int64_t ms = over ? field_safe_int(body, "waited_ms", 0) : 0;
        snprintf(job_texts(job)->lease, sizeof(job->texts->lease), "%s", over ? "" : field_text(body, "text"));
        job->times.lease_ms += ms > 0 ? ms : 0;
        if (job->times.limit_ms)
            job->times.limit_ms += ms > 0 ? ms : 0; /* max_duration is for its ranks */
    } else if (event_kind_is(kind, EVENT_IS_END)) {
        job->texts->lease[0] = 0;
        if (strcmp(field_text(body, "cause"), cause_name(CAUSE_HOST_UNUSABLE)) == 0 || json_object_get(body, "usable"))
            note_lost(job, body, "node", true, at_ms);
    } else if (kind == EVENT_NODE_LOST) {
        note_lost(job, body, "name", false, at_ms);
    } else if (kind == EVENT_PLAN) {
        note_plan(job, body);
    } else if (kind == EVENT_CLOCK) {
        note_clock(job, body);
    } else if (kind == EVENT_CHECKPOINT) {
        note_checkpoint(job, json_object_get(body, "path"));
    } else if (kind == EVENT_REBUILT) {
        note_rebuilt(job, body);
    } else if (kind == EVENT_STEP) {
        job_rhythm_step(&job->live_stats.rhythm, field_safe_int(body, "step", -1), at_ms);
        if (json_is_number(v = json_object_get(body, "loss")))
            job->live_stats.loss = json_number_value(v);
        if (json_is_number(v = json_object_get(body, "samples_per_s")))
            job->live_stats.samples_per_s = json_number_value(v);
        if (json_is_number(v = json_object_get(body, "step_ms")))
            job->live_stats.step_ms = json_number_value(v);
        job->live_stats.tokens_per_s = field_number(body, "tokens_per_s");
        job->live_stats.epoch = field_number(body, "epoch");
        job->live_stats.epochs = (float)field_number(body, "epochs");
        job->live_stats.eta_s = field_number(body, "eta_s");
    } else if (kind == EVENT_STRAGGLER) {
        snprintf(job_texts(job)->slow, sizeof(job->texts->slow), "%s", field_text(body, "text"));
    } else if (kind == EVENT_NCCL) {
        const bool fine = json_is_true(json_object_get(body, "expected"));
        snprintf(job_texts(job)->nccl, sizeof(job->texts->nccl), "%s", fine ? "" : field_text(body, "text"));
    } else if (kind == EVENT_GENERATION_STARTED || kind == EVENT_GENERATION_ENDED) {
        job->live_stats.phase[0] = job->texts->slow[0] = 0;
        job_rhythm_begin(&job->live_stats.rhythm, at_ms);
    }
}
