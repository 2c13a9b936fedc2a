/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.c - see job_view.h */
#include "controller/job/job_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/base/table.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

typedef void (*format_fn)(char *out, size_t size, const json_t *row, const char *name);

void job_view_duration(char *out, size_t size, double s)
{
    if (s < 0)
        s = 0;
    long n = (long)(s + 0.5);
    if (s >= 0.0005 && s < 0.095)
        snprintf(out, size, "%.0fms", 1000 * s);
    else if (s < 9.95)
        snprintf(out, size, "%.1fs", s);
    else if (n < 60)
        snprintf(out, size, "%lds", n);
    else if (n < 3600)
        snprintf(out, size, "%ldm%02lds", n / 60, n % 60);
    else if (n < 86400)
        snprintf(out, size, "%ldh%02ldm", n / 3600, n / 60 % 60);
    else
        snprintf(out, size, "%ldd%02ldh", n / 86400, n / 3600 % 24);
}

double job_view_time(const char *iso)
{
    struct tm tm = {0};
    const char *rest = iso ? strptime(iso, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!rest)
        return -1;
    return (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0);
}

void job_view_bytes(char *out, size_t size, long long bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes / 1024;
    size_t i = 0;
    if (bytes < 1024) {
        snprintf(out, size, "%lld B", bytes);
        return;
    }
    for (; n >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
        n /= 1024;
    snprintf(out, size, "%.1f %s", n, units[i]);
}

void job_view_local(char *out, size_t size, const char *iso)
{
    time_t t = (time_t)job_view_time(iso);
    struct tm tm;
    if (!iso || t < 0 || !localtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, size, "-");
}

/* Each writes one field, or nothing if it is unknown. */
static void format_text(char *out, size_t size, const json_t *row, const char *name)
{
    snprintf(out, size, "%s", field_text(row, name));
}

static void format_integer(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    if (json_is_integer(v))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
}

static void format_loss(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    double x = json_number_value(v);
    if (json_is_number(v)) /* fixed width if possible, so that digits line up */
        snprintf(out, size, fabs(x) >= 0.001 && fabs(x) < 1000 ? "%.4f" : "%.3g", x);
}

static void format_speed(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    double x = json_number_value(v);
    if (json_is_number(v))
        snprintf(out, size, x >= 100 ? "%.0f/s" : "%.3g/s", x);
}

static double number_of(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    return json_is_number(v) ? json_number_value(v) : 0;
}

/* Samples a second where they are known, else steps, else tokens. */
static void format_rate(char *out, size_t size, const json_t *row, const char *name)
{
    (void)name;
    const double step_ms = number_of(row, "step_ms"), tokens = number_of(row, "tokens_per_s");
    if (number_of(row, "samples_per_s") > 0)
        format_speed(out, size, row, "samples_per_s");
    else if (step_ms > 10000)
        snprintf(out, size, "%.3g s/it", step_ms / 1000);
    else if (step_ms > 0)
        snprintf(out, size, "%.3g it/s", 1000 / step_ms);
    else if (tokens > 0)
        snprintf(out, size, "%.0f tok/s", tokens);
}

static void format_seconds(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    if (json_is_number(v))
        job_view_duration(out, size, json_number_value(v));
}

static void format_time(char *out, size_t size, const json_t *row, const char *name)
{
    job_view_local(out, size, json_string_value(json_object_get(row, name)));
}

static void format_bool(char *out, size_t size, const json_t *row, const char *name)
{
    snprintf(out, size, "%s", json_is_true(json_object_get(row, name)) ? "yes" : "no");
}

static void format_status(char *out, size_t size, const json_t *row, const char *name)
{
    (void)name;
    const char *result = field_text(row, "result"), *state = field_text(row, "state");
    bool held = json_is_true(json_object_get(row, "held"));
    if (result[0])
        snprintf(out, size, "%s", result);
    else
        snprintf(out, size, "%s", held && strcmp(state, "pending") == 0 ? "held" : state);
}

/* For a sweep: how many of its members are done. */
static void format_members(char *out, size_t size, const json_t *members)
{
    static const char *const done[] = {"succeeded", "failed", "cancelled"};
    char of[24];
    long long n = 0;
    const int digits = snprintf(of, sizeof(of), "%lld",
                                (long long)json_integer_value(json_object_get(members, "count")));
    for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
        n += json_integer_value(json_object_get(members, done[i]));
    snprintf(out, size, "%*lld/%s", digits, n, of);
}

static void format_progress(char *out, size_t size, const json_t *row, const char *name)
{
    (void)name;
    const json_t *step = json_object_get(row, "step"), *steps = json_object_get(row, "steps");
    char of[24];
    int digits = snprintf(of, sizeof(of), "%lld", (long long)json_integer_value(steps));
    if (json_is_object(json_object_get(row, "members")))
        format_members(out, size, json_object_get(row, "members"));
    else if (json_is_integer(step) && json_integer_value(steps) > 0)
        snprintf(out, size, "%*lld/%s", digits, (long long)json_integer_value(step), of);
    else
        format_integer(out, size, row, "step");
}

/* "lr=0.0003 BATCH=8": the last part of each key. */
static void format_point(char *out, size_t size, const json_t *row, const char *name)
{
    const char *path;
    json_t *value;
    size_t at = 0;
    json_object_foreach (json_object_get(row, name), path, value) {
        const char *leaf = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
        char *text = json_is_string(value) ? NULL
                     : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s=%s", at ? " " : "", leaf,
                                   text ? text : json_is_string(value) ? json_string_value(value) : "?");
        free(text);
    }
    err_make_printable(out);
}

/* "12_3" */
static void format_member(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *sweep = json_object_get(row, "sweep");
    (void)name;
    if (json_is_integer(sweep))
        snprintf(out, size, "%lld_%lld", (long long)json_integer_value(sweep),
                 (long long)json_integer_value(json_object_get(row, "index")));
}

static void format_number(char *out, size_t size, const json_t *row, const char *name)
{
    if (json_is_number(json_object_get(row, name)))
        snprintf(out, size, "%.4g", number_of(row, name));
}

static void format_epoch(char *out, size_t size, const json_t *row, const char *name)
{
    const double epochs = number_of(row, "epochs");
    if (!json_is_number(json_object_get(row, name)))
        return;
    const double epoch = number_of(row, name);
    const size_t n = (size_t)snprintf(out, size, epoch == (double)(int64_t)epoch ? "%.0f" : "%.2f", epoch);
    if (epochs > 0 && n < size)
        snprintf(out + n, size - n, "/%.0f", epochs);
}

/* Duration from the first start to the end, or to now. */
static void format_elapsed(char *out, size_t size, const json_t *row, const char *name)
{
    (void)name;
    double from = job_view_time(json_string_value(json_object_get(row, "started_at")));
    double to = job_view_time(json_string_value(json_object_get(row, "ended_at")));
    if (from >= 0)
        job_view_duration(out, size, (to < 0 ? (double)time(NULL) : to) - from);
}

/* For a job that was over at once it would only show how long an agent takes to start. */
static void format_goodput(char *out, size_t size, const json_t *row, const char *name)
{
    const double from = job_view_time(json_string_value(json_object_get(row, "started_at")));
    const double to = job_view_time(json_string_value(json_object_get(row, "ended_at")));
    const json_t *v = json_object_get(row, name);
    if (json_is_number(v) && (from < 0 || to < 0 || to - from >= 1))
        snprintf(out, size, "%.0f%%", 100 * json_number_value(v));
}

static void format_checkpoint(char *out, size_t size, const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    if (json_is_object(v))
        snprintf(out, size, "step %lld", (long long)json_integer_value(json_object_get(v, "step")));
}

static void format_list(char *out, size_t size, const json_t *row, const char *name)
{
    size_t i, at = 0;
    json_t *v;
    json_array_foreach (json_object_get(row, name), i, v) {
        if (json_is_integer(v))
            at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)json_integer_value(v));
        else
            at += (size_t)snprintf(out + at, size - at, "%s%s", i ? "," : "",
                                   json_is_string(v) ? json_string_value(v) : "?");
        if (at >= size)
            return;
    }
}

/* clang-format off */
static const struct field {
    const char *name, *title;
    format_fn   format;
    bool        right, usual;
    int         spare;
} fields[] = {
    {"id", "ID", format_integer, true, true, 0},
    {"name", "NAME", format_text, false, true, 0},
    {"status", "STATUS", format_status, false, true, 0},
    {"point", "POINT", format_point, false, true, 0},
    {"member", "MEMBER", format_member, false, false, 0},
    {"state", "STATE", format_text, false, false, 0},
    {"result", "RESULT", format_text, false, false, 0},
    {"progress", "PROGRESS", format_progress, true, true, 1},
    {"step", "STEP", format_integer, true, false, 0},
    {"steps", "STEPS", format_integer, true, false, 0},
    {"loss", "LOSS", format_loss, true, true, 3},
    {"speed", "SPEED", format_rate, true, true, 4},
    {"samples_per_s", "SAMPLES", format_speed, true, false, 1},
    {"step_ms", "STEP_MS", format_number, true, false, 1},
    {"tokens_per_s", "TOKENS", format_speed, true, false, 1},
    {"epoch", "EPOCH", format_epoch, true, false, 1},
    {"eta_s", "ETA", format_seconds, true, true, 2},
    {"goodput", "GOODPUT", format_goodput, true, true, 5},
    {"elapsed", "ELAPSED", format_elapsed, true, true, 6},
    {"attempt", "ATTEMPT", format_integer, true, false, 1},
    {"generation", "GENERATION", format_integer, true, false, 1},
    {"phase", "PHASE", format_text, false, false, 1},
    {"agent_channel", "AGENT_CHANNEL", format_text, false, false, 1},
    {"np", "NP", format_integer, true, false, 1},
    {"checkpoint", "CHECKPOINT", format_checkpoint, false, false, 1},
    {"exit_code", "EXIT", format_integer, true, false, 1},
    {"held", "HELD", format_bool, false, false, 1},
    {"priority", "PRIORITY", format_integer, true, false, 1},
    {"after", "AFTER", format_list, false, false, 1},
    {"retry_of", "RETRY_OF", format_integer, true, false, 1},
    {"submitted_at", "SUBMITTED", format_time, false, false, 1},
    {"started_at", "STARTED", format_time, false, false, 1},
    {"ended_at", "ENDED", format_time, false, false, 1},
    {"host", "HOST", format_text, false, true, 7},
    {"gpus", "GPUS", format_text, true, true, 8},
    {"reason", "REASON", format_text, false, true, TABLE_BELOW},
};
/* clang-format on */

enum { FIELDS = sizeof(fields) / sizeof(fields[0]), NAME_LEAST = 12 };

const char *job_view_column(int i)
{
    return i < FIELDS ? fields[i].name : NULL;
}

static const struct field *find_field(const char *name, size_t size)
{
    for (int i = 0; i < FIELDS; i++)
        if (strlen(fields[i].name) == size && memcmp(fields[i].name, name, size) == 0)
            return &fields[i];
    return NULL;
}

static int no_field(const char *name, size_t size, struct err *err)
{
    char list[400] = "", word[40], near[64] = "";
    size_t at = 0;
    int best = 3;
    snprintf(word, sizeof(word), "%.*s", (int)size, name);
    for (int i = 0; i < FIELDS; i++) {
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", fields[i].name);
        int d = spec_distance(fields[i].name, word);
        if (d < best) {
            best = d;
            snprintf(near, sizeof(near), "; did you mean %s?", fields[i].name);
        }
    }
    return err_set(err, ERR_USAGE, "unknown field \"%s\"%s%s", word,
                   near[0] ? near : "; fields: ", near[0] ? "" : list);
}

/* Of sweeps, other machines and GPUs: not shown where no job has one. */
static bool is_empty(const struct field *f, const json_t *jobs)
{
    size_t i;
    const json_t *row;
    if (f->format != format_point && strcmp(f->name, "host") != 0 && strcmp(f->name, "gpus") != 0)
        return false;
    json_array_foreach (jobs, i, row) {
        const json_t *v = json_object_get(row, f->name);
        if (json_is_string(v) || json_object_size(v) > 0)
            return false;
    }
    return true;
}

/* Parses the list of fields to show; at most FIELDS. */
static int choose(const struct field **chosen, const json_t *jobs, const char *names, struct err *err)
{
    int n = 0;
    if (!names) {
        for (int i = 0; i < FIELDS; i++)
            if (fields[i].usual && !is_empty(&fields[i], jobs))
                chosen[n++] = &fields[i];
        return n;
    }
    for (const char *p = names; p; p = strchr(p, ',')) {
        p += *p == ',';
        size_t size = strcspn(p, ",");
        const struct field *f = find_field(p, size);
        if (!f)
            return no_field(p, size, err);
        if (n == FIELDS)
            return err_set(err, ERR_USAGE, "too many fields: at most %d can be shown", FIELDS);
        chosen[n++] = f;
    }
    return n;
}

static void format(char *out, size_t size, const json_t *row, const struct field *f)
{
    out[0] = '\0';
    if (f)
        f->format(out, size, row, f->name);
    if (!out[0])
        snprintf(out, size, "-");
}

void job_view_field(char *out, size_t size, const json_t *row, const char *name)
{
    format(out, size, row, find_field(name, strlen(name)));
}

void job_view_title(char *out, size_t size, const json_t *row)
{
    snprintf(out, size, "job %lld (%s)",
             (long long)json_integer_value(json_object_get(row, "id")), field_text(row, "name"));
}

enum terminal_style job_view_style(const json_t *row)
{
    const char *result = field_text(row, "result"), *state = field_text(row, "state");
    if (strcmp(result, "failed") == 0)
        return STYLE_RED;
    if (strcmp(result, "succeeded") == 0)
        return STYLE_GREEN;
    if (strcmp(result, "cancelled") == 0)
        return STYLE_DIM;
    return strcmp(state, "recovering") == 0 ? STYLE_YELLOW : STYLE_PLAIN;
}

/* True if the job ended as intended: then its reason is not worth a line on the screen. */
static bool ended_plainly(const json_t *row)
{
    return strcmp(field_text(row, "result"), "succeeded") == 0 || strcmp(field_text(row, "reason"), "on request") == 0;
}

int job_view_table(const struct terminal *t, const json_t *jobs, const char *names, struct err *err)
{
    const struct field *chosen[FIELDS];
    struct table_column columns[FIELDS];
    int n = choose(chosen, jobs, names, err), rows = (int)json_array_size(jobs);
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++)
        columns[i] = (struct table_column){chosen[i]->title, chosen[i]->right,
                                           names ? 0 : chosen[i]->spare,
                                           strcmp(chosen[i]->name, "name") == 0 ? NAME_LEAST : 0};
    char (*text)[JOB_CELL] = calloc((size_t)rows * (size_t)n + 1, sizeof(*text));
    const char **cells = calloc((size_t)rows * (size_t)n + 1, sizeof(*cells));
    enum terminal_style *styles = calloc((size_t)rows + 1, sizeof(*styles));
    int rc = -1;
    if (!text || !cells || !styles) {
        err_set(err, ERR_MEMORY, "out of memory while drawing %d jobs", rows);
        goto out;
    }
    for (int r = 0; r < rows; r++) {
        const json_t *row = json_array_get(jobs, (size_t)r);
        styles[r] = job_view_style(row);
        for (int i = 0; i < n; i++) {
            format(text[r * n + i], JOB_CELL, row, chosen[i]);
            cells[r * n + i] = text[r * n + i];
        }
        if (!names && t->width && ended_plainly(row))
            cells[r * n + n - 1] = "-";
    }
    table_print(t, columns, n, cells, styles, rows);
    rc = 0;
out:
    free(text);
    free(cells);
    free(styles);
    return rc;
}

void job_view_heading(const struct terminal *t, const json_t *row)
{
    char title[JOB_CELL], status[JOB_CELL];
    job_view_title(title, sizeof(title), row);
    job_view_field(status, sizeof(status), row, "status");
    fprintf(t->file, "%s%s%s: %s%s%s\n", terminal_style(t, STYLE_BOLD), title, terminal_style(t, STYLE_PLAIN),
            terminal_style(t, job_view_style(row)), status, terminal_style(t, STYLE_PLAIN));
}

void job_view_nccl(char *out, size_t size, const json_t *plan)
{
    const json_t *nccl = json_object_get(plan, "nccl");
    const char *text = json_string_value(json_object_get(nccl, "text"));
    snprintf(out, size, "%s%s", !text ? "" : json_is_true(json_object_get(nccl, "expected"))
             ? "as predicted: " : "not as predicted: ", text ? text : "");
}
