/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_jobs.c - cancel, retry, hold, release, checkpoint: one request per job */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/cli/spec_file.h"
#include "controller/job/job_view.h"

/* The text printed after success, following "job 7 (name)". */
static const struct {
    const char *command, *said;
} sayings[] = {
    {"cancel", "is being cancelled"}, {"hold", "is held; jobctl release starts it"},
    {"release", "is released"}, {"checkpoint", "will write a checkpoint"},
};

static void say(struct call *call, const json_t *before, const json_t *after)
{
    char title[JOB_CELL], now[JOB_CELL];
    job_view_title(title, sizeof(title), before);
    job_view_title(now, sizeof(now), after);
    if (options_has(&call->options, "quiet")) {
        fprintf(call->out.file, "%lld\n",
                (long long)json_integer_value(json_object_get(after, "id")));
        return;
    }
    if (strcmp(call->command->name, "retry") == 0)
        fprintf(call->out.file, "%s continues from the checkpoints of %s\n", now, title);
    const char *result = json_string_value(json_object_get(after, "result"));
    for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++)
        if (strcmp(sayings[i].command, call->command->name) == 0)
            fprintf(call->out.file, "%s %s\n", title,
                    i == 0 && result ? "is cancelled" : sayings[i].said);
}

/* Secrets are never stored: a retry takes them from the environment again. */
static int add_secrets(struct client *c, json_t *body, long long id, struct err *err)
{
    json_t *answer;
    if (client_get(c, &answer, err, "/v1/jobs/%lld", id) < 0)
        return -1;
    json_t *values = spec_file_secrets(json_object_get(json_object_get(answer, "spec"), "secrets"),
                                       err);
    json_decref(answer);
    return values ? json_object_set_new(body, "secrets", values) : -1;
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
        long long id = json_integer_value(json_object_get(row, "id"));
        bool retry = strcmp(call->command->name, "retry") == 0;
        snprintf(path, sizeof(path), "/v1/jobs/%lld/%s", id, call->command->name);
        if ((retry && add_secrets(c, body, id, &err) < 0) ||
            client_post(c, &answer, path, body, &err) < 0) {
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

static int run(struct call *call)
{
    struct client *c;
    json_t *jobs = NULL, *answers = json_array();
    int rc = -1;
    if (client_open(&c, true, &call->err) == 0 &&
        job_select(c, &jobs, call->options.nargs, call->options.args, &call->err) == 0 &&
        ask(call, c, jobs, answers) == 0) {
        if (call->json)
            output_json(call, json_pack("{s:O}", "jobs", answers));
        rc = 0;
    }
    json_decref(jobs);
    json_decref(answers);
    client_close(c);
    return rc;
}

static const struct option_row cancel_options[] = {
    {"reason", 0, OPTION_TEXT, "TEXT", "stored with the job and shown by jobctl why"},
    {"now", 0, OPTION_FLAG, NULL, "stop without a last checkpoint or copy to the mirror"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};
static const struct option_row plain_options[] = {OPTION_QUIET, OPTION_JSON, {.name = NULL}};

const struct command cmd_cancel = {
    .name = "cancel", .args = ARGS_JOBS, .summary = "stop jobs after a last checkpoint",
    .options = cancel_options, .run = run,
};
const struct command cmd_retry = {
    .name = "retry", .args = ARGS_JOBS,
    .summary = "submit done jobs again, from their last checkpoints",
    .help = "Creates a new job that continues from the checkpoints; the done job does not change.",
    .options = plain_options, .run = run,
};
const struct command cmd_hold = {
    .name = "hold", .args = ARGS_JOBS, .summary = "keep pending jobs from starting",
    .options = plain_options, .run = run,
};
const struct command cmd_release = {
    .name = "release", .args = ARGS_JOBS, .summary = "let held jobs start",
    .options = plain_options, .run = run,
};
const struct command cmd_checkpoint = {
    .name = "checkpoint", .args = ARGS_JOBS, .summary = "make running jobs write a checkpoint now",
    .help = "For `train:` jobs only; a `run:` command saves by itself.",
    .options = plain_options, .run = run,
};
