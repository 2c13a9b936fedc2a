/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_jobs.c - cancel, retry, hold, checkpoint: one request per job */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/cli/question.h"
#include "controller/job/job_list.h"
#include "controller/job/job_view.h"
#include "controller/submit/spec_file.h"
#include "controller/submit/submit_code.h"
#include "controller/submit/submitter.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* The request: hold --off is "release". */
static const char *verb_of(const struct call *call)
{
    return call->command == &cmd_hold && options_has(&call->options, "off") ? "release" : call->command->name;
}

/* The text printed after success, following "job 7 (name)". */
static const struct {
    const char *verb, *said;
} sayings[] = {
    {"cancel", "is being cancelled"}, {"hold", "is held; jobctl hold --off lets it start"},
    {"release", "is released"}, {"checkpoint", "will write a checkpoint"},
};

static void say(struct call *call, const json_t *before, const json_t *after)
{
    char title[JOB_CELL], now[JOB_CELL];
    job_view_title(title, sizeof(title), before);
    job_view_title(now, sizeof(now), after);
    if (options_has(&call->options, "quiet")) {
        fprintf(call->out.file, "%lld\n", (long long)json_integer_value(json_object_get(after, "id")));
        return;
    }
    const json_t *members = json_object_get(after, "members");
    if (strcmp(call->command->name, "retry") == 0 && json_is_object(members))
        fprintf(call->out.file, "%s reruns the members of %s that did not succeed: %lld member%s\n", now, title,
                (long long)json_integer_value(json_object_get(members, "count")),
                json_integer_value(json_object_get(members, "count")) == 1 ? "" : "s");
    else if (strcmp(call->command->name, "retry") == 0)
        fprintf(call->out.file, "%s continues from the checkpoints of %s\n", now, title);
    const char *result = json_string_value(json_object_get(after, "result"));
    for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++)
        if (strcmp(sayings[i].verb, verb_of(call)) == 0)
            fprintf(call->out.file, "%s %s\n", title, i == 0 && result ? "is cancelled" : sayings[i].said);
}

/* What the job took from its submitter beside the secrets of its spec. */
static void add_taken(json_t *values, const json_t *names, long long id)
{
    size_t i;
    const json_t *name;
    json_array_foreach (names, i, name) {
        const char *key = json_string_value(name), *value = getenv(key);
        if (json_object_get(values, key))
            continue;
        if (value)
            json_object_set_new(values, key, json_string(value));
        else
            fprintf(stderr, "note: %s is not set in this environment; job %lld had it when it was submitted\n", key,
                    id);
    }
}

/* Values of secrets end with their job: a retry takes them from the environment again. Without a snapshot it runs the
 * code of now. */
static int add_own(struct call *call, struct client *c, json_t *body, struct code_taken *code, long long id,
                   struct err *err)
{
    json_t *answer;
    if (client_get(c, &answer, err, "/v1/jobs/%lld", id) < 0)
        return -1;
    if (submit_code_take(code, call, NULL, json_object_get(answer, "spec")) == 0)
        json_object_set_new(body, "code", json_string(code->name));
    json_t *values = spec_file_secrets(json_object_get(json_object_get(answer, "spec"), "secrets"), err);
    if (values)
        add_taken(values, json_object_get(json_object_get(answer, "environment"), "secrets"), id);
    json_decref(answer);
    if (!values || json_object_set_new(body, "secrets", values) < 0)
        return -1;
    json_t *environment = submitter_environment(err);
    return environment ? json_object_set_new(body, "environment", environment) : -1;
}

static json_t *body_of(const struct call *call)
{
    json_t *body = json_object();
    if (strcmp(call->command->name, "cancel") != 0)
        return body;
    const char *reason = options_text(&call->options, "reason");
    if (reason)
        json_object_set_new(body, "reason", json_string(reason));
    if (options_has(&call->options, "now"))
        json_object_set_new(body, "now", json_true());
    return body;
}

static bool every(const struct call *call)
{
    return strcmp(call->command->name, "cancel") == 0 && options_has(&call->options, "all");
}

/* Sends a request for every job, also after one that failed; the first failure is the command's
 * result. */
static int ask(struct call *call, struct client *c, const json_t *jobs, json_t *answers)
{
    size_t i;
    json_t *row, *answer;
    json_t *body = body_of(call);
    json_array_foreach (jobs, i, row) {
        char path[64];
        struct err err = {0};
        struct code_taken code = {.lock = -1};
        long long id = json_integer_value(json_object_get(row, "id"));
        bool retry = strcmp(call->command->name, "retry") == 0;
        snprintf(path, sizeof(path), "/v1/jobs/%lld/%s", id, verb_of(call));
        const int rc = retry && add_own(call, c, body, &code, id, &err) < 0 ? -1
                                                                            : client_post(c, &answer, path, body, &err);
        submit_code_end(&code);
        if (rc < 0) {
            if (err.code == ERR_CONFLICT && every(call)) /* it ended meanwhile */
                continue;
            if (call->err.code != ERR_NONE && !call->json)
                fprintf(stderr, "jobctl: %s\n", err.text);
            err_set(&call->err, err.code, "%s", err.text);
            continue;
        }
        json_array_append(answers, json_object_get(answer, "job"));
        if (!call->json)
            say(call, row, json_object_get(answer, "job"));
        json_decref(answer);
    }
    json_decref(body);
    return call->err.code == ERR_NONE ? 0 : -1;
}

static void print(struct call *call, const json_t *answers)
{
    if (call->json)
        output_json(call, json_make("{s:O}", "jobs", answers));
}

static int run(struct call *call)
{
    struct client *c;
    json_t *jobs = NULL, *answers = json_array();
    int rc = -1;
    if (client_open(&c, true, &call->err) == 0 &&
        job_select(c, &jobs, call->options.nargs, call->options.args, &call->err) == 0 &&
        ask(call, c, jobs, answers) == 0) {
        print(call, answers);
        rc = 0;
    }
    json_decref(jobs);
    json_decref(answers);
    client_close(c);
    return rc;
}

/* ---- cancel --all ---- */

/* 1: do it. */
static int confirm_all(struct call *call, const json_t *jobs)
{
    char totals[200], question[240];
    job_list_totals(totals, sizeof(totals), jobs);
    if (!options_has(&call->options, "yes") && !question_possible(call))
        return err_set(&call->err, ERR_USAGE, "cancel --all asks before it cancels %s, but stdin is not a terminal or "
                       "--json is given; add --yes", totals);
    snprintf(question, sizeof(question), "Cancel %s?", totals);
    return question_confirm(call, question, "Nothing was cancelled.");
}

/* Those that wait go first, newest first: no slot that becomes free starts another. */
static json_t *waiting_first(const json_t *jobs)
{
    json_t *order = json_array(), *row;
    size_t i;
    for (int waits = 1; waits >= 0; waits--)
        json_array_foreach (jobs, i, row)
            if ((strcmp(field_text(row, "state"), "pending") == 0) == waits)
                json_array_append(order, row);
    return order;
}

static int cancel_listed(struct call *call, struct client *c, const json_t *jobs)
{
    json_t *order = waiting_first(jobs), *answers = json_array();
    int go = json_array_size(jobs) == 0 ? 0 : confirm_all(call, jobs);
    if (json_array_size(jobs) == 0 && !call->json && !options_has(&call->options, "quiet"))
        fprintf(call->out.file, "No job is active.\n");
    if (go > 0 && ask(call, c, order, answers) < 0)
        go = -1;
    if (go >= 0)
        print(call, answers);
    json_decref(order);
    json_decref(answers);
    return go < 0 ? -1 : 0;
}

static int cancel_all(struct call *call)
{
    struct client *c;
    json_t *jobs = NULL;
    if (call->options.nargs > 0)
        return err_set(&call->err, ERR_USAGE, "--all cancels every job; leave out %.60s", call->options.args[0]);
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    int rc = job_select_active(c, &jobs, &call->err);
    if (rc == 0)
        rc = cancel_listed(call, c, jobs);
    json_decref(jobs);
    client_close(c);
    return rc;
}

static int cancel(struct call *call)
{
    if (options_has(&call->options, "all"))
        return cancel_all(call);
    if (call->options.nargs == 0)
        return err_set(&call->err, ERR_USAGE, "cancel takes at least one JOB: an id, a range such as 3-5, a name, or "
                       "last; --all for every job that is not done");
    return run(call);
}

static const struct option_row cancel_options[] = {
    {"reason", 0, OPTION_TEXT, "TEXT", "stored with the job and shown by jobctl why"},
    {"all", 'a', OPTION_FLAG, NULL, "every job that is not done; asks first"},
    {"yes", 'y', OPTION_FLAG, NULL, "with --all: do not ask"},
    {"now", 0, OPTION_FLAG, NULL, "stop without a last checkpoint or copy to the mirror"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};
static const struct option_row hold_options[] = {
    {"off", 0, OPTION_FLAG, NULL, "let held jobs start"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};
static const struct option_row plain_options[] = {OPTION_QUIET, OPTION_JSON, {.name = NULL}};

const struct command cmd_cancel = {
    .name = "cancel", .group = GROUP_CHANGE, .args = ARGS_JOBS_OR_NONE, .summary = "stop jobs after a last checkpoint",
    .options = cancel_options, .run = cancel,
};
const struct command cmd_retry = {
    .name = "retry", .group = GROUP_CHANGE, .args = ARGS_JOBS,
    .summary = "submit done jobs again, from their last checkpoints",
    .help = "Creates a new job that continues from the checkpoints; the done job does not change. For a sweep, only "
            "members that did not succeed are rerun, as a new sweep with the same indices; 12_3 is one member.",
    .options = plain_options, .run = run,
};
const struct command cmd_hold = {
    .name = "hold", .group = GROUP_CHANGE, .args = ARGS_JOBS,
    .summary = "keep pending jobs from starting, or let them start",
    .options = hold_options, .run = run,
};
const struct command cmd_checkpoint = {
    .name = "checkpoint", .group = GROUP_CHANGE, .args = ARGS_JOBS,
    .summary = "make running jobs write a checkpoint now",
    .help = "For `train:` jobs only; a `run:` command saves by itself.",
    .options = plain_options, .run = run,
};
