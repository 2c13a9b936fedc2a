/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - jobctl status: list jobs with state, step, speed and goodput */
#include <poll.h>
#include <stdio.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "engine/contract/field.h"

enum { STORE = 1600, LIMIT = 100, LIMIT_MOST = 10000, REDRAW_MS = 1000 };

static const struct option_row options[] = {
    {"all", 'a', OPTION_FLAG, NULL, "include done jobs; the newest 100"},
    {"number", 'n', OPTION_COUNT, "N", "at most N jobs"},
    {"output", 'o', OPTION_TEXT, "FIELDS", "columns, such as id,name,status,loss,reason"},
    {"watch", 'w', OPTION_FLAG, NULL, "redraw every second until Ctrl-C"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* `store`: what is wrong with it, "" if nothing is. */
static int fetch(struct call *call, struct client *c, json_t **jobs, char store[STORE])
{
    const struct options *o = &call->options;
    store[0] = '\0';
    if (o->nargs > 0)
        return job_select(c, jobs, o->nargs, o->args, &call->err);
    long long limit = options_count(o, "number", LIMIT);
    if (limit < 1 || limit > LIMIT_MOST)
        return err_set(&call->err, ERR_USAGE, "--number must be from 1 to %d", LIMIT_MOST);
    json_t *answer;
    if (client_get(c, &answer, &call->err, "/v1/jobs?all=%d&limit=%lld", options_has(o, "all"),
                   limit) < 0)
        return -1;
    *jobs = json_incref(json_object_get(answer, "jobs"));
    snprintf(store, STORE, "%s", field_text(answer, "store"));
    json_decref(answer);
    return 0;
}

static int print(struct call *call, const json_t *jobs)
{
    size_t i;
    json_t *row;
    if (options_has(&call->options, "quiet")) {
        json_array_foreach (jobs, i, row)
            fprintf(call->out.file, "%lld\n",
                    (long long)json_integer_value(json_object_get(row, "id")));
        return 0;
    }
    if (json_array_size(jobs) == 0 && call->out.tty) {
        fprintf(call->out.file, options_has(&call->options, "all")
                ? "No jobs yet. Submit one: jobctl submit FILE\n"
                : "No active jobs. To include done jobs: jobctl status -a\n");
        return 0;
    }
    return job_view_table(&call->out, jobs, options_text(&call->options, "output"), &call->err);
}

/* Scripts read the table on stdout. */
static void print_store(struct call *call, const char *store)
{
    if (!store[0] || options_has(&call->options, "quiet"))
        return;
    fflush(call->out.file);
    fprintf(call->out.tty ? call->out.file : stderr, "The store and the directories of the jobs differ: %s\n", store);
}

/* Redraws from the top of the screen and clears the rest below the table. */
static int watch(struct call *call, struct client *c)
{
    const volatile int *stop = interrupt_catch();
    client_stop_when(c, stop);
    while (!*stop) {
        json_t *jobs = NULL;
        char store[STORE];
        if (fetch(call, c, &jobs, store) < 0)
            return *stop ? 0 : -1;
        terminal_measure(&call->out);
        if (call->out.tty)
            fputs("\033[H\033[2J", call->out.file);
        int rc = print(call, jobs);
        print_store(call, store);
        json_decref(jobs);
        if (rc < 0)
            return -1;
        if (output_closed(call))
            break;
        poll(NULL, 0, REDRAW_MS);
    }
    return 0;
}

static int run(struct call *call)
{
    struct client *c;
    json_t *jobs = NULL;
    char store[STORE];
    int rc = -1;
    if (options_has(&call->options, "watch") && call->json)
        return err_set(&call->err, ERR_USAGE, "--watch and --json cannot be combined: --json "
                       "prints one value");
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    if (options_has(&call->options, "watch")) {
        rc = watch(call, c);
        goto out;
    }
    if (fetch(call, c, &jobs, store) < 0)
        goto out;
    if (call->json) {
        output_json(call, json_pack("{s:O, s:s}", "jobs", jobs, "store", store));
        rc = 0;
    } else {
        rc = print(call, jobs);
        print_store(call, store);
    }
out:
    json_decref(jobs);
    client_close(c);
    return rc;
}

const struct command cmd_status = {
    .name = "status", .aliases = "ls|queue", .args = ARGS_JOBS_OR_NONE,
    .summary = "list jobs with state, step, speed and goodput (productive share of time)",
    .help = "Without JOBS: all jobs that are not done. JOBS are ids (7), ranges (3-5 or 3,5-8), "
            "names, or "
            "last.",
    .options = options, .run = run,
};
