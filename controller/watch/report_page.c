/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.c - see report_page.h */
#include "controller/watch/report_page.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/redact.h"
#include "controller/base/client.h"
#include "controller/watch/report_curves.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/safe_open.h"

enum { EVENTS = 2000, RANKS = 16, TAIL = 16384, PICTURE_MAX = 4 * 1024 * 1024, POINTS = 2000 };

struct page {
    struct client       *client;
    const char          *job;
    const struct redact *redact;
    struct err          *err;
    struct buf           out;
    json_t              *all, *why, *events, *curves;
};

static const char style[] =
    ":root{color-scheme:light dark;--t:light-dark(#171a1f,#e9ebee);--d:light-dark(#626a76,#8f98a4);--l:light-dark(#e3e6eb,#272c33);"
    "--p:light-dark(#fff,#15181c);--a:light-dark(#2f55d4,#8fabff)}"
    "body{margin:0 auto;max-width:70rem;padding:1.5rem;background:light-dark(#f6f7f9,#0e1013);color:var(--t);font:14px/1.5 "
    "system-ui,sans-serif;font-variant-numeric:tabular-nums}"
    "section{background:var(--p);border:1px solid var(--l);border-radius:10px;padding:1rem;margin:1rem 0;overflow-x:auto}"
    "h1{font-size:1.6rem;margin:0}h2{font-size:1rem;margin:0 0 .6rem}.why{font-size:1.1rem;white-space:pre-line}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:start;padding:.2rem .8rem .2rem 0;border-bottom:1px solid "
    "var(--l);font-weight:400;vertical-align:top;overflow-wrap:anywhere}th{color:var(--d)}"
    "pre{margin:0;font:12px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;max-height:30rem;overflow:auto}"
    "svg{display:block;width:100%;margin:.2rem 0}text{font:12px system-ui,sans-serif;fill:var(--d)}.now{fill:var(--t);font-weight:600}"
    ".tick{text-anchor:end;font-size:10px}.grid{stroke:var(--l)}.curve{fill:none;stroke:var(--a);stroke-width:1.5}"
    ".phase0{--p:light-dark(#12906d,#1fa67f)}.phase1{--p:light-dark(#4468e0,#6b8cf5)}.phase2{--p:light-dark(#9fb4f3,#3f549c)}"
    ".phase3{--p:light-dark(#e39a00,#e8a91c)}.phase4{--p:light-dark(#c27aa8,#cc79a7)}path[class^=phase]{fill:var(--p)}"
    ".phases i{display:inline-block;width:.7em;height:.7em;margin:0 .4em 0 1em;background:var(--p)}"
    ".attempt{fill:light-dark(#c3c8d0,#56606e)}.generation{fill:light-dark(#9fb4f3,#4762cb)}.incident{fill:light-dark(#b23c0b,#ff8f5a)}"
    ".saved{fill:none;stroke:var(--t)}.ends{display:flex;justify-content:space-between;color:var(--d);margin:0 0 0 4.5rem}"
    "td:has(progress){width:60%}progress{width:100%;accent-color:light-dark(#4468e0,#6b8cf5)}.dim{color:var(--d)}img{max-width:100%;image-rendering:pixelated}"
    "details{margin:.4rem 0}@media print{pre{max-height:none}}";

/* ---- text ---- */

static void put_markup(struct page *p, const char *text)
{
    buf_append(&p->out, text, strlen(text));
}

/* Text, never markup, without secrets. */
static void put_text(struct page *p, const char *text)
{
    char *clean = redact_text(p->redact, text ? text : "", NULL);
    for (const char *c = clean ? clean : ""; *c; c++) {
        const char *as = *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : *c == '&' ? "&amp;" : *c == '"' ? "&quot;" : NULL;
        if (as)
            put_markup(p, as);
        else
            buf_append(&p->out, c, 1);
    }
    free(clean);
}

/* A value of any type as text; objects are redacted as trees. */
static void put_value(struct page *p, const json_t *value)
{
    char number[40];
    if (json_is_string(value)) {
        put_text(p, json_string_value(value));
    } else if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
        put_markup(p, number);
    } else if (json_is_real(value)) {
        snprintf(number, sizeof(number), "%.4g", json_real_value(value));
        put_markup(p, number);
    } else if (value && !json_is_null(value)) {
        json_t *clean = redact_tree(p->redact, value, NULL);
        char *text = clean ? json_dumps(clean, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        put_text(p, text);
        free(text);
        json_decref(clean);
    }
}

static void put_heading(struct page *p, const char *title)
{
    put_markup(p, "<section><h2>");
    put_markup(p, title);
    put_markup(p, "</h2>");
}

/* A row of a table from the keys of an object, separated by spaces. */
static void put_row(struct page *p, const json_t *o, const char *keys)
{
    char key[32];
    put_markup(p, "<tr>");
    for (const char *k = keys; *k; k += strcspn(k, " "), k += strspn(k, " ")) {
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(k, " "), k);
        put_markup(p, "<td>");
        put_value(p, json_object_get(o, key));
        put_markup(p, "</td>");
    }
    put_markup(p, "</tr>");
}

static void put_table(struct page *p, const json_t *rows, const char *keys)
{
    size_t i;
    json_t *row;
    char head[32];
    put_markup(p, "<table><tr>");
    for (const char *k = keys; *k; k += strcspn(k, " "), k += strspn(k, " ")) {
        snprintf(head, sizeof(head), "%.*s", (int)strcspn(k, " "), k);
        put_markup(p, "<th scope=\"col\">");
        put_text(p, head);
        put_markup(p, "</th>");
    }
    put_markup(p, "</tr>");
    json_array_foreach (rows, i, row)
        put_row(p, row, keys);
    put_markup(p, "</table>");
}

/* ---- parts ---- */

static void put_head(struct page *p)
{
    const json_t *row = json_object_get(p->all, "job");
    put_markup(p, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,"
               "initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
               "'unsafe-inline'; img-src data:\"><title>");
    put_text(p, field_text(row, "name"));
    put_markup(p, "</title><style>");
    put_markup(p, style);
    put_markup(p, "</style></head><body><main><h1>");
    put_text(p, field_text(row, "name"));
    put_markup(p, "</h1><p class=\"dim\">job ");
    put_value(p, json_object_get(row, "id"));
    put_markup(p, ", ");
    put_text(p, field_text(row, "result")[0] ? field_text(row, "result") : field_text(row, "state"));
    put_markup(p, ", submitted ");
    put_value(p, json_object_get(row, "submitted_at"));
    put_markup(p, ", jobctl " JOBCTL_VERSION "</p>");
}

static void put_why(struct page *p)
{
    size_t i;
    json_t *line;
    put_heading(p, "Why");
    put_markup(p, "<p class=\"why\">");
    put_text(p, field_text(p->why, "text"));
    put_markup(p, "</p><details open><summary>Evidence</summary><pre>");
    json_array_foreach (json_object_get(p->why, "evidence"), i, line) {
        put_value(p, json_is_object(line) ? json_object_get(line, "text") : line);
        put_markup(p, "\n");
    }
    put_markup(p, "</pre></details><table><tr><th>step</th><th>of</th><th>loss</th><th>samples/s</th><th>goodput</th><th>attempts</th>"
               "<th>ranks</th></tr>");
    put_row(p, json_object_get(p->all, "job"), "step steps loss samples_per_s goodput attempt np");
    put_markup(p, "</table></section>");
}

static void put_story(struct page *p)
{
    put_heading(p, "The story");
    report_curves_write(&p->out, p->all, p->curves, p->events);
    put_markup(p, "</section>");
}

static void put_time(struct page *p)
{
    const json_t *spent = json_object_get(p->all, "goodput");
    const double whole = json_number_value(json_object_get(spent, "rank_s"));
    const char *bucket;
    json_t *value;
    put_heading(p, "Where the time went");
    put_markup(p, "<table>");
    json_object_foreach ((json_t *)(uintptr_t)spent, bucket, value) {
        char text[200];
        const double s = json_number_value(value);
        if (strcmp(bucket, "rank_s") == 0)
            continue;
        snprintf(text, sizeof(text), "<tr><th scope=\"row\">%.20s</th><td><progress max=\"%.3f\" value=\"%.3f\" "
                 "aria-label=\"%.20s\"></progress></td><td>%.1f s</td></tr>", bucket, whole > 0 ? whole : 1, s, bucket, s);
        put_markup(p, text);
    }
    put_markup(p, "<tr><th scope=\"row\">sum, rank time</th><td></td><td>");
    put_value(p, json_object_get(spent, "rank_s"));
    put_markup(p, " s</td></tr></table></section>");
}

static void put_attempts(struct page *p)
{
    size_t i;
    json_t *attempt;
    put_heading(p, "Attempts and generations");
    json_array_foreach (json_object_get(p->all, "attempts"), i, attempt) {
        put_markup(p, "<p>attempt ");
        put_value(p, json_object_get(attempt, "attempt"));
        put_markup(p, ": ");
        put_text(p, field_text(attempt, "text"));
        put_markup(p, "</p>");
        put_table(p, json_object_get(attempt, "generations"),
                  "generation np resume_step step cause text started_at ended_at");
        const json_t *changes = json_object_get(json_object_get(attempt, "plan"), "changes");
        if (json_array_size(changes) > 0) {
            put_markup(p, "<p>plan: ");
            put_value(p, changes);
            put_markup(p, "</p>");
        }
    }
    put_markup(p, "</section>");
    put_heading(p, "Checkpoints");
    put_table(p, json_object_get(p->all, "checkpoints"), "step at bytes trust digest");
    put_markup(p, "</section>");
}

static void put_tree(struct page *p, const char *title, const json_t *value)
{
    json_t *clean = value && !json_is_null(value) ? redact_tree(p->redact, value, NULL) : NULL;
    char *text = clean ? json_dumps(clean, JSON_INDENT(1)) : NULL;
    if (text) {
        put_markup(p, "<details><summary>");
        put_markup(p, title);
        put_markup(p, "</summary><pre>");
        put_text(p, text);
        put_markup(p, "</pre></details>");
    }
    free(text);
    json_decref(clean);
}

static void put_spec(struct page *p)
{
    const json_t *plan = json_object_get(p->all, "plan");
    put_heading(p, "Spec, plan and code");
    put_tree(p, "spec", json_object_get(p->all, "spec"));
    put_tree(p, "code", json_object_get(p->all, "code"));
    if (plan) {
        put_markup(p, "<p>");
        put_text(p, field_text(plan, "why"));
        put_markup(p, "</p>");
        put_table(p, json_object_get(plan, "env"), "name value why fact");
    }
    put_markup(p, "</section>");
}

/* ---- pictures ---- */

static void put_base64(struct page *p, const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const unsigned b = (unsigned)data[i] << 16 | (i + 1 < size ? (unsigned)data[i + 1] << 8 : 0) |
                           (i + 2 < size ? data[i + 2] : 0);
        const char four[5] = { digits[b >> 18], digits[b >> 12 & 63], i + 1 < size ? digits[b >> 6 & 63] : '=',
                               i + 2 < size ? digits[b & 63] : '=', '\0' };
        put_markup(p, four);
    }
}

static void put_picture(struct page *p, const json_t *body)
{
    struct err unread = { 0 };
    struct stat st;
    const int fd = safe_open(field_text(body, "path"), O_RDONLY, &unread);
    unsigned char *data = fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= PICTURE_MAX ? malloc((size_t)st.st_size + 8) : NULL;
    const ssize_t n = data ? pread(fd, data, (size_t)st.st_size, 0) : -1;
    if (n > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) {
        put_markup(p, "<p class=\"dim\">step ");
        put_value(p, json_object_get(body, "step"));
        put_markup(p, "</p><img alt=\"pictures that the training drew\" src=\"data:image/png;base64,");
        put_base64(p, data, (size_t)n);
        put_markup(p, "\">");
    }
    free(data);
    if (fd >= 0)
        close(fd);
}

/* The first and the newest: before and after. */
static void put_pictures(struct page *p)
{
    const json_t *first = NULL, *last = NULL;
    size_t i;
    json_t *event;
    json_array_foreach (p->events, i, event) {
        if (strcmp(field_text(event, "kind"), "sample") != 0)
            continue;
        last = json_object_get(event, "body");
        first = first ? first : last;
    }
    if (!last)
        return;
    put_heading(p, "Samples");
    if (first != last)
        put_picture(p, first);
    put_picture(p, last);
    put_markup(p, "</section>");
}

/* ---- what is asked for ---- */

static void put_logs(struct page *p)
{
    const json_t *row = json_object_get(p->all, "job");
    const long long np = field_int(row, "np", 1);
    put_heading(p, "Ends of the logs");
    for (long long rank = 0; rank < np && rank < RANKS && field_int(row, "attempt", 0) > 0; rank++) {
        json_t *answer = NULL;
        struct err none = { 0 };
        char title[40];
        if (client_get(p->client, &answer, &none, "/v1/jobs/%s/logs?rank=%lld&offset=-%d&limit=%d", p->job, rank, TAIL,
                       TAIL) == 0) {
            snprintf(title, sizeof(title), "<details%s><summary>rank %lld", rank ? "" : " open", rank);
            put_markup(p, title);
            put_markup(p, "</summary><pre>");
            put_text(p, field_text(answer, "data"));
            put_markup(p, "</pre></details>");
        }
        json_decref(answer);
    }
    put_markup(p, "</section>");
}

static int ask_events(struct page *p)
{
    long long after = 0;
    p->events = json_array();
    for (size_t n = EVENTS; n == EVENTS;) {
        json_t *answer = NULL;
        if (client_get(p->client, &answer, p->err, "/v1/jobs/%s/events?after=%lld&limit=%d", p->job, after, EVENTS) < 0)
            return -1;
        const json_t *events = json_object_get(answer, "events");
        n = json_array_size(events);
        after = field_int(json_array_get(events, n - 1), "seq", 0);
        json_array_extend(p->events, (json_t *)(uintptr_t)events);
        json_decref(answer);
    }
    return 0;
}

static int ask_curves(struct page *p)
{
    static const char *const names[] = { "loss", "samples_per_s", "grad_norm", "lr", "step_ms", "data_ms", "forward_ms",
                                         "backward_ms", "reduce_ms", "optimizer_ms", "time" };
    p->curves = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *answer = NULL;
        if (client_get(p->client, &answer, p->err, "/v1/jobs/%s/metrics?name=%s&limit=%d", p->job, names[i], POINTS) < 0)
            return -1;
        json_object_set(p->curves, names[i], json_object_get(answer, "points"));
        json_decref(answer);
    }
    return 0;
}

static void put_all(struct page *p)
{
    put_head(p);
    put_why(p);
    put_story(p);
    put_time(p);
    put_pictures(p);
    put_attempts(p);
    put_spec(p);
    put_heading(p, "What happened");
    put_table(p, p->events, "at kind text");
    put_markup(p, "</section>");
    put_logs(p);
    put_markup(p, "</main></body></html>\n");
}

char *report_page_make(struct client *client, const char *job, const struct redact *redact, struct err *err)
{
    struct page p = { .client = client, .job = job, .redact = redact, .err = err };
    char *text = NULL;
    if (client_get(client, &p.all, err, "/v1/jobs/%s?plan=1", job) == 0 &&
        client_get(client, &p.why, err, "/v1/jobs/%s/why", job) == 0 && ask_events(&p) == 0 && ask_curves(&p) == 0) {
        put_all(&p);
        if (!(text = buf_take(&p.out)))
            err_set(err, ERR_MEMORY, "out of memory for a report");
    }
    json_decref(p.all);
    json_decref(p.why);
    json_decref(p.events);
    json_decref(p.curves);
    buf_fini(&p.out);
    return text;
}
