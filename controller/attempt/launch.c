/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - see launch.h */
#include "controller/attempt/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/core/submit_env.h"
#include "controller/job/job_store.h"
#include "engine/base/field.h"
#include "controller/base/daemon.h"
#include "controller/job/event_kind.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/remote/remote.h"
#include "controller/spec/config.h"
#include "db/events.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

static void digest(char out[32], const json_t *spec)
{
    char *text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
    XXH64_hash_t h = text ? XXH3_64bits(text, strlen(text)) : 0;
    snprintf(out, 32, "xxh3:%016llx", (unsigned long long)h);
    free(text);
}

/* Into a LAUNCH: what the newest attempt that learned reported, and each GPU that failed. */
static int take_earlier(void *arg, const struct event_row *row)
{
    const enum event_kind kind = event_kind_of(row->kind);
    if (kind != EVENT_LEARNED && kind != EVENT_EXCLUDED)
        return 0;
    json_t *launch = arg, *body = json_loads(row->body, 0, NULL);
    const char *gpu = json_string_value(json_object_get(body, "gpu"));
    if (kind == EVENT_LEARNED && json_is_object(body))
        json_object_set(launch, "learned", body);
    if (kind == EVENT_EXCLUDED && gpu && !json_object_get(launch, "excluded"))
        json_object_set_new(launch, "excluded", json_object());
    if (kind == EVENT_EXCLUDED && gpu)
        json_object_set(json_object_get(launch, "excluded"), gpu, json_object_get(body, "text"));
    json_decref(body);
    return 0;
}

/* Data of earlier attempts; not for an agent that has launched already. */
static int add_earlier(json_t *body, const struct job *job)
{
    if (job->core.attempt < 2 || job->attempt->acked > 0)
        return 0;
    return events_each(job->daemon->store, job->core.id, 0, INT64_MAX, take_earlier, body, NULL);
}

/* Where its agents find the environment (agent/core/submit_env.h). */
static const char *env_place(const struct job *job)
{
    const bool granted = job->need.remote == &remote_slurm || job->need.nodes > 1;
    return submit_env_place_name(job->need.remote == &remote_ssh ? SUBMIT_ENV_HOST
                                 : granted                  ? SUBMIT_ENV_GRANTED
                                                            : SUBMIT_ENV_HERE);
}

/* For a host, which cannot read them beside the job; a new object. */
static json_t *sent_secrets(const struct job *job, const json_t *spec)
{
    json_t *out = json_object(), *name;
    size_t i;
    json_array_foreach (json_object_get(spec, "secrets"), i, name) {
        json_t *value = json_object_get(job->secrets, json_string_value(name));
        if (job->need.remote == &remote_ssh && value)
            json_object_set(out, json_string_value(name), value);
    }
    return out;
}

/* The code of a job with a snapshot, for LAUNCH (agent/wire/wire.h), a new object; NULL: it runs in its workdir. */
static json_t *code_place(const struct job *job)
{
    char dir[PATH_MAX], code[PATH_MAX], key[48];
    const bool host = job->need.remote == &remote_ssh;
    job_dir(dir, sizeof(dir), job->daemon, job->core.id);
    json_t *info = job_code_dir(code, sizeof(code), job->daemon, job->core.id) ? job_code_info(dir) : NULL, *out = NULL;
    const bool must = field_true(info, "must");
    remote_key(key, sizeof(key), job->daemon->instance, job->core.id);
    if (info && (host || must))
        out = json_make("{s:o, s:b, s:O}", "dir", host ? json_text_f("hosted/%s/code/%s", key, field_text(info, "snapshot"))
                                                       : json_text_f("%s/tree", code),
                        "must", (int)must, "workdir", json_object_get(info, "workdir"));
    json_decref(info);
    return out;
}

static json_t *make(const struct job *job, json_t *spec, const char *run_dir, json_t *secrets)
{
    char dir[PATH_MAX], hash[32], group[64];
    const struct job_core *c = &job->core;
    const char *ckpt = field_text(json_object_get(spec, "checkpoint"), "dir");
    job_dir(dir, sizeof(dir), job->daemon, c->id);
    digest(hash, spec);
    json_t *more = json_make(
        "{s:s, s:O, s:s, s:s, s:s, s:s, s:I, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, "
        "s:{s:I, s:I, s:I, s:s, s:f}}",
        "name", job->spec.name, "spec", spec, "spec_digest", hash, "run_dir", run_dir,
        "job_dir", dir, "ckpt_dir", ckpt, "acked", (json_int_t)job->attempt->acked,
        "env_place", env_place(job), "secrets", secrets, "budget",
        "restarts", (json_int_t)c->rules.max, "backoff_min_ms", (json_int_t)c->rules.backoff_min_ms,
        "backoff_max_ms", (json_int_t)c->rules.backoff_max_ms, "no_progress",
        (json_int_t)c->rules.no_progress, "same_line", (json_int_t)c->rules.same_line, "same_line_ms",
        (json_int_t)c->rules.same_line_ms, "early_ms", (json_int_t)c->rules.early_ms, "history", "failures_without_progress",
        (json_int_t)c->failures, "same_fingerprint", (json_int_t)c->same, "last_step",
        (json_int_t)c->best, "fingerprint", c->fingerprint, "step_ms",
        job->live_stats.step_ms > 0 ? job->live_stats.step_ms : 0.0);
    json_t *body = job_envelope(job);
    if (!body || !more || json_object_update(body, more) < 0) {
        json_decref(body);
        body = NULL;
    }
    json_decref(more);
    json_t *code = body ? code_place(job) : NULL;
    if (code)
        json_object_set_new(body, "code", code);
    config_show_names_to(group);
    if (body && group[0])
        json_object_set_new(body, "names_to", json_text(group));
    return body;
}

/* Tells the leader how many nodes the attempt has. */
static int add_group(json_t *body, const struct job *job)
{
    if (json_array_size(job->nodes.names) < 2)
        return 0;
    json_t *group = json_make("{s:i, s:I, s:O}", "node", 0, "nodes",
                              (json_int_t)json_array_size(job->nodes.names), "names", job->nodes.names);
    const int64_t lost_ms = config_node_lost_ms(0);
    if (group && lost_ms > 0)
        json_object_set_new(group, "lost_ms", json_integer(lost_ms));
    return json_object_set_new(body, "group", group);
}

/* Takes all references; `rc` < 0: something could not be added. */
static json_t *finish(json_t *body, json_t *spec, int rc, struct err *err)
{
    if (spec && (!body || rc < 0))
        err_set(err, ERR_MEMORY, "out of memory");
    json_decref(spec);
    if (rc == 0)
        return body;
    json_decref(body);
    return NULL;
}

json_t *launch_leader(const struct job *job, struct err *err)
{
    json_t *spec = job_store_spec(job->daemon->store, job->core.id, err);
    json_t *body = spec ? make(job, spec, job->attempt->run_dir, sent_secrets(job, spec)) : NULL;
    return finish(body, spec, body && add_earlier(body, job) == 0 ? add_group(body, job) : -1, err);
}

json_t *launch_follower(const struct job *job, const char *run_dir, json_t *group, struct err *err)
{
    json_t *spec = job_store_spec(job->daemon->store, job->core.id, err);
    json_t *body = spec ? make(job, spec, run_dir, json_object()) : NULL;
    json_object_set_new(body, "acked", json_integer(0));
    return finish(body, spec, json_object_set_new(body, "group", group), err);
}
