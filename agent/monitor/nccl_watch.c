/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_watch.c - see nccl_watch.h */
#include "agent/monitor/nccl_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/monitor/nccl_log.h"
#include "engine/base/buf.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/base/safe_open.h"

enum { READ_MOST = 1 << 20, LINE = 1024, QUIET_MS = 3000, WARNINGS = 4096, TAIL = 8192 };

#define FILES "nccl."

struct partial {
    char   text[LINE];
    size_t size;
};

struct nccl_watch {
    const json_t   *plan, *facts;
    char dir[PATH_MAX];      /* "" = NCCL logs to the ranks' output */
    int np, first;           /* ranks on this node, and the lowest rank number */
    struct partial *partial; /* per rank */
    struct nccl_log said;    /* parsed from the output */
    int64_t size;            /* total size of the log, and when it last grew */
    int64_t         changed_ms;
    bool            done;
    json_t         *told;
};

json_t *nccl_watch_place(const char *run_dir)
{
    return strchr(run_dir, '%') ? NULL : json_text_f("%s/" FILES "%%h.%%p", run_dir);
}

struct nccl_watch *nccl_watch_create(const json_t *plan, const json_t *facts)
{
    const char *file = plan_env(plan, "NCCL_DEBUG_FILE"), *ours = field_text(facts, "nccl_log");
    const char *debug = plan_env(plan, "NCCL_DEBUG");
    const int np = (int)json_array_size(json_object_get(plan, "ranks"));
    const json_t *first = json_array_get(json_object_get(plan, "ranks"), 0);
    if (np * json_integer_value(json_object_get(plan, "nodes")) < 2 || !field_text(first, "gpu")[0])
        return NULL;
    struct nccl_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    *w = (struct nccl_watch){.plan = plan, .facts = facts, .np = np,
                             .first = (int)json_integer_value(json_object_get(first, "rank"))};
    nccl_log_init(&w->said);
    if (file && strcmp(file, ours) == 0)
        snprintf(w->dir, sizeof(w->dir), "%.*s", (int)(strrchr(ours, '/') - ours), ours);
    else if (!debug || strcmp(debug, "WARN") != 0)
        w->partial = calloc((size_t)np, sizeof(*w->partial));
    return w;
}

void nccl_watch_destroy(struct nccl_watch *w)
{
    if (!w)
        return;
    json_decref(w->told);
    free(w->partial);
    free(w);
}

/* --- log files ------------------------------------------------------------------------------- */

/* Calls `each` for every log file; `each` may remove it. */
static void for_files(const struct nccl_watch *w, void (*each)(const char *path, void *arg), void *arg)
{
    char path[PATH_MAX];
    DIR *d = w->dir[0] ? opendir(w->dir) : NULL;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, FILES, strlen(FILES)) == 0 &&
            (size_t)snprintf(path, sizeof(path), "%s/%s", w->dir, e->d_name) < sizeof(path))
            each(path, arg);
    if (d)
        closedir(d);
}

static void add_size(const char *path, void *arg)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        *(int64_t *)arg += st.st_size;
}

static void remove_it(const char *path, void *arg)
{
    (void)arg;
    unlink(path);
}

static void read_it(const char *path, void *arg)
{
    char line[LINE];
    long left = READ_MOST;
    FILE *f = safe_open_stream(path, NULL);
    while (f && left > 0 && fgets(line, sizeof(line), f)) {
        left -= (long)strlen(line);
        nccl_log_line(arg, line);
    }
    if (f)
        fclose(f);
}

struct warnings {
    char   text[WARNINGS];
    size_t size;
};

/* Reads the end of a file: the lines that led to a failure come last. */
static void read_warnings(const char *path, void *arg)
{
    struct warnings *all = arg;
    char line[LINE];
    FILE *f = safe_open_stream(path, NULL);
    if (f && fseek(f, -TAIL, SEEK_END) < 0)
        rewind(f);
    while (f && fgets(line, sizeof(line), f)) {
        const size_t n = strcspn(line, "\n");
        if (!strstr(line, "NCCL WARN") || all->size + n + 2 > sizeof(all->text))
            continue;
        line[n] = '\0';
        all->size += (size_t)snprintf(all->text + all->size, sizeof(all->text) - all->size, "%s\n", line);
    }
    if (f)
        fclose(f);
}

const char *nccl_watch_evidence(struct nccl_watch *w, const char *lines)
{
    static struct buf all;
    static struct warnings warnings;
    warnings = (struct warnings){.size = 0};
    if (w)
        for_files(w, read_warnings, &warnings);
    if (warnings.size == 0)
        return lines;
    buf_fini(&all);
    buf_init(&all);
    buf_print(&all, "%s%s", warnings.text, lines ? lines : "");
    return all.data ? all.data : lines;
}

/* --- periodic check -------------------------------------------------------------------------- */

void nccl_watch_begin(struct nccl_watch *w)
{
    if (!w)
        return;
    for_files(w, remove_it, NULL);
    nccl_log_init(&w->said);
    w->size = 0;
    w->done = false;
    for (int i = 0; w->partial && i < w->np; i++)
        w->partial[i].size = 0;
}

void nccl_watch_output(struct nccl_watch *w, int rank, const char *bytes, size_t size)
{
    if (!w || !w->partial || w->done || rank < w->first || rank >= w->first + w->np)
        return;
    struct partial *p = &w->partial[rank - w->first];
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n') {
            if (p->size < sizeof(p->text) - 1)
                p->text[p->size++] = bytes[i];
            continue;
        }
        p->text[p->size] = '\0';
        p->size = 0;
        nccl_log_line(&w->said, p->text);
    }
}

json_t *nccl_watch_look(struct nccl_watch *w, int64_t now_ms)
{
    struct nccl_log log;
    int64_t size = 0;
    if (!w || w->done)
        return NULL;
    for_files(w, add_size, &size);
    size += w->partial ? w->said.pairs + w->said.channels + 1 : 0; /* channels -1: not known */
    if (size == 0 || size != w->size) {
        w->size = size;
        w->changed_ms = now_ms;
        return NULL;
    }
    if (now_ms - w->changed_ms < QUIET_MS)
        return NULL;
    log = w->said;
    for_files(w, read_it, &log);
    if (!nccl_log_is_telling(&log))
        return NULL;
    w->done = true;
    json_t *body = nccl_log_judge(&log, w->plan, w->facts);
    if (body && w->told && json_equal(body, w->told)) {
        json_decref(body);
        return NULL;
    }
    json_decref(w->told);
    w->told = body ? json_incref(body) : NULL;
    return body;
}
