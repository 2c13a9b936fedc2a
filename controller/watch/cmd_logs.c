/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_logs.c - jobctl logs: the output of a rank, or the events of a job */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/base/client.h"
#include "controller/base/log_fetch.h"
#include "controller/cli/command.h"
#include "controller/cli/follow.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_select.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"follow", 'f', OPTION_FLAG, NULL, "print new output until the job is done; Ctrl-C only stops "
                                       "printing"},
    {"rank", 'r', OPTION_COUNT, "N", "output of rank N (default 0)"},
    {"all", 'a', OPTION_FLAG, NULL, "output of all ranks, each line with its rank"},
    {"setup", 0, OPTION_FLAG, NULL, "output of the setup, not of a rank"},
    {"attempt", 0, OPTION_COUNT, "N", "output of attempt N (default: the newest)"},
    {"lines", 'n', OPTION_COUNT, "N", "only the last N lines"},
    {"events", 'e', OPTION_FLAG, NULL, "the events of the job in order, instead of output"},
    {"json", 0, OPTION_FLAG, NULL, "with --events: print one JSON value (JOBCTL_OUTPUT=json)"},
    {.name = NULL},
};

/* No rank has written anything; perhaps none was started. */
static void point_at_setup(const struct call *call, struct client *c, const struct log_fetch *log)
{
    struct log_fetch setup = {.id = log->id, .attempt = log->attempt, .setup = true};
    struct err none = {0};
    if (log_fetch_tail(&setup, c, 0, &none) == 0 && setup.offset > 0)
        fprintf(stderr, "rank %d wrote nothing; for the setup's output: jobctl logs %s --setup\n",
                log->rank, call->options.args[0]);
}

static int print(struct call *call, struct client *c, struct log_fetch *log)
{
    const struct options *o = &call->options;
    if (options_has(o, "lines") &&
        log_fetch_tail(log, c, options_count(o, "lines", 0), &call->err) < 0)
        return -1;
    long long printed = log_fetch_print(log, c, call->out.file, &call->err);
    if (printed < 0)
        return -1;
    if (printed == 0 && !log->setup && log->done)
        point_at_setup(call, c, log);
    else if (printed == 0)
        fprintf(stderr, "no output yet; to see why: jobctl why %s\n", call->options.args[0]);
    if (log->mid_line && call->out.tty)
        fputc('\n', call->out.file);
    return 0;
}

/* One rank after the other; only -f interleaves them as they write. */
static int print_all(struct call *call, struct client *c, const struct log_fetch *log, int np)
{
    for (int rank = 0; rank < np; rank++) {
        struct log_fetch one = *log;
        struct err why = {0};
        one.rank = rank;
        one.labelled = true;
        if (options_has(&call->options, "lines") &&
            log_fetch_tail(&one, c, options_count(&call->options, "lines", 0), &why) < 0 &&
            why.code == ERR_NOT_FOUND)
            continue; /* this rank wrote nothing */
        long long printed = log_fetch_print(&one, c, call->out.file, &why);
        log_fetch_fini(&one, call->out.file);
        if (printed < 0 && why.code != ERR_NOT_FOUND)
            return err_set(&call->err, why.code, "%s", why.text);
    }
    return 0;
}

/* A narrow terminal omits the kinds, which are for programs. */
enum { PAGE = 1000, INTERRUPTED = 130, WAIT_S = 20, WIDE = 120, NARROW_TEXT = 25, WIDE_TEXT = 44 };

static void print_event(struct call *call, const json_t *event)
{
    const struct terminal *t = &call->out;
    char at[JOB_CELL];
    const char *text = field_text(event, "text");
    const json_t *attempt = json_object_get(event, "attempt");
    job_view_local(at, sizeof(at), json_string_value(json_object_get(event, "at")));
    char number[24] = "";
    if (json_integer_value(attempt) > 0)
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(attempt));
    fprintf(t->file, "%s%s%s  %2s ", terminal_style(t, STYLE_DIM), at, terminal_style(t, STYLE_PLAIN), number);
    if (t->width && t->width < WIDE) {
        fputc(' ', t->file);
        terminal_hang(t, text, NARROW_TEXT);
        return;
    }
    fprintf(t->file, "%-18s  ", field_text(event, "kind"));
    terminal_hang(t, text, WIDE_TEXT);
}

/* Events from before the job was adopted. */
static void print_past(struct call *call, const json_t *event)
{
    const json_t *history = json_object_get(json_object_get(json_object_get(event, "body"), "adopted"), "history");
    size_t i;
    json_t *row;
    json_array_foreach (history, i, row) {
        const time_t at = (time_t)(json_integer_value(json_object_get(row, "at_ms")) / 1000);
        const char *host = json_string_value(json_object_get(row, "host"));
        char when[32] = "", shown[1024];
        struct tm tm;
        if (localtime_r(&at, &tm))
            strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
        terminal_fit(&call->out, shown, sizeof(shown), field_text(row, "text"), 0);
        fprintf(call->out.file, "%s%s  on %s, job %lld: %s%s\n", terminal_style(&call->out, STYLE_DIM), when,
                host ? host : "-", (long long)json_integer_value(json_object_get(row, "job")), shown,
                terminal_style(&call->out, STYLE_PLAIN));
    }
}

/* Prints page by page to the last event; with -f until the job is done. */
static int fetch(struct call *call, struct client *c, const char *job, bool follow, json_t *all)
{
    long long after = 0;
    const volatile int *stop = follow ? interrupt_catch() : NULL;
    client_stop_when(c, stop);
    if (follow)
        client_wait_for_far(c, -1, NULL, NULL);
    for (;;) {
        json_t *answer, *event;
        size_t i;
        if (client_get(c, &answer, &call->err, "/v1/jobs/%s/events?after=%lld&limit=%d&wait_s=%d",
                       job, after, PAGE, follow ? WAIT_S : 0) < 0) {
            bool asked = stop && *stop;
            if (asked)
                memset(&call->err, 0, sizeof(call->err));
            return asked ? INTERRUPTED : -1;
        }
        json_t *events = json_object_get(answer, "events");
        json_array_foreach (events, i, event) {
            after = json_integer_value(json_object_get(event, "seq"));
            if (!call->json && after == 1)
                print_past(call, event);
            if (!call->json)
                print_event(call, event);
            else
                json_array_append(all, event);
        }
        size_t n = json_array_size(events);
        const bool done = strcmp(field_text(answer, "state"), "done") == 0;
        const bool over = n < PAGE && (!follow || (n == 0 && done));
        json_decref(answer);
        if (over || output_closed(call))
            return 0;
    }
}

/* The events of the job that the first argument names; `follow`: until it is done, or Ctrl-C. Returns the exit code. */
static int events_of_job(struct call *call, bool follow)
{
    struct client *c;
    char *job = client_job_part(call->options.args[0], &call->err);
    json_t *all = json_array();
    int rc = -1;
    if (job && client_open(&c, true, &call->err) == 0) {
        rc = fetch(call, c, job, follow, all);
        client_close(c);
    }
    if (rc == 0 && call->json)
        output_json(call, json_make("{s:O}", "events", all));
    free(job);
    json_decref(all);
    return rc;
}

static int print_events(struct call *call)
{
    const struct options *o = &call->options;
    if (options_has(o, "rank") || options_has(o, "all") || options_has(o, "setup") || options_has(o, "attempt") ||
        options_has(o, "lines"))
        return err_set(&call->err, ERR_USAGE, "--events can be combined only with --follow and --json");
    return events_of_job(call, options_has(o, "follow"));
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    if (options_has(o, "events"))
        return print_events(call);
    if (options_has(o, "json"))
        return err_set(&call->err, ERR_USAGE, "--json needs --events: the output of ranks is text");
    struct client *c;
    json_t *jobs = NULL, *row = NULL;
    int rc = -1;
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    if (job_select(c, &jobs, 1, o->args, &call->err) < 0)
        goto out;
    if (json_array_size(jobs) != 1) {
        err_set(&call->err, ERR_USAGE, "logs shows one job at a time, not %zu", json_array_size(jobs));
        goto out;
    }
    if (options_has(o, "all") && (options_has(o, "rank") || options_has(o, "setup"))) {
        err_set(&call->err, ERR_USAGE, "--all cannot be combined with --rank or --setup");
        goto out;
    }
    long long id = json_integer_value(json_object_get(json_array_get(jobs, 0), "id"));
    struct follow_wish wish = {
        .output = true, .progress = call->out.tty, .rank = (int)options_count(o, "rank", 0),
        .all = options_has(o, "all"), .setup = options_has(o, "setup"),
        .attempt = options_count(o, "attempt", 0), .tail = options_count(o, "lines", -1), .from_now = true,
    };
    struct log_fetch log = {.id = id, .rank = wish.rank, .setup = wish.setup,
                            .attempt = wish.attempt};
    if (!options_has(o, "follow")) {
        const int np = (int)json_integer_value(json_object_get(json_array_get(jobs, 0), "np"));
        rc = wish.all ? print_all(call, c, &log, np) : print(call, c, &log);
        goto out;
    }
    rc = follow_job(call, c, id, &wish, &row);
    if (rc >= 0 && rc != FOLLOW_DETACHED && call->out.tty)
        job_wait_print(&call->out, row);
out:
    json_decref(row);
    json_decref(jobs);
    client_close(c);
    return rc;
}

const struct command cmd_logs = {
    .name = "logs", .group = GROUP_WATCH, .args = ARGS_JOB,
    .summary = "print a rank's output, of any attempt, or a job's events",
    .help = "With -f the exit code is the job's, as for wait.",
    .options = options, .run = run,
};
