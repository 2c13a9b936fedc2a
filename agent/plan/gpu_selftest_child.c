/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest_child.c - see gpu_selftest_child.h
 *
 * End of file on the pipe marks its end; ranks.c reaps the process with all others
 * (agent/ranks/ranks.c).
 */
#include "agent/plan/gpu_selftest_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/os/buf.h"
#include "agent/os/child.h"
#include "agent/plan/gpu_selftest.h"
#include "agent/plan/plan.h"
#include "engine/contract/err.h"

struct gpu_selftest_child {
    uv_poll_t                  poll;
    uv_timer_t                 limit;
    int                        pipe;
    pid_t                      pid;
    bool                       closed;
    struct buf                 said;
    gpu_selftest_child_done_fn done;
    void                      *arg;
};

/* --- its output --------------------------------------------------------------------------------
 */

/* The process holds the pipe until it ends, so it is not reaped while the pipe is open. */
static void end(struct gpu_selftest_child *t)
{
    if (t->closed)
        return;
    t->closed = true;
    kill(-t->pid, SIGKILL);
    uv_close((uv_handle_t *)&t->poll, NULL);
    uv_close((uv_handle_t *)&t->limit, NULL);
}

static void finish(struct gpu_selftest_child *t, const char *why)
{
    json_t *pairs =
        why ? NULL : json_loadb(t->said.data ? t->said.data : "", t->said.size, 0, NULL);
    end(t);
    if (!json_is_array(pairs) && !why)
        why = "the GPU self-test ended without a result";
    t->done(t->arg, why ? NULL : pairs, why);
    json_decref(pairs);
}

static void on_pipe(uv_poll_t *handle, int status, int events)
{
    struct gpu_selftest_child *t = handle->data;
    char bytes[4096];
    (void)status;
    (void)events;
    ssize_t n = read(t->pipe, bytes, sizeof(bytes));
    if (n > 0)
        buf_append(&t->said, bytes, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        finish(t, NULL);
}

static void on_limit(uv_timer_t *timer)
{
    char why[120];
    snprintf(why, sizeof(why), "the GPU self-test timed out after %.0f s: no result",
             (double)gpu_selftest_limit_ms() / 1000);
    finish(timer->data, why);
}

/* --- the process ------------------------------------------------------------------------------- */

/* A memfd with facts and spec, positioned at its start; a descriptor or -1. */
static int write_task(const json_t *facts, const json_t *spec, struct err *err)
{
    int fd = memfd_create("jobctl-gpu-selftest", MFD_CLOEXEC);
    json_t *task = json_pack("{s:O, s:O}", "facts", facts, "spec", spec);
    const bool good = fd >= 0 && task && json_dumpfd(task, fd, JSON_COMPACT) == 0 &&
                      lseek(fd, 0, SEEK_SET) == 0;
    json_decref(task);
    if (!good) {
        err_set(err, ERR_SYSTEM, "cannot start the GPU self-test: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return good ? fd : -1;
}

static int start(struct gpu_selftest_child *t, int task, int out, const char *nonce,
                 struct err *err)
{
    static const char *const argv[] = {"/proc/self/exe", "gpu-selftest", NULL};
    char mark[160];
    snprintf(mark, sizeof(mark), "JOBCTL_NONCE=%s", nonce);
    char **env = child_environ(mark);
    const struct child c = {.argv = argv, .envp = env, .out = out, .extra = {task}, .n_extra = 1};
    t->pid = env ? child_start(&c, err) : err_set(err, ERR_MEMORY, "no memory for an environment");
    free(env);
    return t->pid < 0 ? -1 : 0;
}

int gpu_selftest_child_start(struct gpu_selftest_child **out, uv_loop_t *loop, const json_t *facts,
                             const json_t *spec,
                             const char *nonce, gpu_selftest_child_done_fn done, void *arg, struct err *err)
{
    int fds[2] = {-1, -1}, task = write_task(facts, spec, err), rc = -1;
    struct gpu_selftest_child *t = task >= 0 ? calloc(1, sizeof(*t)) : NULL;
    *out = NULL;
    if (t && pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0)
        rc = start(t, task, fds[1], nonce, err);
    else if (task >= 0)
        err_set(err, ERR_SYSTEM, "cannot start the GPU self-test: %s", strerror(errno));
    if (task >= 0)
        close(task);
    if (fds[1] >= 0)
        close(fds[1]);
    if (rc < 0) {
        if (fds[0] >= 0)
            close(fds[0]);
        free(t);
        return -1;
    }
    t->pipe = fds[0];
    t->done = done;
    t->arg = arg;
    uv_poll_init(loop, &t->poll, t->pipe);
    uv_timer_init(loop, &t->limit);
    t->poll.data = t->limit.data = t;
    uv_poll_start(&t->poll, UV_READABLE | UV_DISCONNECT, on_pipe);
    uv_timer_start(&t->limit, on_limit, (uint64_t)gpu_selftest_limit_ms(), 0);
    *out = t;
    return 0;
}

void gpu_selftest_child_close(struct gpu_selftest_child *t)
{
    if (t)
        end(t);
}

void gpu_selftest_child_destroy(struct gpu_selftest_child *t)
{
    if (!t)
        return;
    close(t->pipe);
    buf_fini(&t->said);
    free(t);
}

/* Makes a new plan if the self-test contradicts the expectations of the first. */
int gpu_selftest_child_run(const char *train, struct err *err)
{
    json_t *task = json_loadfd(CHILD_FIRST_FD, 0, NULL), *plan = NULL;
    json_t *facts = json_object_get(task, "facts");
    const json_t *spec = json_object_get(task, "spec");
    int rc = facts ? plan_make(&plan, facts, spec, err)
                   : err_set(err, ERR_USAGE, "gpu-selftest is an internal command of the agent");
    if (rc == 0 && gpu_selftest_try(facts, plan, train, GPU_SELFTEST_LAUNCH_MS) > 0) {
        json_decref(plan);
        plan = NULL;
        rc = plan_make(&plan, facts, spec, err);
    }
    if (rc == 0) {
        gpu_selftest_sum(facts, plan, train, false, GPU_SELFTEST_LAUNCH_MS);
        rc = json_dumpf(json_object_get(facts, "pairs"), stdout, JSON_COMPACT);
        if (rc < 0 || fflush(stdout) != 0)
            rc = err_set(err, ERR_SYSTEM, "cannot write the result");
    }
    json_decref(plan);
    json_decref(task);
    return rc;
}
