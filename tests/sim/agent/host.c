/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - chance, children and signals of the simulated machine; see host.h */
#include "tests/sim/agent/host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/run_dir.h"
#include "engine/base/err.h"

enum { WRITES = 256, SECOND_MS = 1000, AGENT_GRACE_MS = 10 * 1000 };

struct host host;

/* What a power cut would take back. */
static struct {
    int fd, writes;
    struct unsynced {
        off_t at;
        size_t size;
        char *old;
    } list[WRITES];
} disk = {.fd = -1};

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at);
int __wrap_fdatasync(int fd);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t at);
int __real_fdatasync(int fd);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_kill(pid_t pid, int signo);
pid_t __real_waitpid(pid_t pid, int *status, int options);
int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __real_kill(pid_t pid, int signo);

void host_begin(uint64_t seed)
{
    sim_open(seed);
    host = (struct host){.began = now(), .next_pid = FIRST_PID, .verbose = host.verbose};
    host.began_wall = sim_wall_ns();
    host.until = now() + ms(8LL * 3600 * 1000);
    host.digest = UINT64_C(14695981039346656037);
    for (int fd = 0; fd < KEPT_FROM; fd++)
        host.ours[fd] = fcntl(fd, F_GETFD) >= 0;
    host.on = true;
}

void host_end(void)
{
    host.on = false;
}

int64_t now(void)
{
    return sim_now();
}

int host_keep(int fd)
{
    const int kept = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FROM);
    if (fd >= 0)
        close(fd);
    return kept;
}

int64_t ms(int64_t n)
{
    return n * NS_PER_MS;
}

int host_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < KEPT_FROM; fd++)
        n += fcntl(fd, F_GETFD) >= 0 && !host.ours[fd];
    return n;
}

/* Without the name of the directory, which differs. */
void digest(const char *text)
{
    const size_t n = strlen(host.dir);
    for (; *text; text++) {
        while (n && strncmp(text, host.dir, n) == 0)
            text += n;
        host.digest = (host.digest ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
}

void broke(const char *fmt, ...)
{
    va_list list;
    if (host.broken[0])
        return;
    const int n = snprintf(host.broken, sizeof(host.broken), "at %.3f s: ", (double)(now() - host.began) / 1e9);
    va_start(list, fmt);
    vsnprintf(host.broken + n, sizeof(host.broken) - (size_t)n, fmt, list);
    va_end(list);
}

void say(const char *fmt, ...)
{
    char text[1000];
    va_list list;
    int n = snprintf(text, sizeof(text), "%11.3f ", (double)(now() - host.began) / 1e9);
    va_start(list, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, list);
    va_end(list);
    digest(text);
    if (host.verbose)
        fprintf(stderr, "%s\n", text);
}

/* --- what happens to the agent ------------------------------------------------------------------- */

static bool is_due(int64_t *at)
{
    if (*at > now())
        return false;
    *at = NEVER;
    return true;
}

int64_t host_due(void)
{
    const struct plan *p = &host.plan;
    const int64_t one = p->terminated < p->fenced ? p->terminated : p->fenced;
    const int64_t other = p->killed < p->jumps ? p->killed : p->jumps, two = one < other ? one : other;
    return two < p->node_lost ? two : p->node_lost;
}

void host_run(void)
{
    struct err err = {0};
    if (is_due(&host.plan.terminated)) {
        say("the agent gets SIGTERM");
        rules_stop(AGENT_GRACE_MS, false);
        sim_signal(host.agent, SIGTERM);
    }
    if (is_due(&host.plan.fenced)) {
        say("the attempt is fenced");
        rules_stop(SECOND_MS, true);
        run_dir_fence(host.run_dir, "it is late", &err);
    }
    if (is_due(&host.plan.node_lost) && sim_alive(host.follower)) {
        say("the second node is lost");
        host.lost = now();
        sim_kill(host.follower);
        processes_lose(host.follower);
    }
    if (is_due(&host.plan.jumps))
        sim_wall_jump(ms(sim_between(-7200, 7200) * 1000));
    if (host.plan.killed <= now()) {
        say("the agent is killed");
        sim_kill(host.agent);
    }
}

/* As the kernel does; and what no write had reached the disk is gone, each write or a part of it. */
void host_agent_killed(void)
{
    while (disk.writes > 0) {
        const struct unsynced *w = &disk.list[--disk.writes];
        const size_t kept = sim_chance() % 2 ? w->size : sim_chance() % (w->size + 1);
        if (fcntl(disk.fd, F_GETFD) >= 0 &&
            __real_pwrite(disk.fd, w->old + kept, w->size - kept, w->at + (off_t)kept) < 0)
            abort();
        free(w->old);
    }
    for (int fd = 0; fd < KEPT_FROM; fd++)
        if (!host.ours[fd])
            close(fd);
}

/* --- its disk -------------------------------------------------------------------------------------- */

static void forget(void)
{
    while (disk.writes > 0)
        free(disk.list[--disk.writes].old);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (host.on && now() >= host.plan.full && now() < host.plan.free) {
        errno = ENOSPC;
        return -1;
    }
    if (sim_current() != host.agent)
        return __real_pwrite(fd, bytes, size, at);
    if (fd != disk.fd || disk.writes == WRITES)
        forget();
    disk.fd = fd;
    struct unsynced *w = &disk.list[disk.writes++];
    *w = (struct unsynced){.at = at, .size = size, .old = calloc(1, size)};
    if (pread(fd, w->old, size, at) < 0)
        abort();
    return __real_pwrite(fd, bytes, size, at);
}

int __wrap_fdatasync(int fd)
{
    if (fd == disk.fd)
        forget();
    return __real_fdatasync(fd);
}

/* --- its children ------------------------------------------------------------------------------ */

void child_died(const struct process *p)
{
    sim_signal(p->agent, SIGCHLD);
}

static struct process *zombie_of(pid_t pid, bool *children)
{
    *children = false;
    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &host.processes[i];
        if (p->kind == PROCESS_NONE || p->agent != sim_current() || (pid > 0 && p->pid != pid))
            continue;
        *children = true;
        if (p->zombie)
            return p;
    }
    return NULL;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    bool children;
    if (!host.on)
        return __real_waitpid(pid, status, options);
    struct process *p = zombie_of(pid, &children);
    if (!p && children && (options & WNOHANG))
        return 0;
    if (!p && children) {
        broke("the agent waits for process %d and stops its event loop", pid);
    }
    if (!p) {
        errno = ECHILD;
        return -1;
    }
    const pid_t was = p->pid;
    if (status)
        *status = p->status;
    *p = (struct process){.kind = PROCESS_NONE};
    return was;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    bool children;
    if (!host.on)
        return __real_waitid(type, id, info, options);
    const struct process *p = zombie_of(0, &children);
    memset(info, 0, sizeof(*info));
    if (p)
        info->si_pid = p->pid;
    if (!children)
        errno = ECHILD;
    return children ? 0 : -1;
}

int __wrap_kill(pid_t pid, int signo)
{
    struct process *p = host.on ? process_of(pid < 0 ? -pid : pid) : NULL;
    if (!host.on)
        return __real_kill(pid, signo);
    if (p && (p->alive || (p->zombie && pid > 0)))
        return p->alive ? process_signal(p, signo) : 0;
    errno = ESRCH;
    return -1;
}
