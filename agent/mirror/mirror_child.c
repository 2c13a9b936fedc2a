/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_child.c - see mirror_child.h */
#include "agent/mirror/mirror_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { PATH_SIZE = 4096, SLOW_MS = 3000, UNREADY_MS = 2000 };

struct mirror_child {
    struct mirror_hooks hooks;
    struct subprocess  *process; /* NULL: ended */
    int          history;  /* RUN_DIR/history.jsonl */
    json_t *who;           /* first fields of every history line */
    bool         told;     /* ready() was called */
    bool         finishing, told_slow;
    int64_t      finish_ms, wait_ms; /* when it was told to finish, and its limit */
    char        *there;
};

/* --- its description ---------------------------------------------------------------------- */

/* The spec for another machine: paths inside this machine's state directory are replaced. */
static json_t *portable_spec(const json_t *launch)
{
    json_t *spec = json_deep_copy(json_object_get(launch, "spec"));
    json_t *checkpoint = json_object_get(spec, "checkpoint");
    const char *job_dir = field_text(launch, "job_dir"), *dir = field_text(checkpoint, "dir");
    if (job_dir[0] && strncmp(dir, job_dir, strlen(job_dir)) == 0)
        json_object_set_new(checkpoint, "dir", json_text("auto"));
    return spec;
}

json_t *mirror_child_task(const json_t *launch, const char *host)
{
    const json_t *checkpoint = json_object_get(json_object_get(launch, "spec"), "checkpoint");
    const char *mirror = field_text(checkpoint, "mirror"), *origin = field_text(checkpoint, "origin");
    if (!mirror[0])
        return NULL;
    return json_make("{s:s, s:o, s:s, s:O, s:s, s:{s:i, s:s, s:s, s:O, s:s, s:o}}", "here",
                     field_text(launch, "ckpt_dir"), "there",
                     json_text_f("%s/%s", mirror, field_text(launch, "name")), "job_dir",
                     field_text(launch, "job_dir"), "keep", json_object_get(checkpoint, "keep"),
                     "origin", origin, "job", "schema", 1, "origin", origin, "name",
                     field_text(launch, "name"), "job", json_object_get(launch, "job"), "host", host,
                     "spec", portable_spec(launch));
}

static int write_task(const char *path, const json_t *task, struct err *err)
{
    int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && json_file_put(task, fd, JSON_COMPACT) == 0
                 ? 0
                 : err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

/* --- its output --------------------------------------------------------------------------- */

static void tell_ready(struct mirror_child *c, const char *refusal)
{
    if (c->told)
        return;
    c->told = true;
    c->hooks.ready(c->hooks.arg, refusal);
}

static json_t *copy_body(const json_t *line)
{
    json_t *body = json_copy((json_t *)(uintptr_t)line);
    json_object_del(body, "ev");
    return body;
}

static void take_object(struct mirror_child *c, const json_t *line)
{
    const char *ev = field_text(line, "ev"), *text = field_text(line, "text");
    if (strcmp(ev, "ready") == 0)
        tell_ready(c, NULL);
    else if (strcmp(ev, "refused") == 0)
        tell_ready(c, text);
    else if (strcmp(ev, "lost") == 0)
        c->hooks.lost(c->hooks.arg, text);
    else if (strcmp(ev, "warning") == 0)
        c->hooks.event(c->hooks.arg, ev, json_make("{s:n, s:s}", "rank", "text", text));
    else if (strcmp(ev, "mirrored") == 0 || strcmp(ev, "restored") == 0)
        c->hooks.event(c->hooks.arg, ev, copy_body(line));
}

/* A line that is not JSON is meant for people: it goes to the agent's log. */
static void take_line(void *arg, const char *text, size_t size)
{
    struct mirror_child *c = arg;
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(line))
        take_object(c, line);
    else
        log_warn(NULL, "mirror: %.*s", (int)size, text);
    json_decref(line);
}

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct mirror_child *c = arg;
    c->process = NULL;
    if (e->timed_out)
        log_warn(NULL, "the last copy to the mirror timed out; it is incomplete");
    tell_ready(c, "the mirror process ended before it was ready");
    if (c->finishing)
        c->hooks.ended(c->hooks.arg);
}

/* --- start and end ------------------------------------------------------------------------ */

static int launch(struct mirror_child *c, uv_loop_t *loop, const char *task, const char *nonce, struct err *err)
{
    char mark[160];
    snprintf(mark, sizeof(mark), "JOBCTL_NONCE=%s", nonce);
    const struct subprocess_spec s = {
        .argv = (const char *const[]){"/proc/self/exe", "mirror", task, NULL},
        .set = (const char *const[]){mark, NULL},
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_OUT,
        .session = true,
        .tied = true};
    const struct subprocess_hooks hooks = {take_line, on_end, c};
    return subprocess_open(&c->process, loop, &s, 0, &hooks, err);
}

static void open_history(struct mirror_child *c, const char *run_dir, const json_t *task)
{
    char path[PATH_SIZE];
    const json_t *job = json_object_get(task, "job");
    snprintf(path, sizeof(path), "%s/history.jsonl", run_dir);
    c->history = safe_open(path, O_WRONLY | O_CREAT | O_APPEND, NULL);
    c->who = json_make("{s:O, s:O}", "host", json_object_get(job, "host"), "job", json_object_get(job, "job"));
}

int mirror_child_start(struct mirror_child **out, uv_loop_t *loop, const char *run_dir, const char *nonce,
                       const json_t *task, const struct mirror_hooks *hooks, struct err *err)
{
    char path[PATH_SIZE];
    struct mirror_child *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_MEMORY, "no memory for a mirror");
    *c = (struct mirror_child){.hooks = *hooks, .history = -1};
    int rc = snprintf(path, sizeof(path), "%s/mirror.json", run_dir) >= PATH_SIZE
                 ? err_set(err, ERR_USAGE, "the run directory's path is too long")
                 : write_task(path, task, err);
    if (rc < 0 || launch(c, loop, path, nonce, err) < 0) {
        free(c);
        return -1;
    }
    open_history(c, run_dir, task);
    c->there = strdup(field_text(task, "there"));
    *out = c;
    return 0;
}

void mirror_child_note(struct mirror_child *c, const char *kind, const json_t *body)
{
    if (!c || c->history < 0)
        return;
    json_t *line = json_copy(c->who);
    json_object_set_new(line, "at_ms", json_integer(clock_unix_ms()));
    json_object_set_new(line, "kind", json_text(kind));
    json_object_set(line, "body", (json_t *)(uintptr_t)body);
    char *text = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (text && dprintf(c->history, "%s\n", text) < 0)
        log_warn(NULL, "a line of the job's history was lost: %s", strerror(errno));
    free(text);
    json_decref(line);
}

void mirror_child_finish(struct mirror_child *c, int64_t wait_ms)
{
    c->finishing = true;
    c->finish_ms = clock_ms();
    c->wait_ms = c->told || wait_ms < UNREADY_MS ? wait_ms : UNREADY_MS;
    if (!c->process) {
        c->hooks.ended(c->hooks.arg);
        return;
    }
    subprocess_kill(c->process, SIGTERM);
    subprocess_limit(c->process, c->wait_ms);
}

void mirror_child_hurry(struct mirror_child *c, int64_t wait_ms)
{
    if (c && c->finishing && c->process && clock_ms() + wait_ms < c->finish_ms + c->wait_ms)
        subprocess_limit(c->process, wait_ms);
}

bool mirror_child_slow(struct mirror_child *c, char *text, size_t size)
{
    if (!c || !c->process || !c->finishing || c->told_slow || clock_ms() - c->finish_ms < SLOW_MS)
        return false;
    c->told_slow = true;
    snprintf(text, size, "the last copy to the mirror %.400s is not finished. The attempt waits for the copy, at most "
             "%lld min; `jobctl cancel --now` ends the attempt without the copy", c->there ? c->there : "",
             (long long)c->wait_ms / 60000);
    return true;
}

void mirror_child_close(struct mirror_child *c)
{
    if (c)
        subprocess_close(&c->process, SIGTERM);
}

void mirror_child_destroy(struct mirror_child *c)
{
    if (!c)
        return;
    if (c->history >= 0)
        close(c->history);
    json_decref(c->who);
    free(c->there);
    free(c);
}
