/* SPDX-License-Identifier: Apache-2.0 */
/* submission.c - see submission.h */
#include "controller/lifecycle/submission.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/field.h"
#include "agent/core/redact.h"
#include "agent/plan/plan.h"
#include "controller/base/daemon.h"
#include "controller/lifecycle/reserve.h"
#include "controller/lifecycle/submit_batch.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"
#include "controller/remote/slurm_client.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* What retry.max: auto means. */
enum { RESTARTS = 10, EARLY_MS = 2 * 60 * 1000 };

/* Several nodes simulated on this machine: each has separate GPUs. */
static int share_fits(const struct job_need *need, int64_t here, struct err *err)
{
    if (need->node_gpus < 0 && here > 0)
        return err_set(err, ERR_USAGE, "resources.gpus: %d nodes share the %lld GPU%s of this machine; set the number "
                                       "per node, at most %lld", need->nodes, (long long)here,
                       here == 1 ? "" : "s", (long long)(here / need->nodes));
    if (need->node_gpus * need->nodes > here && need->node_gpus > 0)
        return err_set(err, ERR_USAGE, "resources.gpus: %lld on each of %d nodes makes %lld, but this machine has "
                                       "%lld; set resources.gpus to at most %lld",
                       (long long)need->node_gpus, need->nodes,
                       (long long)(need->node_gpus * need->nodes), (long long)here,
                       (long long)(here / need->nodes));
    return 0;
}

int submission_fits(json_t **plan, const struct job *job, const json_t *spec, struct err *err)
{
    const struct fleet *f = job->daemon->fleet;
    const struct daemon_machine *machine = &job->daemon->machine;
    const struct job_need *need = &job->need;
    *plan = NULL;
    if (need->remote == &remote_slurm)
        return slurm_client_there() ? 0 : err_set(err, ERR_SYSTEM, "launch: slurm needs "
                                                                   "jobctl-slurm, "
               "which is not installed beside jobctl; run share/jobctl/build-slurm of the installation, or "
               "install libslurm-dev and rebuild");
    if (need->remote == &remote_ssh)
        return remote_ssh_there() ? 0 : err_set(err, ERR_SYSTEM, "launch: ssh needs jobctl-ssh, "
               "which is not installed beside jobctl; install libssh-dev and rebuild");
    if (json_object_size(f->facts) > 0 && plan_make(plan, f->facts, spec, err) < 0) {
        err->code = err->code == ERR_NO_DEVICE ? ERR_CONFLICT : err->code; /* of the request, not of this program */
        return -1;
    }
    if (need->nodes > 1 && share_fits(need, machine->gpus, err) < 0)
        return -1;
    if (need->want_cpus > machine->cpus && need->nodes > 1)
        return err_set(err, ERR_USAGE, "resources: %d nodes with %lld CPU slot%s each exceed the %lld of this machine; "
                                       "lower resources.nodes or resources.cpus", need->nodes,
                       (long long)(need->want_cpus / need->nodes),
                       need->want_cpus == need->nodes ? "" : "s", (long long)machine->cpus);
    if (need->want_cpus > machine->cpus)
        return err_set(err, ERR_USAGE, "resources: %lld CPU slots needed, but this machine has %lld; lower "
                                       "resources.ranks or resources.cpus", (long long)need->want_cpus,
                       (long long)machine->cpus);
    return 0;
}

/* 128 random bits, which its checkpoints and mirrors carry (engine/checkpoint/lineage.h): `retry` and `adopt` keep them. */
static int give_origin(json_t *checkpoint, struct err *err)
{
    unsigned char bits[16];
    char text[2 * sizeof(bits) + 1];
    if (field_text(checkpoint, "origin")[0])
        return 0;
    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for the job's origin");
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    return json_object_set_new(checkpoint, "origin", json_text(text));
}

int submission_place_checkpoints(json_t *spec, const struct daemon *d, int64_t id, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    json_t *checkpoint = json_object_get(spec, "checkpoint");
    if (give_origin(checkpoint, err) < 0)
        return -1;
    if (strcmp(field_text(checkpoint, "dir"), "auto") != 0 || sweep_points_is(spec))    /* each member: its own */
        return 0;
    /* below the host's own state (agent/attempt/attach.h) */
    if (remote_of_spec(spec) == &remote_ssh) {
        char key[48];
        remote_key(key, sizeof(key), d->instance, id);
        snprintf(path, sizeof(path), "hosted/%s/checkpoints", key);
        return json_object_set_new(checkpoint, "dir", json_text(path));
    }
    job_dir(dir, sizeof(dir), d, id);
    snprintf(path, sizeof(path), "%s/checkpoints", dir);
    if (json_object_set_new(checkpoint, "dir", json_text(path)) < 0)
        return err_set(err, ERR_MEMORY, "out of memory for a spec");
    return 0;
}

json_t *submission_overrides(const json_t *set)
{
    json_t *out = json_array_size(set) > 0 ? json_array() : NULL;
    size_t i;
    const json_t *one;
    json_array_foreach (set, i, one) {
        char *text = redact_text(NULL, json_string_value(one), NULL);
        json_array_append_new(out, json_text(text ? text : REDACTED));
        free(text);
    }
    return out;
}

json_t *submission_retry(const json_t *spec)
{
    const json_t *retry = json_object_get(spec, "retry"), *backoff = json_object_get(retry, "backoff");
    const json_t *max = json_object_get(retry, "max");
    const bool chosen = json_is_integer(max);   /* else auto */
    const json_int_t low = (json_int_t)(json_number_value(json_array_get(backoff, 0)) * 1000);
    const json_int_t high = (json_int_t)(json_number_value(json_array_get(backoff, 1)) * 1000);
    return json_make("{s:I, s:I, s:I, s:I, s:I, s:[I, I]}", "max",
                     chosen ? json_integer_value(max) : (json_int_t)RESTARTS, "early_ms",
                     (json_int_t)(chosen ? 0 : EARLY_MS),
                     "no_progress", json_integer_value(json_object_get(retry, "no_progress")), "same_line",
                     json_integer_value(json_object_get(retry, "same_line")), "same_line_ms",
                     (json_int_t)(json_number_value(json_object_get(retry, "same_line_within")) * 1000),
                     "backoff_ms", low, high);
}

/* The directory of relative paths, if it is not the workdir; else NULL. */
static const char *base_of(const struct submission *o)
{
    return o->base && strcmp(o->base, field_text(o->spec, "workdir")) != 0 ? o->base : NULL;
}

static json_t *submitted_body(const struct job *job, const struct submission *o)
{
    return json_make("{s:s, s:I, s:b, s:o, s:o, s:O*, s:o*, s:s*, s:o, s:o*, s:o*, s:O*}", "name", field_text(o->spec, "name"),
                     "priority", json_integer_value(json_object_get(o->spec, "priority")), "held", (int)o->hold,
                     "retry_of", o->retry_of > 0 ? json_integer(o->retry_of) : json_null(), "retry",
                     submission_retry(o->spec), "adopted", o->adopted, "set", submission_overrides(o->set), "base",
                     base_of(o), "clock", job_core_clock(job->daemon->machine.boot, &job->times.clock), "sweep",
                     o->sweep > 0 ? json_integer(o->sweep) : NULL, "index",
                     o->sweep > 0 ? json_integer(o->sweep_index) : NULL, "point", o->point);
}

/* Writes the environment beside the job before the job is stored: a stored job must have it. */
static int keep_environment(struct job *job, const struct submission *o, struct err *err)
{
    struct buf older = { .data = NULL };
    struct job_env env;
    const int64_t from_job = o->sweep > 0 ? o->sweep : o->retry_of;
    const bool retried = from_job > 0 && job_env_read(&older, job->daemon, from_job, NULL) == 0;
    const struct job_env_source from = { .spec = o->spec, .environment = o->environment, .secrets = o->secrets,
                                         .older = retried ? &older : NULL, .host = job->need.remote == &remote_ssh };
    int rc = job_env_init(&env, &from, err);
    if (rc == 0)
        rc = job_env_write(&env, job->daemon, job->core.id, err);
    job_env_fini(&env);
    buf_fini(&older);
    return rc;
}

/* A retry has the snapshot of the job that it retries; without one both run what is in the workdir. A member runs the
 * code of its sweep's submit. */
static int keep_code(const struct job *job, const struct submission *o, struct err *err)
{
    char dir[PATH_MAX];
    const struct daemon *d = job->daemon;
    const bool must = json_is_true(json_object_get(o->spec, "snapshot"));
    if (o->retry_of > 0 && job_code_dir(dir, sizeof(dir), d, o->retry_of))
        return job_code_inherit(d, o->retry_of, job->core.id, must, err);
    if (o->sweep > 0)
        return job_code_inherit(d, o->sweep, job->core.id, must, err);
    return job_code_adopt(d, job->core.id, o->code ? o->code : "", must, err);
}

static void discard(const struct daemon *d, int64_t id)
{
    job_code_discard(d, id);
    job_env_discard(d, id);
}

int submission_place(int64_t *id, struct daemon *d, const struct submission *o, struct err *err)
{
    char *canonical = NULL;
    json_t *body = NULL, *plan = NULL;
    struct job *job = job_create(d, d->next_id, o->spec, err);
    int rc = -1;
    if (!job || submission_fits(&plan, job, o->spec, err) < 0 ||
        submission_place_checkpoints(o->spec, d, job->core.id, err) < 0 || job_know_origin(job, o->spec, err) < 0)
        goto out;
    job->retry_of = o->retry_of > 0 ? o->retry_of : -1;
    if (o->sweep > 0 && job_join(job, o->sweep, o->sweep_index, o->point) < 0) {
        err_set(err, ERR_MEMORY, "out of memory for a job");
        goto out;
    }
    canonical = json_dumps(o->spec, JSON_COMPACT);
    body = submitted_body(job, o);
    if (!canonical || !body) {
        err_set(err, ERR_MEMORY, "out of memory for a job");
        goto out;
    }
    *id = job->core.id;
    if (keep_code(job, o, err) < 0 || keep_environment(job, o, err) < 0) {
        discard(d, *id);
        reserve_explain(&d->home, err);
        goto out;
    }
    const struct submit_content content = { .body = body, .yaml = o->yaml, .canonical = canonical, .key = o->key,
                                            .digest = o->digest };
    if (submit_batch_submit(job, &content, err) < 0) {
        discard(d, *id);
        goto out;
    }
    job = NULL;
    rc = 0;
out:
    job_destroy(job);
    json_decref(body);
    json_decref(plan);
    free(canonical);
    return rc;
}
