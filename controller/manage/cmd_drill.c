/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_drill.c - jobctl drill: inject faults into a job and measure its recovery */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/manage/drill.h"
#include "controller/spec/sweep_points.h"
#include "controller/submit/local_check.h"
#include "controller/submit/spec_file.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"only", 0, OPTION_TEXT, "NAMES", "only these faults, separated by commas"},
    {"limit", 0, OPTION_DURATION, "TIME", "time in which the job must recover (default 60s)"},
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the copy's spec"},
    {"live", 0, OPTION_FLAG, NULL, "inject the faults into JOB itself, not into a copy"},
    OPTION_JSON,
    {.name = NULL},
};

enum { SETS = 24, INTERRUPTED = 130, LIMIT_S = 60 };

/* ---- the copy ---- */

/* The spec of a file or of a job; the caller frees *file and the contents of *set. */
struct source {
    char       *file;
    char       *set[SETS];
    int         nset;
};

static void set_add(struct source *s, const char *key, const char *value)
{
    if (value && s->nset < SETS && asprintf(&s->set[s->nset], "%s=%s", key, value) > 0)
        s->nset++;
}

static void source_free(struct source *s)
{
    free(s->file);
    for (int i = 0; i < s->nset; i++)
        free(s->set[i]);
}

/* The text as submitted; its relative paths refer to the directory it was submitted from. */
static int source_of_job(struct source *s, const json_t *answer, struct err *err)
{
    const json_t *spec = json_object_get(answer, "spec");
    const json_t *data = json_object_get(json_object_get(spec, "train"), "data");
    const char *workdir = json_string_value(json_object_get(spec, "workdir"));
    s->file = strdup(field_text(json_object_get(answer, "paths"), "spec"));
    if (workdir && chdir(workdir) < 0)
        return err_set(err, ERR_SYSTEM, "cannot change to the job's workdir %s: %m", workdir);
    set_add(s, "workdir", workdir);
    set_add(s, "train.data.path", json_string_value(json_object_get(data, "path")));
    return 0;
}

/* A job of its own, with its own checkpoints, that outlasts the drill. */
static int submit_copy(struct call *call, struct client *c, struct source *s, int64_t *id)
{
    char name[80];
    json_t *request = NULL, *spec = NULL, *answer = NULL;
    const struct options *o = &call->options;
    for (int i = 0; i < o->nlist && s->nset < SETS - 4; i++)
        if ((s->set[s->nset] = strdup(o->list[i])))
            s->nset++;
    int rc = spec_file_request(call, s->file, (const char *const *)s->set, s->nset, &request, &spec);
    if (rc < 0)
        return -1;
    json_t *notes = json_array();
    rc = sweep_points_is(spec)
             ? err_set(&call->err, ERR_USAGE, "drill needs a single job, but this spec describes several: leave out "
                       "sweep and array, or give a member's jobs/ID/spec.yaml")
             : local_check(call, request, spec, notes);
    json_decref(notes);
    if (rc < 0)
        goto out;
    snprintf(name, sizeof(name), "%.50s-drill", field_text(spec, "name"));
    json_object_set_new(spec, "name", json_text(name));
    json_object_set_new(json_object_get(spec, "checkpoint"), "dir", json_text("auto"));
    if (json_is_object(json_object_get(spec, "train")))
        json_object_set_new(json_object_get(spec, "train"), "steps", json_integer(1000000000));
    rc = strcmp(field_text(spec, "launch"), "ssh") != 0
             ? spec_file_post(call, c, &answer, request)
             : err_set(&call->err, ERR_USAGE, "drill injects faults on this machine only, but the "
                       "job runs on other hosts; add --set launch=local --set 'hosts=[]'");
    if (rc == 0)
        *id = json_integer_value(json_object_get(json_object_get(answer, "job"), "id"));
out:
    json_decref(request);
    json_decref(spec);
    json_decref(answer);
    return rc;
}

/* FILE or JOB: a name that is not a readable file is looked up as a job. */
static int choose(struct call *call, struct client *c, int64_t *id, bool *copied)
{
    const char *arg = call->options.args[0];
    const bool live = options_has(&call->options, "live");
    struct source s = { 0 };
    json_t *answer = NULL;
    int rc = 0;
    if (spec_file_is(arg) && !live)
        s.file = strdup(arg);
    else if (client_ask_job(&answer, arg, "", &call->err) < 0)
        return -1;
    if (live) {
        *id = json_integer_value(json_object_get(json_object_get(answer, "job"), "id"));
    } else {
        rc = s.file ? 0 : source_of_job(&s, answer, &call->err);
        rc = rc < 0 ? -1 : submit_copy(call, c, &s, id);
        *copied = rc == 0;
    }
    json_decref(answer);
    source_free(&s);
    return rc;
}

/* ---- output ---- */

static void seconds(char *out, size_t size, double s)
{
    if (s < 0)
        snprintf(out, size, "-");
    else if (s < 1)
        snprintf(out, size, "%.0f ms", 1000 * s);
    else
        snprintf(out, size, "%.1f s", s);
}

static void tell(struct call *call, const struct drill_fault *f, const struct drill_outcome *o)
{
    const struct terminal *t = &call->out;
    char noticed[24], back[24], lost[24] = "-", text[256];
    if (call->json)
        return;
    seconds(noticed, sizeof(noticed), o->noticed);
    seconds(back, sizeof(back), o->back);
    if (o->back >= 0 && o->lost >= 0)
        snprintf(lost, sizeof(lost), "%lld", (long long)o->lost);
    enum terminal_style style = o->skipped ? STYLE_DIM : o->passed ? STYLE_GREEN : STYLE_RED;
    terminal_fit(t, text, sizeof(text), o->text, t->width > 62 ? t->width - 58 : 0);
    fprintf(t->file, "%-12s %8s %10s %6s  %s%-7s%s  %s\n", drill_fault_name(f), noticed, back, lost,
            terminal_style(t, style), o->skipped ? "skipped" : o->passed ? "pass" : "FAIL",
            terminal_style(t, STYLE_PLAIN), text);
    fflush(t->file);
}

static json_t *number(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *row_of(const struct drill_fault *f, const struct drill_outcome *o)
{
    return json_make("{s:s, s:s, s:o, s:o, s:o, s:s, s:s}", "fault", drill_fault_name(f), "text",
                     drill_fault_text(f), "noticed_s", number(o->noticed), "back_s",
                     number(o->back), "steps_lost",
                     o->back < 0 || o->lost < 0 ? json_null() : json_integer(o->lost), "result",
                     o->skipped ? "skipped" : o->passed ? "pass" : "fail", "why", o->text);
}

/* ---- the drill ---- */

/* Is the fault among those of --only? -1: --only names an unknown fault. */
static int wanted(struct call *call, const struct drill_fault *f)
{
    const char *only = options_text(&call->options, "only");
    int found = !only;
    for (const char *p = only; p && *p; p += strcspn(p, ","), p += *p == ',') {
        int len = (int)strcspn(p, ",");
        const struct drill_fault *named = drill_fault_find(p, len);
        if (!named)
            return err_set(&call->err, ERR_USAGE, "unknown fault '%.*s'; jobctl help drill lists "
                           "the faults", len, p);
        found |= named == f;
    }
    return found;
}

/* The number of failed faults, or -1. */
static int rehearse(struct call *call, struct drill *d, json_t *rows)
{
    const volatile int *stop = d->stop = interrupt_catch();
    const struct drill_fault *f;
    int failed = 0, passed = 0;
    if (!call->json)
        fprintf(call->out.file, "injecting faults into job %lld\n%-12s %8s %10s %6s\n", (long long)d->job, "FAULT",
                "NOTICED", "NEXT STEP", "LOST");
    fflush(call->out.file);
    for (int i = 0; (f = drill_fault_at(i)) && !*stop; i++) {
        struct drill_outcome o;
        int want = wanted(call, f);
        if (want <= 0 && call->err.code != ERR_NONE)
            return -1;
        if (!want)
            continue;
        if (drill_run(&o, d, f, &call->err) < 0)
            return -1;
        tell(call, f, &o);
        json_array_append_new(rows, row_of(f, &o));
        failed += !o.passed && !o.skipped;
        passed += o.passed;
    }
    if (!call->json)
        fprintf(call->out.file, "drill: %d passed, %d failed\n", passed, failed);
    return failed;
}

/* Cancels the copy; it stays in the list of jobs. */
static void end_copy(struct drill *d)
{
    char path[64];
    json_t *answer = NULL, *row = NULL, *body = json_make("{s:s, s:b}", "reason",
                                                          "the drill is over", "now", 1);
    struct err err = { .code = ERR_NONE };
    snprintf(path, sizeof(path), "/v1/jobs/%lld/cancel", (long long)d->job);
    if (d->client && client_post(d->client, &answer, path, body, &err) == 0)
        job_wait(d->client, d->job, 30, &row, &err);
    json_decref(answer);
    json_decref(row);
    json_decref(body);
}

static int run(struct call *call)
{
    struct drill d = { .limit_s = options_seconds(&call->options, "limit", LIMIT_S) };
    json_t *rows = json_array(), *answer = NULL;
    bool copied = false;
    int failed = -1;
    if (wanted(call, drill_fault_at(0)) >= 0 && call->err.code == ERR_NONE &&
        client_open(&d.client, true, &call->err) == 0 &&
        choose(call, d.client, &d.job, &copied) == 0 &&
        client_get(d.client, &answer, &call->err, "/v1/jobs/%lld", (long long)d.job) == 0) {
        const char *dir = json_string_value(json_object_get(json_object_get(answer, "paths"), "dir"));
        snprintf(d.dir, sizeof(d.dir), "%s", dir ? dir : "");
        d.engine = json_is_object(json_object_get(json_object_get(answer, "spec"), "train"));
        failed = rehearse(call, &d, rows);
    }
    if (copied)
        end_copy(&d);
    const bool stopped = d.stop && *d.stop;
    if (stopped) {
        failed = INTERRUPTED;
        call->err = (struct err){0};
        fprintf(stderr, "interrupted%s\n", copied ? ": the copy was cancelled, the job itself is "
                                                    "unchanged" : "");
    }
    if (failed >= 0 && call->json)
        output_json(call, json_make("{s:I, s:O}", "job", (json_int_t)d.job, "faults", rows));
    json_decref(answer);
    json_decref(rows);
    client_close(d.client);
    return stopped ? INTERRUPTED : failed > 0 ? 1 : failed;
}

const struct command cmd_drill = {
    .name = "drill", .where = COMMAND_THERE, .args = ARGS_FILE_OR_JOB,
    .summary = "inject faults into a copy of a job; measure detection and recovery",
    .help = "Submits a copy of the job, injects faults into it, and cancels it at the end; --live uses JOB itself. "
            "Faults: kill-rank, slow-rank, stop-rank, checkpoint (the newest one is corrupted), disk (no space for a "
            "checkpoint), kill-daemon, sigterm, kill-agent. Only the script of a run: job knows its steps and "
            "checkpoints. For such a job the faults slow-rank, stop-rank, checkpoint and disk are skipped, and the job "
            "counts as recovered when its ranks run. The exit code is 0 if the job recovered from every fault in time, "
            "else 1.",
    .options = options, .run = run,
};
