/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_adopt.c - jobctl adopt: continue a job of another machine from its mirror */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/cli/spec_file.h"

static const struct option_row options[] = {
    {"hold", 0, OPTION_FLAG, NULL, "submit held: jobctl release starts it"},
    {"wait", 'w', OPTION_FLAG, NULL, "wait until the job is done; exit with its code"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* The mirror has the names of its secrets, our environment their values. */
static json_t *request_of(const struct call *call, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    if (!realpath(call->options.args[0], dir)) {
        err_set(err, ERR_NOT_FOUND, "directory '%.300s' does not exist", call->options.args[0]);
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/job.json", dir);
    json_t *job = json_load_file(path, 0, NULL);
    json_t *names = json_object_get(json_object_get(job, "spec"), "secrets");
    json_t *secrets = names ? spec_file_secrets(names, err) : json_object();
    json_decref(job);
    if (!secrets)
        return NULL;
    return json_pack("{s:s, s:b, s:o}", "dir", dir, "hold", options_has(&call->options, "hold"),
                     "secrets", secrets);
}

static void announce(struct call *call, const json_t *row, const char *dir)
{
    const long long id = json_integer_value(json_object_get(row, "id"));
    if (call->json)
        return;
    if (options_has(&call->options, "quiet"))
        fprintf(call->out.file, "%lld\n", id);
    else
        fprintf(call->out.file, "job %lld (%s) continues from %s\n", id,
                json_string_value(json_object_get(row, "name")), dir);
    fflush(call->out.file);
}

static int wait_for(struct call *call, struct client *c, json_t **row)
{
    json_t *last = NULL;
    int code = job_wait(c, json_integer_value(json_object_get(*row, "id")), -1, &last, &call->err);
    if (code > 0)
        code = job_wait_exit_code(last);
    if (last) {
        json_decref(*row);
        *row = last;
    }
    if (code >= 0 && !call->json && !options_has(&call->options, "quiet"))
        job_wait_print(&call->out, *row);
    return code;
}

static int run(struct call *call)
{
    struct client *c = NULL;
    json_t *answer = NULL, *request = request_of(call, &call->err);
    int code = -1;
    if (request && client_open(&c, true, &call->err) == 0 &&
        client_post(c, &answer, "/v1/adopt", request, &call->err) == 0) {
        json_t *row = json_incref(json_object_get(answer, "job"));
        announce(call, row, json_string_value(json_object_get(request, "dir")));
        code = options_has(&call->options, "wait") ? wait_for(call, c, &row) : 0;
        if (code >= 0 && call->json)
            output_json(call, json_pack("{s:O}", "job", row));
        json_decref(row);
    }
    json_decref(answer);
    json_decref(request);
    client_close(c);
    return code;
}

const struct command cmd_adopt = {
    .name = "adopt", .args = ARGS_FILE, .words = "DIR", .summary = "continue a job of another "
                                                                   "machine from its mirror",
    .help = "DIR is the job's directory below checkpoint.mirror. The machine that ran the job must "
            "have stopped it or be down: a lease prevents two machines from training one job.",
    .options = options, .run = run,
};
