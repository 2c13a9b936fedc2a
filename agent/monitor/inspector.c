/* SPDX-License-Identifier: Apache-2.0 */
/* inspector.c - see inspector.h */
#include "agent/monitor/inspector.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { LIMIT_MS = 2000, INSPECTED = 8 };

struct inspector {
    inspector_done_fn done;
    void *arg;
    uv_loop_t *loop;
    struct subprocess *process; /* NULL: not running */
    int generation;
    json_t *body;
};

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct inspector *i = arg;
    json_t *body = i->body;
    (void)e;
    i->process = NULL;
    i->body = NULL;
    i->done(i->arg, i->generation, body);
    json_decref(body);
}

int inspector_create(struct inspector **out, uv_loop_t *loop, inspector_done_fn done, void *arg, struct err *err)
{
    struct inspector *i = calloc(1, sizeof(*i));
    if (!i)
        return err_set(err, ERR_MEMORY, "no memory for an inspector");
    *i = (struct inspector){.done = done, .arg = arg, .loop = loop};
    *out = i;
    return 0;
}

void inspector_close(struct inspector *i)
{
    if (i)
        subprocess_close(&i->process, SIGKILL);
}

void inspector_destroy(struct inspector *i)
{
    if (i)
        json_decref(i->body);
    free(i);
}

static int start(struct inspector *i, const int64_t *pids, int n, struct err *err)
{
    static char names[INSPECTED][24];
    const char *argv[INSPECTED + 3] = {"/proc/self/exe", "inspect"};
    const char *path = json_string_value(json_object_get(i->body, "path"));
    int file = path ? safe_open(path, O_WRONLY | O_APPEND, NULL) : -1;
    if (file < 0)
        return err_set(err, ERR_SYSTEM, "cannot append to the report: %s", strerror(errno));
    for (int k = 0; k < n && k < INSPECTED; k++) {
        snprintf(names[k], sizeof(names[k]), "%lld", (long long)pids[k]);
        argv[2 + k] = names[k];
    }
    const struct subprocess_spec s = {
        .argv = argv, .out = file, .err = SUBPROCESS_OUT, .session = true, .tied = true};
    const struct subprocess_hooks hooks = {.ended = on_end, .arg = i};
    int rc = subprocess_open(&i->process, i->loop, &s, LIMIT_MS, &hooks, err);
    close(file);
    return rc;
}

void inspector_begin(struct inspector *i, int generation, json_t *body, const int64_t *pids, int n)
{
    struct err err = {0};
    if (i->process) { /* one at a time */
        i->done(i->arg, generation, body);
        json_decref(body);
        return;
    }
    i->generation = generation;
    i->body = body;
    if (body && n > 0 && start(i, pids, n, &err) == 0)
        return;
    if (err.code != ERR_NONE)
        log_warn(NULL, "cannot inspect hung ranks: %s", err.text);
    i->body = NULL;
    i->done(i->arg, generation, body);
    json_decref(body);
}
