/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_best.c - jobctl best: a sweep's members with the best values, best first */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { SHOWN = 5 };

static const struct option_row options[] = {
    {"by", 'b', OPTION_TEXT, "FIELD", "the value to compare, such as loss (default) or samples_per_s"},
    {"max", 0, OPTION_FLAG, NULL, "the largest value is the best, not the smallest"},
    {"number", 'n', OPTION_COUNT, "N", "show the best N (default 5)"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* Their order in qsort(). */
struct rank {
    double        value;
    const json_t *row;
};

static int compare(const void *pa, const void *pb)
{
    const struct rank *a = pa, *b = pb;
    if (a->value < b->value || a->value > b->value)
        return a->value < b->value ? -1 : 1;
    return json_integer_value(json_object_get(a->row, "id")) < json_integer_value(json_object_get(b->row, "id")) ? -1 : 1;
}

/* The rows that have the number, best first; NULL: no memory. */
static json_t *sorted(const json_t *rows, const char *by, bool max)
{
    const size_t count = json_array_size(rows);
    struct rank *list = calloc(count + 1, sizeof(*list));
    json_t *out = json_array();
    size_t n = 0;
    for (size_t i = 0; list && i < count; i++) {
        const json_t *value = json_object_get(json_array_get(rows, i), by);
        if (json_is_number(value))
            list[n++] = (struct rank){max ? -json_number_value(value) : json_number_value(value),
                                      json_array_get(rows, i)};
    }
    if (list)
        qsort(list, n, sizeof(*list), compare);
    for (size_t i = 0; i < n; i++)
        json_array_append(out, (json_t *)(uintptr_t)list[i].row);
    free(list);
    return out;
}

/* The members of all sweeps that were named. */
static int collect(struct call *call, struct client *c, json_t *rows)
{
    json_t *named = NULL, *row;
    size_t i;
    int rc = job_select(c, &named, call->options.nargs, call->options.args, &call->err);
    if (rc == 0)
        json_array_foreach (named, i, row) {
            json_t *members = job_select_members(c, row, &call->err);
            if (members && !json_is_object(json_object_get(row, "members")))
                rc = err_set(&call->err, ERR_USAGE, "job %lld is not a sweep or an array, so it has no members to "
                             "compare", (long long)json_integer_value(json_object_get(row, "id")));
            rc = members ? rc : -1;
            json_array_extend(rows, members);
            json_decref(members);
        }
    json_decref(named);
    return rc;
}

static int print(struct call *call, json_t *best, const char *by)
{
    char fields[128];
    if (call->json) {
        output_json(call, json_make("{s:O, s:s}", "jobs", best, "by", by));
        return 0;
    }
    if (options_has(&call->options, "quiet")) {
        fprintf(call->out.file, "%lld\n",
                (long long)json_integer_value(json_object_get(json_array_get(best, 0), "id")));
        return 0;
    }
    snprintf(fields, sizeof(fields), "member,id,%.40s,point,status,progress", by);
    return job_view_table(&call->out, best, fields, &call->err);
}

/* A field whose values are numbers. */
static int check_field(struct call *call, const char *by, const json_t *rows)
{
    if (json_array_size(rows) == 0)
        return err_set(&call->err, ERR_CONFLICT, "no member has started yet");
    if (json_object_get(json_array_get(rows, 0), by))
        return 0;
    return err_set(&call->err, ERR_USAGE, "--by: jobs have no value \"%.40s\"; use loss, samples_per_s, step or "
                   "goodput, for example", by);
}

static int run(struct call *call)
{
    struct client *c;
    const char *by = options_text(&call->options, "by") ? options_text(&call->options, "by") : "loss";
    const long long most = options_count(&call->options, "number", SHOWN);
    json_t *rows = json_array(), *best = NULL;
    int rc = -1;
    if (most < 1)
        rc = err_set(&call->err, ERR_USAGE, "--number must be at least 1");
    else if (client_open(&c, true, &call->err) == 0) {
        if (collect(call, c, rows) == 0 && check_field(call, by, rows) == 0) {
            best = sorted(rows, by, options_has(&call->options, "max"));
            for (size_t i = json_array_size(best); i > (size_t)most; i--)
                json_array_remove(best, i - 1);
            rc = json_array_size(best) > 0 ? print(call, best, by)
                 : err_set(&call->err, ERR_CONFLICT, "no member has a value for %.40s yet", by);
        }
        client_close(c);
    }
    json_decref(best);
    json_decref(rows);
    return rc;
}

const struct command cmd_best = {
    .name = "best", .args = ARGS_JOBS, .words = "SWEEP...",
    .summary = "list the best members of a sweep, by loss or another number",
    .help = "Compares the newest value of each member, including those still running; the smallest is the best, unless "
            "--max is given.",
    .options = options, .run = run,
};
