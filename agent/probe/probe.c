/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - facts of this node; GPUs are probed in a child that may be abandoned
 *
 * NVML calls can block for minutes while a GPU falls off the bus, so they run in a child; the agent
 * waits a limited time for its answer.
 */
#include "agent/probe/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/container/container_found.h"
#include "agent/machine/machine_dir.h"
#include "engine/base/buf.h"
#include "agent/os/descriptors.h"
#include "agent/os/identity.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"

/* Shorter than the daemon's limit for all facts (controller/nodes/fleet_probe.c). */
enum { GPU_TIMEOUT_MS = 10000 };

/* Reads until end of file; -1: timed out. */
static int read_until(int fd, struct buf *out, int timeout_ms)
{
    int64_t end = clock_ms() + timeout_ms;
    char bytes[4096];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - clock_ms();
        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return -1;
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n == 0)
            return 0;
        if (n > 0)
            buf_append(out, bytes, (size_t)n);
        else if (errno != EINTR)
            return -1;
    }
}

/* $JOBCTL_GPU_PROBE_MS overrides the limit, for tests. */
static int timeout_ms(void)
{
    const char *text = getenv("JOBCTL_GPU_PROBE_MS");
    int ms = text ? atoi(text) : 0;
    return ms > 0 ? ms : GPU_TIMEOUT_MS;
}

static void no_gpus(json_t *facts, const char *note)
{
    json_object_set_new(facts, "gpus", json_array());
    json_object_set_new(facts, "pairs", json_array());
    json_object_set_new(facts, "nccl", json_null());
    json_object_set_new(facts, "driver", json_null());
    json_object_set_new(facts, "cuda_driver", json_null());
    json_object_set_new(facts, "gpu_note", note ? json_text(note) : json_null());
}

static void probe_gpu_apart(json_t *facts)
{
    int fds[2];
    struct buf text = {0};
    if (pipe(fds) < 0) {
        no_gpus(facts, "no pipe for the GPU probe");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        /* Keeps only the pipe: a stuck child must not hold the agent's locks. */
        int to = dup2(fds[1], 3);
        descriptors_close(4, ~0U);
        json_t *found = json_object();
        probe_gpu(found);
        json_file_put(found, to, JSON_COMPACT);
        _exit(0);
    }
    close(fds[1]);
    int rc = pid < 0 ? -1 : read_until(fds[0], &text, timeout_ms());
    close(fds[0]);
    json_t *found = rc == 0 ? json_loadb(text.data ? text.data : "", text.size, 0, NULL) : NULL;
    if (found)
        json_object_update(facts, found);
    else
        no_gpus(facts, rc < 0 ? "the NVIDIA driver does not respond; a GPU may be failing"
                              : "the GPU probe ended without a result");
    json_decref(found);
    buf_fini(&text);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, rc == 0 ? 0 : WNOHANG);
    }
}

/* libjobctl_ncclprof.so is installed in ../lib next to this program. */
static void find_profiler(json_t *facts)
{
    char path[PATH_MAX], real[PATH_MAX];
    const bool there = install_path(path, sizeof(path), "../lib/libjobctl_ncclprof.so") && realpath(path, real);
    json_object_set_new(facts, "nccl_profiler", there && access(real, R_OK) == 0 ? json_text(real) : json_null());
}

/* Where the users of this machine share it, or why not (docs/SHARED-BOX.md). */
static void find_machine(json_t *facts)
{
    char dir[MACHINE_DIR_PATH];
    struct err err = {0};
    const bool shared = machine_dir_find(dir, &err) == 0;
    json_object_set_new(facts, "machine", json_make("{s:s, s:s, s:b}", "dir", dir, "text", shared ? "" : err.text,
                                                    "wrong", !shared && err.code != ERR_NOT_FOUND));
}

json_t *probe_facts(const char *disk, struct err *err)
{
    json_t *facts = json_make("{s:i}", "schema", FACTS_SCHEMA);
    if (!facts || probe_host(facts, disk) < 0 || probe_kind(facts) < 0 || probe_net(facts) < 0) {
        json_decref(facts);
        err_set(err, ERR_MEMORY, "no memory for the facts of this node");
        return NULL;
    }
    find_profiler(facts);
    json_object_set_new(facts, "containers", container_found());
    find_machine(facts);
    /* without the library dlopen() looks for it in some eighty directories */
    void *nvml = getenv(IDENTITY_NO_NVML_ENV) ? NULL : dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (nvml) {
        dlclose(nvml);
        probe_gpu_apart(facts);
    } else {
        no_gpus(facts, NULL);
    }
    return facts;
}
