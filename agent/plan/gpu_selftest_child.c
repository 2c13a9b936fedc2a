/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest_child.c - see gpu_selftest_child.h */
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

#include "agent/os/subprocess.h"
#include "agent/plan/gpu_selftest.h"
#include "agent/plan/plan.h"
#include "engine/base/err.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"

struct gpu_selftest_child {
    struct subprocess         *process; /* NULL: ended */
    gpu_selftest_child_done_fn done;
    void                      *arg;
};

/* --- its end ----------------------------------------------------------------------------------- */

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct gpu_selftest_child *t = arg;
    char why[120] = "";
    json_t *pairs = json_loadb(subprocess_text(e->out), e->out->size, 0, NULL);
    t->process = NULL;
    if (e->timed_out)
        snprintf(why, sizeof(why), "the GPU self-test timed out after %.0f s: no result",
                 (double)gpu_selftest_limit_ms() / 1000);
    else if (!json_is_array(pairs))
        snprintf(why, sizeof(why), "the GPU self-test ended without a result");
    t->done(t->arg, why[0] ? NULL : pairs, why[0] ? why : NULL);
    json_decref(pairs);
}

/* --- the process ------------------------------------------------------------------------------- */

/* A memfd with facts and spec, positioned at its start; a descriptor or -1. */
static int write_task(const json_t *facts, const json_t *spec, struct err *err)
{
    int fd = memfd_create("jobctl-gpu-selftest", MFD_CLOEXEC);
    json_t *task = json_make("{s:O, s:O}", "facts", facts, "spec", spec);
    const bool good = fd >= 0 && task && json_file_put(task, fd, JSON_COMPACT) == 0 &&
                      lseek(fd, 0, SEEK_SET) == 0;
    json_decref(task);
    if (!good) {
        err_set(err, ERR_SYSTEM, "cannot start the GPU self-test: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return good ? fd : -1;
}

static int start(struct gpu_selftest_child *t, uv_loop_t *loop, int task, const char *nonce, struct err *err)
{
    char mark[160];
    snprintf(mark, sizeof(mark), "JOBCTL_NONCE=%s", nonce);
    const struct subprocess_spec s = {
        .argv = (const char *const[]){"/proc/self/exe", "gpu-selftest", NULL},
        .set = (const char *const[]){mark, NULL},
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_OUT,
        .extra = {task},
        .n_extra = 1,
        .session = true,
        .tied = true};
    const struct subprocess_hooks hooks = {.ended = on_end, .arg = t};
    return subprocess_open(&t->process, loop, &s, gpu_selftest_limit_ms(), &hooks, err);
}

int gpu_selftest_child_start(struct gpu_selftest_child **out, uv_loop_t *loop, const json_t *facts, const json_t *spec,
                             const char *nonce, gpu_selftest_child_done_fn done, void *arg, struct err *err)
{
    int task = write_task(facts, spec, err);
    struct gpu_selftest_child *t = *out = task >= 0 ? calloc(1, sizeof(*t)) : NULL;
    if (task < 0)
        return -1;
    if (t)
        *t = (struct gpu_selftest_child){.done = done, .arg = arg};
    int rc = t ? start(t, loop, task, nonce, err)
               : err_set(err, ERR_MEMORY, "no memory for the GPU self-test");
    close(task);
    if (rc < 0) {
        free(t);
        *out = NULL;
    }
    return rc;
}

void gpu_selftest_child_close(struct gpu_selftest_child *t)
{
    if (t)
        subprocess_close(&t->process, SIGKILL);
}

void gpu_selftest_child_destroy(struct gpu_selftest_child *t)
{
    free(t);
}

/* Makes a new plan if the self-test contradicts the expectations of the first. */
int gpu_selftest_child_run(const char *train, struct err *err)
{
    json_t *task = json_loadfd(SUBPROCESS_FIRST_FD, 0, NULL), *plan = NULL;
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
