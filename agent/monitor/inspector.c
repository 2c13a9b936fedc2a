/* SPDX-License-Identifier: Apache-2.0 */
/* inspector.c - see inspector.h
 *
 * End of file on a pipe that the process holds marks its end; it is reaped with all other processes
 * (agent/ranks/ranks.c).
 */
#include "agent/monitor/inspector.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/child.h"
#include "agent/os/log.h"
#include "engine/contract/err.h"

enum { LIMIT_MS = 2000, INSPECTED = 8 };

extern char **environ;

struct inspector {
    inspector_done_fn done;
    void *arg;
    uv_loop_t *loop;
    uv_timer_t limit;
    uv_poll_t poll; /* of the pipe */
    bool polling;
    int pipe; /* read end, -1 = not running */
    pid_t pid;
    int generation;
    json_t *body;
};

static void on_pipe_closed(uv_handle_t *handle)
{
    struct inspector *i = handle->data;
    i->polling = false;
}

static void let_go(struct inspector *i)
{
    uv_timer_stop(&i->limit);
    if (i->pipe < 0)
        return;
    uv_close((uv_handle_t *)&i->poll, on_pipe_closed);
    close(i->pipe);
    i->pipe = -1;
}

static void finish(struct inspector *i)
{
    json_t *body = i->body;
    i->body = NULL;
    let_go(i);
    if (body)
        i->done(i->arg, i->generation, body);
    json_decref(body);
}

static void on_end(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    finish(handle->data);
}

static void on_limit(uv_timer_t *timer)
{
    struct inspector *i = timer->data;
    kill(-i->pid, SIGKILL); /* not yet reaped: the pipe is open */
    finish(i);
}

int inspector_create(struct inspector **out, uv_loop_t *loop, inspector_done_fn done, void *arg,
                     struct err *err)
{
    struct inspector *i = calloc(1, sizeof(*i));
    if (!i)
        return err_set(err, ERR_MEMORY, "no memory for an inspector");
    *i = (struct inspector){.done = done, .arg = arg, .loop = loop, .pipe = -1};
    uv_timer_init(loop, &i->limit);
    i->limit.data = i->poll.data = i;
    *out = i;
    return 0;
}

void inspector_close(struct inspector *i)
{
    if (!i)
        return;
    if (i->pipe >= 0)
        kill(-i->pid, SIGKILL);
    let_go(i);
    uv_close((uv_handle_t *)&i->limit, NULL);
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
    int pipe[2], file = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (file < 0)
        return err_set(err, ERR_SYSTEM, "cannot append to the report: %s", strerror(errno));
    if (pipe2(pipe, O_CLOEXEC) < 0) {
        close(file);
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    }
    for (int k = 0; k < n && k < INSPECTED; k++) {
        snprintf(names[k], sizeof(names[k]), "%lld", (long long)pids[k]);
        argv[2 + k] = names[k];
    }
    const struct child c = {
        .argv = argv, .envp = environ, .out = file, .extra = {pipe[1]}, .n_extra = 1};
    i->pid = child_start(&c, err);
    close(file);
    close(pipe[1]);
    if (i->pid < 0) {
        close(pipe[0]);
        return -1;
    }
    i->pipe = pipe[0];
    uv_poll_init(i->loop, &i->poll, i->pipe);
    i->polling = true;
    uv_poll_start(&i->poll, UV_READABLE | UV_DISCONNECT, on_end);
    uv_timer_start(&i->limit, on_limit, LIMIT_MS, 0);
    return 0;
}

void inspector_begin(struct inspector *i, int generation, json_t *body, const int64_t *pids, int n)
{
    struct err err = {0};
    if (i->body || i->polling) { /* one at a time */
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
