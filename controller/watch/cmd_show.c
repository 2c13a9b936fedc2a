/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_show.c - jobctl show: all details of one job */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/goodput.h"
#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "controller/watch/curve_table.h"
#include "controller/watch/report.h"
#include "engine/base/field.h"
#include "engine/base/text_append.h"

static const struct option_row options[] = {
    {"spec", 0, OPTION_FLAG, NULL, "print only the canonical spec (JSON)"},
    {"metrics", 'm', OPTION_FLAG, NULL, "print only the curves, as CSV"},
    {"report", 0, OPTION_TEXT, "FILE", "write all of it to share: FILE.html is a page, FILE.tar.gz an archive"},
    OPTION_JSON,
    {.name = NULL},
};

enum { PIDS = 8 };

static void line(const struct terminal *t, const char *name, const char *value)
{
    if (!value || !value[0] || strcmp(value, "-") == 0)
        return;
    fprintf(t->file, "  %s%-13s%s ", terminal_style(t, STYLE_DIM), name, terminal_style(t, STYLE_PLAIN));
    terminal_hang(t, value + strspn(value, " "), 2 + 13 + 1);
}

static void print_fields(const struct terminal *t, const json_t *row)
{
    static const char *const names[] = {
        "member", "point", "phase", "progress", "epoch", "loss", "speed", "eta_s", "goodput", "checkpoint", "np",
        "agent_channel", "attempt", "generation", "priority", "after", "retry_of", "exit_code",
        "submitted_at", "started_at", "ended_at", "elapsed",
    };
    static const char *const titles[] = {
        "member", "point", "phase", "step", "epoch", "loss", "speed", "ETA", "goodput", "checkpoint", "ranks",
        "agent channel", "attempt", "generation", "priority", "after", "retry of", "exit code", "submitted",
        "started", "ended", "elapsed",
    };
    char value[JOB_CELL];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        job_view_field(value, sizeof(value), row, names[i]);
        if (strcmp(value, "0") != 0 || strcmp(names[i], "exit_code") == 0) /* 0: default */
            line(t, titles[i], value);
    }
}

/* "93% productive, 4% restart, 2% checkpoint, 1% init of 12m04s": the largest first. */
static void print_goodput(const struct terminal *t, const json_t *goodput)
{
    char value[512], part[32];
    size_t at = 0;
    const double all = json_number_value(json_object_get(goodput, "rank_s"));
    bool said[BUCKETS] = { false };
    if (all < 0.001)
        return;
    for (int n = 0; n < BUCKETS; n++) {
        int most = -1;
        double share = 0.0005;
        for (int i = 0; i < BUCKETS; i++) {
            double s = json_number_value(json_object_get(goodput, bucket_name((enum bucket)i)));
            if (!said[i] && s / all > share) {
                most = i;
                share = s / all;
            }
        }
        if (most < 0)
            break;
        said[most] = true;
        at += (size_t)snprintf(value + at, sizeof(value) - at, "%s%.*f%% %s", n ? ", " : "",
                               share < 0.0995 ? 1 : 0, 100 * share, bucket_name((enum bucket)most));
    }
    job_view_duration(part, sizeof(part), all);
    snprintf(value + at, sizeof(value) - at, " of %s of rank time", part);
    line(t, "time", value);
}

/* ", step 200 to 340"; where a script began is not known. */
static void put_steps(char *out, size_t size, const json_t *from, const json_t *to)
{
    const long long first = json_integer_value(from), last = json_integer_value(to);
    if (last > 0 && json_is_integer(from))
        snprintf(out, size, ", step %lld to %lld", first, last);
    else if (last > 0)
        snprintf(out, size, ", up to step %lld", last);
    else if (first > 0)
        snprintf(out, size, ", from step %lld", first);
}

/* ", pids 9193 9194", of ranks that run. */
static void put_pids(char *out, size_t size, const json_t *generation)
{
    const json_t *pids = json_object_get(generation, "pids");
    out[0] = '\0';
    if (!json_is_null(json_object_get(generation, "ended_at")))
        return;
    for (size_t i = 0; i < json_array_size(pids) && i < PIDS; i++)
        text_append(out, size, "%s %lld", i ? "" : json_array_size(pids) > 1 ? ", pids" : ", pid",
                    (long long)json_integer_value(json_array_get(pids, i)));
    if (json_array_size(pids) > PIDS)
        text_append(out, size, " ...");
}

static void print_generation(const struct terminal *t, const json_t *attempt, const json_t *g)
{
    const char *cause = field_text(g, "cause"), *text = field_text(g, "text");
    long long np = json_integer_value(json_object_get(g, "np"));
    char value[1024], steps[80] = "", pids[120], why[128] = "";
    put_pids(pids, sizeof(pids), g);
    put_steps(steps, sizeof(steps), json_object_get(g, "resume_step"), json_object_get(g, "step"));
    const bool ended = strcmp(field_text(attempt, "state"), "stopped") == 0 && strcmp(cause, "preempted") == 0;
    if (cause[0] && strcmp(cause, "none") != 0 && !ended) /* a cancelled job is not called preempted */
        snprintf(why, sizeof(why), " (%s)", cause);
    snprintf(value, sizeof(value), "%lld.%lld with %lld rank%s%s%s%s%s%s",
             (long long)json_integer_value(json_object_get(attempt, "attempt")),
             (long long)json_integer_value(json_object_get(g, "generation")), np,
             np == 1 ? "" : "s", steps, pids, text[0] ? ": " : "", text, why);
    line(t, "generation", value);
}

/* "8f3a...; changed since the last attempt: NCCL_P2P_DISABLE=1 is new: ..." */
static void print_plan(const struct terminal *t, const json_t *plan)
{
    char value[1024];
    size_t at = (size_t)snprintf(value, sizeof(value), "%s", field_text(plan, "hash")), i;
    json_t *change;
    json_array_foreach (json_object_get(plan, "changes"), i, change)
        if (at < sizeof(value))
            at += (size_t)snprintf(value + at, sizeof(value) - at, "%s%s",
                                   i ? "; " : "; changed since the last attempt: ", json_string_value(change));
    line(t, "plan", value);
    job_view_nccl(value, sizeof(value), plan);
    line(t, "NCCL", value);
}

/* "0 one, ranks 0 to 1" */
static void print_node(const struct terminal *t, const json_t *node)
{
    const char *name = json_string_value(json_object_get(node, "name"));
    const char *state = json_string_value(json_object_get(node, "state"));
    const char *text = field_text(node, "text");
    const json_t *ranks = json_object_get(node, "ranks");
    const long long first = json_integer_value(json_object_get(node, "first_rank"));
    const long long last = first + json_integer_value(ranks) - 1;
    char value[1024], which[64] = "";
    if (json_is_integer(ranks) && last > first)
        snprintf(which, sizeof(which), ", ranks %lld to %lld", first, last);
    else if (json_is_integer(ranks))
        snprintf(which, sizeof(which), ", rank %lld", first);
    snprintf(value, sizeof(value), "%lld %.80s%s: %s%s%s", (long long)json_integer_value(json_object_get(node, "node")),
             name ? name : "-", which, state ? state : "-", text[0] ? ", " : "", text);
    line(t, "node", value);
}

static void print_attempts(const struct terminal *t, const json_t *attempts)
{
    size_t i, j;
    json_t *attempt, *generation, *one;
    json_array_foreach (attempts, i, attempt) {
        const char *node = json_string_value(json_object_get(attempt, "node"));
        const char *state = json_string_value(json_object_get(attempt, "state"));
        const char *text = field_text(attempt, "text");
        char value[1024];
        snprintf(value, sizeof(value), "%lld on %s: %s%s%s",
                 (long long)json_integer_value(json_object_get(attempt, "attempt")),
                 node ? node : "-", state ? state : "-", text[0] ? ", " : "", text);
        line(t, "attempt", value);
        json_array_foreach (json_object_get(attempt, "nodes"), j, one)
            print_node(t, one);
        print_plan(t, json_object_get(attempt, "plan"));
        json_array_foreach (json_object_get(attempt, "generations"), j, generation)
            print_generation(t, attempt, generation);
    }
}

/* "python train.py ... (3 lines)" */
static void print_script(const struct terminal *t, const char *name, const json_t *text)
{
    char value[400];
    const char *first = json_string_value(text);
    int lines = 0;
    if (!first)
        return;
    for (const char *p = first; *p; p += strcspn(p, "\n"), p += *p == '\n')
        lines += strspn(p, " \t\r") < strcspn(p, "\n");
    first += strspn(first, " \t\r\n");
    snprintf(value, sizeof(value), lines > 1 ? "%.*s ... (%d lines)" : "%.*s", (int)strcspn(first, "\n"), first, lines);
    line(t, name, value);
}

static void print_list(const struct terminal *t, const char *name, const json_t *list)
{
    char value[1024] = "";
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one)
        if (json_is_object(one))
            text_append(value, sizeof(value), "%s%s: %s", i ? ", " : "", field_text(one, "path"), field_text(one, "why"));
        else
            text_append(value, sizeof(value), "%s%s", i ? ", " : "", json_string_value(one));
    line(t, name, value);
}

static void print_environment(const struct terminal *t, const json_t *environment)
{
    char value[200];
    if (!environment)
        return;
    snprintf(value, sizeof(value), "%s, %lld variables", field_text(environment, "from"),
             (long long)json_integer_value(json_object_get(environment, "variables")));
    line(t, "environment", value);
    print_list(t, "secrets", json_object_get(environment, "secrets"));
}

/* "8a31f0c92b77 on main, 3 files changed (.../code/diff.patch)" */
static void print_commit(const struct terminal *t, const json_t *code)
{
    char value[PATH_MAX + 300] = "";
    const long long changed = (long long)field_int(code, "changed", 0);
    const char *git = field_text(code, "git");
    if (field_text(code, "commit")[0])
        snprintf(value, sizeof(value), "%.12s on %.100s", field_text(code, "commit"), field_text(code, "branch"));
    if (changed > 0)
        text_append(value, sizeof(value), ", %lld file%s changed: %s/diff.patch%s", changed, changed == 1 ? "" : "s",
                    field_text(code, "dir"), field_true(code, "diff_cut") ? ", cut" : "");
    if (git[0])
        text_append(value, sizeof(value), "%s%s", value[0] ? "; " : "not recorded: ", git);
    line(t, "commit", value);
}

static void print_snapshot(const struct terminal *t, const json_t *code)
{
    char value[PATH_MAX + 300], bytes[32];
    const long long files = (long long)field_int(code, "files", 0);
    if (!field_text(code, "snapshot")[0])
        return;
    job_view_bytes(bytes, sizeof(bytes), (long long)field_int(code, "bytes", 0));
    snprintf(value, sizeof(value), "%s, %lld file%s, %s", field_text(code, "snapshot"), files, files == 1 ? "" : "s",
             bytes);
    line(t, "snapshot", value);
    print_list(t, "  without", json_object_get(code, "left_out"));
}

/* What runs, and where. */
static void print_command(const struct terminal *t, const json_t *answer)
{
    const json_t *spec = json_object_get(answer, "spec");
    print_script(t, "setup", json_object_get(spec, "setup"));
    print_script(t, "command", json_object_get(spec, "run"));
    if (json_is_object(json_object_get(spec, "train")))
        line(t, "command", "the built-in engine (jobctl show --spec)");
    line(t, "directory", json_string_value(json_object_get(spec, "workdir")));
    print_commit(t, json_object_get(answer, "code"));
    print_snapshot(t, json_object_get(answer, "code"));
    print_list(t, "overrides", json_object_get(answer, "set"));
    print_environment(t, json_object_get(answer, "environment"));
}

static void print(struct call *call, const json_t *answer)
{
    const struct terminal *t = &call->out;
    const json_t *row = json_object_get(answer, "job");
    const char *key;
    json_t *path;
    job_view_heading(t, row);
    const char *reason = json_string_value(json_object_get(row, "reason"));
    if (reason && reason[0])
        terminal_wrap(t, reason, 2);
    print_command(t, answer);
    print_fields(t, row);
    if (json_is_string(json_object_get(row, "started_at")))
        print_goodput(t, json_object_get(answer, "goodput"));
    print_attempts(t, json_object_get(answer, "attempts"));
    json_object_foreach (json_object_get(answer, "paths"), key, path)
        line(t, key, json_string_value(path));
    if (json_object_get(answer, "files"))
        line(t, "files", json_string_value(json_object_get(answer, "files")));
}

static int run(struct call *call)
{
    const char *report = options_text(&call->options, "report");
    json_t *answer;
    if (report)
        return report_write(call, report);
    if (options_has(&call->options, "metrics"))
        return curve_table_print(call);
    int rc = client_ask_job(&answer, call->options.args[0], "", &call->err);
    if (rc == 0 && options_has(&call->options, "spec"))
        json_dumpf(json_object_get(answer, "spec"), call->out.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)),
            fputc('\n', call->out.file);
    else if (rc == 0 && call->json)
        output_json(call, json_incref(answer));
    else if (rc == 0)
        print(call, answer);
    json_decref(answer);
    return rc;
}

const struct command cmd_show = {
    .name = "show", .group = GROUP_WATCH, .args = ARGS_JOB, .there = "report",
    .summary = "show all details of one job, its curves, or a report to share",
    .help = "--metrics prints about one row a second: loss, grad_norm, lr, samples_per_s, step_ms, and for `train:` "
            "jobs the phases of rank 0's steps in ms: data, forward, backward, reduce, optimizer. Unknown values are "
            "empty. At most 2,000 points of a curve are kept, evenly spaced.\n\n--report FILE.html is the dashboard's "
            "page of the job as one file; - prints it. --report FILE.tar.gz contains the spec, events, why, facts "
            "about the node, incident reports and the ends of logs. Both omit the values of the job's secrets, keys of "
            "well-known services and values after words such as token=.",
    .options = options, .run = run,
};
