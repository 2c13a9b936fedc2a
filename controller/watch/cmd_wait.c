/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_wait.c - jobctl wait: wait until jobs are done; exit with their code */
#include <stdio.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "engine/base/clock.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"timeout", 't', OPTION_DURATION, "TIME", "give up after 90s, 5m, ... with exit code 124"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* Replaces the rows of `jobs` by their last state. Returns the exit code, or -1. */
static int wait_all(struct call *call, struct client *c, json_t *jobs)
{
    double limit = options_seconds(&call->options, "timeout", -1), start = clock_s();
    int code = 0;
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        json_t *row;
        long long id = json_integer_value(json_object_get(json_array_get(jobs, i), "id"));
        double left = limit < 0 ? -1 : limit - (clock_s() - start);
        int rc = job_wait(c, id, limit >= 0 && left < 0 ? 0 : left, &row, &call->err);
        if (rc < 0)
            return -1;
        if (row)
            json_array_set_new(jobs, i, row);
        code = job_wait_worse(code, rc == 0 ? COMMAND_TIMEOUT : job_wait_exit_code(row));
    }
    return code;
}

static int run(struct call *call)
{
    struct client *c;
    json_t *jobs = NULL, *row;
    size_t i;
    int code = -1;
    if (client_open(&c, true, &call->err) == 0 &&
        job_select(c, &jobs, call->options.nargs, call->options.args, &call->err) == 0 &&
        (code = wait_all(call, c, jobs)) >= 0) {
        if (call->json)
            output_json(call, json_make("{s:O}", "jobs", jobs));
        else if (!options_has(&call->options, "quiet"))
            json_array_foreach (jobs, i, row)
                job_wait_print(&call->out, row);
    }
    json_decref(jobs);
    client_close(c);
    return code;
}

const struct command cmd_wait = {
    .name = "wait", .group = GROUP_WATCH, .args = ARGS_JOBS,
    .summary = "wait until jobs are done; exit with their code",
    .help = "The exit code is the job's: 0 succeeded, 1 failed, 3 cancelled, 93 retry limit reached (do not requeue); "
            "for several jobs, the worst; 124 when --timeout expires.",
    .options = options, .run = run,
};
