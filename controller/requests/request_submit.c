/* SPDX-License-Identifier: Apache-2.0 */
/* request_submit.c - POST /v1/jobs and /retry: checks a spec and stores it as a job */
#include "controller/lifecycle/submit_batch.h"
#include "controller/requests/requests.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/base/diagnostics.h"
#include "controller/base/file_work.h"
#include "controller/base/submit_key.h"
#include "controller/http/request.h"
#include "controller/job/job.h"
#include "controller/job/job_store.h"
#include "controller/lifecycle/submission.h"
#include "controller/lifecycle/sweeps.h"
#include "controller/remote/hub_pin.h"
#include "controller/remote/remote.h"
#include "controller/remote/slurm_client.h"
#include "controller/requests/dependencies.h"
#include "controller/requests/request_job.h"
#include "controller/spec/canonical.h"
#include "controller/spec/index_list.h"
#include "controller/spec/jobspec.h"
#include "db/submit_keys.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { SETS_MAX = 256, HUB_PATIENCE_MS = 70000 /* above HUB_QUERY_MS */ };

/* The answer to a dry run, with notes from the plan: {spec, notes}. */
static json_t *dry_run(struct daemon *d, const struct submission *o, struct err *err)
{
    json_t *plan = NULL, *notes = NULL, *answer = NULL;
    struct job *job = job_create(d, d->next_id, o->spec, err);
    if (!job || submission_fits(&plan, job, o->spec, err) < 0)
        goto out;
    notes = json_array();
    if (json_object_get(plan, "why"))
        json_array_append_new(notes, json_text_f(
            "ranks: %lld (%s)", (long long)json_integer_value(json_object_get(plan, "np")),
            field_text(plan, "why")));
    json_array_extend(notes, json_object_get(plan, "notes"));
    if (job->need.nodes > 1)
        json_array_append_new(notes, json_text_f(
            "nodes: %d; planned for one of them, assuming that the others are equal",
            job->need.nodes));
    if (job->need.remote != &remote_local)
        json_array_append_new(notes, json_text("ranks, devices and environment are planned after "
                                               "placement, on the node"));
    answer = json_make("{s:O, s:O}", "spec", o->spec, "notes", notes);
    if (!answer)
        err_set(err, ERR_MEMORY, "out of memory for an answer");
out:
    job_destroy(job);
    json_decref(plan);
    json_decref(notes);
    return answer;
}

static int sets_of(const char *sets[SETS_MAX], const json_t *body)
{
    const json_t *list = json_object_get(body, "set");
    const size_t count = json_array_size(list) < SETS_MAX ? json_array_size(list) : SETS_MAX;
    for (size_t i = 0; i < count; i++)
        sets[i] = json_string_value(json_array_get(list, i));
    return (int)count;
}

/* The canonical spec: received from jobctl, which has parsed the text, or made from another client's text. Both are
 * checked. */
static int read_spec(json_t **spec, const json_t *body, struct diagnostics *found, struct err *err)
{
    const json_t *canonical = json_object_get(body, "canonical");
    const char *sets[SETS_MAX], *file = field_text(body, "file");
    if (canonical)
        return canonical_check(spec, canonical, false, found, err) < 0 ? err_prefix(err, "canonical: ") : 0;
    if (json_array_size(json_object_get(body, "set")) > SETS_MAX)
        return err_set(err, ERR_USAGE, "set: expected at most %d strings", SETS_MAX);
    const int count = sets_of(sets, body);
    return jobspec_parse(spec, field_text(body, "spec"), file[0] ? file : "-", field_text(body, "cwd"),
                         sets, count, found, err);
}

/* Whether this machine has a configuration of Slurm: without one, a job for Slurm would wait forever. */
static int find_slurm(const json_t *body, struct diagnostics *found, struct err *err)
{
    const char *sets[SETS_MAX];
    struct err why = { 0 };
    if (slurm_client_configured(&why))
        return 0;
    err_prefix(&why, "launch: slurm is not possible here: ");
    const int count = sets_of(sets, body);
    jobspec_add_mistake(found, field_text(body, "spec"), sets, count, "launch", &why);
    return diagnostics_first(found, err);
}

static bool for_slurm(const json_t *spec)
{
    return remote_of_spec(spec) == &remote_slurm && slurm_client_there();
}

/* A thread checks a text, because the check looks for the files that it names, and Slurm's configuration may come from
 * another machine. */
struct spec_task {
    struct file_task   base;
    json_t            *body, *spec, *hub; /* variables of the submitter about models of a hub */
    struct diagnostics found;
    struct err         err;
};

static void on_hub_mistake(void *arg, const char *key, const char *text)
{
    struct spec_task *t = arg;
    const char *sets[SETS_MAX];
    struct err why = { 0 };
    err_set(&why, ERR_USAGE, "%s: %s", key, text);
    const int count = sets_of(sets, t->body);
    jobspec_add_mistake(&t->found, field_text(t->body, "spec"), sets, count, key, &why);
}

/* Looks up the commits of models, unless the client is jobctl, which has already done so. */
static int pin(struct spec_task *t)
{
    json_t *notes = json_array();
    if (!json_object_get(t->body, "canonical"))
        hub_pin(t->spec, t->hub, false, notes, on_hub_mistake, t);
    json_decref(notes);
    return diagnostics_first(&t->found, &t->err);
}

static void spec_work(struct file_task *task)
{
    struct spec_task *t = (struct spec_task *)task;
    if (read_spec(&t->spec, t->body, &t->found, &t->err) < 0 ||
        ((!for_slurm(t->spec) || find_slurm(t->body, &t->found, &t->err) == 0) && pin(t) == 0))
        return;
    json_decref(t->spec);
    t->spec = NULL;
}

static void spec_destroy(struct file_task *task)
{
    struct spec_task *t = (struct spec_task *)task;
    json_decref(t->body);
    json_decref(t->spec);
    json_decref(t->hub);
    free(t);
}

static void spec_begin(struct request *r)
{
    char what[400];
    struct spec_task *t = calloc(1, sizeof(*t));
    if (!t) {
        request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory for a spec" }, NULL);
        return;
    }
    t->base.work = spec_work;
    t->base.destroy = spec_destroy;
    t->body = json_deep_copy(request_body(r));
    t->hub = hub_pin_environment(json_object_get(t->body, "environment"), json_object_get(t->body, "secrets"));
    t->base.patience_ms = HUB_PATIENCE_MS * (strstr(field_text(t->body, "spec"), "hf://") != NULL);
    json_object_del(t->body, "secrets");
    json_object_del(t->body, "environment");
    if (json_object_get(t->body, "canonical"))
        snprintf(what, sizeof(what), "looking for the configuration of Slurm");
    else
        snprintf(what, sizeof(what), "looking for the files of a spec in %.300s", field_text(t->body, "cwd"));
    request_work(r, &t->base, what, what);
}

/* The directory of its relative paths; NULL: not given. */
static const char *base_of(char base[PATH_MAX], const json_t *body)
{
    const char *file = field_text(body, "file"), *cwd = field_text(body, "cwd");
    return cwd[0] == '/' && jobspec_base(base, PATH_MAX, file[0] ? file : "-", cwd, NULL) == 0 ? base : NULL;
}

/* Takes the spec as checked by jobctl or by a thread. */
static int take_spec(json_t **spec, struct request *r, struct diagnostics *found, struct err *err)
{
    const struct spec_task *t = (const struct spec_task *)request_worked(r);
    if (!t)
        return read_spec(spec, request_body(r), found, err);
    *found = t->found;
    *err = t->err;
    *spec = json_incref(t->spec);
    return t->spec ? 0 : -1;
}

/* The digest that belongs to a key: using the key with another spec is a mistake. */
static int digest_of(char out[DIGEST_TEXT], const json_t *spec, struct err *err)
{
    struct digest *d = NULL;
    char *text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
    int rc = text ? digest_create(&d, err) : err_set(err, ERR_MEMORY, "out of memory for a spec");
    if (rc == 0) {
        digest_add_text(d, text);
        digest_text(d, out);
    }
    digest_destroy(d);
    free(text);
    return rc;
}

/* The job that an earlier request with this key has become; *id 0: none. */
static int find_key(int64_t *id, struct daemon *d, struct submission *o, char digest[DIGEST_TEXT], struct err *err)
{
    char theirs[SUBMIT_KEYS_DIGEST];
    *id = 0;
    if (!o->key)
        return 0;
    o->digest = digest;
    if (submit_key_check(o->key, err) < 0 || digest_of(digest, o->spec, err) < 0 ||
        submit_keys_find(id, theirs, d->store, o->key, err) < 0)
        return -1;
    if (*id && strcmp(theirs, digest) != 0)
        return err_set(err, ERR_CONFLICT, "the key %.64s belongs to job %lld, which has a different spec; submit with "
                       "another key", o->key, (long long)*id);
    return 0;
}

/* Called once the job is committed. */
static void answer_stored(struct request *r, int64_t id)
{
    const struct submit_batch *in = request_daemon(r)->submit_batch;
    int64_t *memo = request_memo(r);
    if (!in->open || id < in->first_id) {
        request_job_answer(r, 200, id);
        return;
    }
    memo[0] = id;
    memo[1] = in->batch;
    request_sleep(r, id, WAIT_MAX_S * 1000);
}

void request_submit(struct request *r)
{
    struct daemon *d = request_daemon(r);
    int64_t *memo = request_memo(r);
    if (memo[0]) {
        request_job_submitted(r, memo[0], memo[1]);
        return;
    }
    const json_t *body = request_body(r);
    const json_t *canonical = json_object_get(body, "canonical");
    if (!request_worked(r) && (!canonical || for_slurm(canonical))) {
        spec_begin(r);
        return;
    }
    struct diagnostics found = { .count = 0 };
    struct err err = { 0 };
    int64_t id;
    char base[PATH_MAX], digest[DIGEST_TEXT];
    struct submission o = { .yaml = field_text(body, "spec"), .base = base_of(base, body),
                       .secrets = json_object_get(body, "secrets"),
                       .environment = json_object_get(body, "environment"),
                       .set = json_object_get(body, "set"), .code = field_text(body, "code"),
                       .key = json_string_value(json_object_get(body, "key")),
                       .hold = json_is_true(json_object_get(body, "hold")) };
    if (take_spec(&o.spec, r, &found, &err) < 0 || find_key(&id, d, &o, digest, &err) < 0)
        goto fail;
    if (id) {
        answer_stored(r, id);
        json_decref(o.spec);
        return;
    }
    if (dependencies_resolve(o.spec, d, d->next_id, &err) < 0 ||
        sweeps_check(o.spec, &err) < 0)
        goto fail;
    if (json_is_true(json_object_get(body, "dry_run"))) {
        json_t *answer = dry_run(d, &o, &err);
        if (!answer)
            goto fail;
        request_answer(r, 200, answer);
    } else {
        if (submission_place(&id, d, &o, &err) < 0)
            goto fail;
        answer_stored(r, id);
    }
    json_decref(o.spec);
    return;
fail:
    if (err.code == ERR_SYSTEM)
        err_prefix(&err, "the job was not submitted: ");
    request_fail(r, &err, diagnostics_to_json(&found, field_text(body, "file")));
    json_decref(o.spec);
}

/* A sweep is retried as a sweep of the members that did not succeed. */
static int choose_unsuccessful(json_t *spec, struct daemon *d, const struct job_row *row, struct err *err)
{
    struct index_list list;
    if (sweeps_unsuccessful(&list, d, row, spec, err) < 0)
        return -1;
    char *text = index_list_text(&list);
    const int rc = text ? json_object_set_new(spec, "array", json_text(text))
                        : err_set(err, ERR_MEMORY, "out of memory for a sweep");
    json_object_del(json_object_get(spec, "checkpoint"), "origin");
    free(text);
    return rc;
}

void request_retry(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    char *yaml = NULL, *canonical = NULL;
    int64_t id;
    struct submission o = { .secrets = json_object_get(request_body(r), "secrets"),
                            .environment = json_object_get(request_body(r), "environment"),
                            .code = field_text(request_body(r), "code") };
    if (request_job_row(&row, r) < 0)
        return;
    if (!row.result[0]) {
        err_set(&err, ERR_CONFLICT, "job %lld is %s; only done jobs can be retried", (long long)row.id, row.state);
        goto fail;
    }
    if (jobs_spec(&yaml, &canonical, d->store, row.id, &err) < 0 ||
        !(o.spec = job_store_spec(d->store, row.id, &err)))
        goto fail;
    o.yaml = yaml;
    o.retry_of = row.id;
    if (row.members > 0 && choose_unsuccessful(o.spec, d, &row, &err) < 0)
        goto fail;
    json_object_set_new(o.spec, "after", json_array());     /* they have succeeded already */
    if (submission_place(&id, d, &o, &err) < 0)
        goto fail;
    submit_batch_flush(d);
    request_job_submitted(r, id, d->submit_batch->batch);
    goto out;
fail:
    request_fail(r, &err, NULL);
out:
    json_decref(o.spec);
    free(yaml);
    free(canonical);
}
