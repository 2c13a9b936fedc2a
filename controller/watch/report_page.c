/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.c - see report_page.h; controller/dashboard/report/report.js shows what is written here */
#include "controller/watch/report_page.h"

#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/redact.h"
#include "controller/base/client.h"
#include "controller/base/utc.h"
#include "controller/dashboard/assets.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { EVENTS = 2000, RANKS = 16, TAIL = 16384, PICTURE_MAX = 4 * 1024 * 1024, POINTS = 10000 };

struct page {
    struct client       *client;
    const char          *job;
    const struct redact *redact;
    struct err          *err;
    json_t              *saved;     /* what saved.js and report.js read */
};

/* Keeps an answer, or a part of it, under `key`, without secrets. Takes the reference of `value`. */
static int keep(struct page *p, const char *key, json_t *value)
{
    json_t *clean = value ? redact_tree(p->redact, value, NULL) : NULL;
    json_decref(value);
    return json_object_set_new(p->saved, key, clean) == 0 ? 0 : err_set(p->err, ERR_MEMORY, "out of memory for a report");
}

static int ask_events(struct page *p)
{
    json_t *all = json_array();
    long long after = 0;
    for (size_t n = EVENTS; n == EVENTS;) {
        json_t *answer = NULL;
        if (client_get(p->client, &answer, p->err, "/v1/jobs/%s/events?after=%lld&limit=%d", p->job, after, EVENTS) < 0) {
            json_decref(all);
            return -1;
        }
        json_t *events = json_object_get(answer, "events");
        n = json_array_size(events);
        after = field_int(json_array_get(events, n - 1), "seq", 0);
        json_array_extend(all, events);
        json_decref(answer);
    }
    return keep(p, "events", all);
}

static int ask_curves(struct page *p)
{
    json_t *answer = NULL;
    if (client_get(p->client, &answer, p->err, "/v1/jobs/%s/metrics?names=loss,samples_per_s,grad_norm,lr,step_ms,data_ms,"
                   "forward_ms,backward_ms,reduce_ms,optimizer_ms,time&limit=%d", p->job, POINTS) < 0)
        return -1;
    json_object_set(p->saved, "curves", json_object_get(answer, "curves"));
    json_decref(answer);
    return 0;
}

/* The ends of the logs; a rank without one is no failure. */
static int ask_logs(struct page *p, const json_t *row)
{
    const long long np = field_int(row, "np", 1);
    json_t *logs = json_array();
    for (long long rank = 0; rank < np && rank < RANKS && field_int(row, "attempt", 0) > 0; rank++) {
        json_t *answer = NULL;
        struct err none = { 0 };
        client_get(p->client, &answer, &none, "/v1/jobs/%s/logs?rank=%lld&offset=-%d&limit=%d", p->job, rank, TAIL, TAIL);
        json_array_append_new(logs, answer ? answer : json_null());
    }
    return keep(p, "logs", logs);
}

/* ---- pictures ---- */

static json_t *read_picture(const char *path)
{
    struct err unread = { 0 };
    struct stat st;
    const int fd = safe_open(path, O_RDONLY, &unread);
    const bool fits = fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= PICTURE_MAX;
    unsigned char *data = fits ? malloc((size_t)st.st_size + 1) : NULL;
    char *text = fits ? malloc((size_t)st.st_size / 3 * 4 + 5) : NULL;
    const ssize_t n = data && text ? pread(fd, data, (size_t)st.st_size, 0) : -1;
    json_t *out = NULL;
    if (n > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0 && EVP_EncodeBlock((unsigned char *)text, data, (int)n) > 0)
        out = json_text(text);
    free(data);
    free(text);
    if (fd >= 0)
        close(fd);
    return out;
}

/* The first and the newest: before and after. */
static void add_pictures(struct page *p)
{
    const json_t *shown[2] = { NULL, NULL };
    json_t *event, *samples = json_object();
    size_t i;
    json_array_foreach (json_object_get(p->saved, "events"), i, event)
        if (strcmp(field_text(event, "kind"), "sample") == 0)
            shown[shown[0] != NULL] = json_object_get(event, "body");
    for (i = 0; i < 2 && shown[i]; i++) {
        char step[32];
        snprintf(step, sizeof(step), "%lld", (long long)field_int(shown[i], "step", 0));
        json_object_set_new(samples, step, read_picture(field_text(shown[i], "path")));
    }
    json_object_set_new(p->saved, "samples", samples);
}

/* ---- the file ---- */

static void put(struct buf *out, const char *text)
{
    buf_append(out, text, strlen(text));
}

/* In an element of script nothing but "<" has a meaning to the parser of HTML. */
static void put_json(struct buf *out, const char *id, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    buf_print(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, "<");
        buf_append(out, at, (size_t)(end - at));
        put(out, *end ? "\\u003c" : "");
    }
    put(out, "</script>\n");
    free(text);
}

static void put_styles(struct buf *out)
{
    static const char *const styles[] = { "uplot.css", "style.css", "pages.css" };
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
        put(out, assets_find(styles[i])->text);
    put(out, ".crumbs, .head .end { display: none; }");
}

static void put_modules(struct buf *out)
{
    json_t *modules = json_object();
    const struct asset *asset;
    for (size_t i = 0; (asset = assets_at(i)) != NULL; i++)
        if (strstr(asset->name, ".js"))
            json_object_set_new(modules, asset->name, json_text(asset->text));
    json_object_set_new(modules, assets_saved.name, json_text(assets_saved.text));
    put_json(out, "modules", modules);
    json_decref(modules);
}

static void put_page(struct buf *out, const struct page *p)
{
    put(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src blob:\"><title>jobctl</title>\n<style>");
    put_styles(out);
    put(out, "</style></head>\n<body><main class=\"page\" id=\"main\" tabindex=\"-1\"></main><noscript>This report needs "
        "JavaScript.</noscript>\n");
    put_modules(out);
    put_json(out, "saved", p->saved);
    buf_print(out, "<script>%s</script></body></html>\n", assets_report.text);
}

static int ask(struct page *p)
{
    json_t *all = NULL, *why = NULL;
    if (client_get(p->client, &all, p->err, "/v1/jobs/%s?plan=1", p->job) < 0 || keep(p, "all", all) < 0 ||
        client_get(p->client, &why, p->err, "/v1/jobs/%s/why", p->job) < 0 || keep(p, "why", why) < 0)
        return -1;
    const json_t *row = json_object_get(json_object_get(p->saved, "all"), "job");
    if (ask_events(p) < 0 || ask_curves(p) < 0 || ask_logs(p, row) < 0)
        return -1;
    add_pictures(p);
    return json_object_set_new(p->saved, "at", utc_json((int64_t)time(NULL) * 1000));
}

char *report_page_make(struct client *client, const char *job, const struct redact *redact, struct err *err)
{
    struct page p = { .client = client, .job = job, .redact = redact, .err = err, .saved = json_object() };
    struct buf out = { 0 };
    char *text = NULL;
    if (ask(&p) == 0) {
        put_page(&out, &p);
        if (!(text = buf_take(&out)))
            err_set(err, ERR_MEMORY, "out of memory for a report");
    }
    json_decref(p.saved);
    buf_fini(&out);
    return text;
}
