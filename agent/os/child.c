/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h; only async-signal-safe calls between fork and exec */
#include "agent/os/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/cpu_list.h"
#include "agent/os/descriptors.h"
#include "engine/contract/err.h"

extern char **environ;

/* What failed in the child; sent through a pipe that exec closes. */
struct failure {
    int errnum;
    char step; /* 'd' chdir, 'f' descriptors, 'e' exec, 'x' parent gone */
};

static void fail(int to, char step)
{
    struct failure f = {errno, step};
    if (write(to, &f, sizeof(f)) < 0) {
        /* The parent is already gone. */
    }
    _exit(127);
}

static void default_signals(void)
{
    sigset_t none;
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &dfl, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the descriptors to 0, 1, 2, 3, ... without overwriting one that is still needed. */
static int place_descriptors(const struct child *c, int *report)
{
    int high[CHILD_EXTRA + 2], n = c->n_extra + 2, least = CHILD_FIRST_FD + CHILD_EXTRA + 1;
    for (int i = 0; i < n; i++) {
        int fd = i == 0 ? *report : i == 1 ? c->out : c->extra[i - 2];
        high[i] = fcntl(fd, F_DUPFD_CLOEXEC, least);
        if (high[i] < 0)
            return -1;
    }
    *report = high[0];
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(high[1], 1) < 0 || dup2(high[1], 2) < 0)
        return -1;
    int next = CHILD_FIRST_FD;
    for (int i = 2; i < n; i++)
        if (dup2(high[i], next++) < 0)
            return -1;
    /* The report pipe is close-on-exec; every other descriptor above is closed here. */
    descriptors_close((unsigned)next, (unsigned)*report - 1);
    descriptors_close((unsigned)*report + 1, ~0U);
    return 0;
}

static void run_child(const struct child *c, const cpu_set_t *mask, int report, pid_t parent)
{
    default_signals();
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        fail(report, 'x');
    if (place_descriptors(c, &report) < 0)
        fail(report, 'f');
    if (mask)
        sched_setaffinity(0, CPU_LIST_BYTES, mask); /* best effort: any CPU is better than none */
    if (c->cwd && chdir(c->cwd) < 0)
        fail(report, 'd');
    execve(c->argv[0], (char *const *)(const void *)c->argv, c->envp);
    fail(report, 'e');
}

char **child_environ(const char *more)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 2, sizeof(*env));
    if (!env)
        return NULL;
    memcpy(env, environ, n * sizeof(*env));
    env[n] = (char *)(uintptr_t)more;
    return env;
}

pid_t child_start(const struct child *c, struct err *err)
{
    int report[2];
    _Alignas(cpu_set_t) unsigned char cpus[CPU_LIST_BYTES];
    const cpu_set_t *mask = c->cpus ? cpu_list_mask(cpus, c->cpus) : NULL;
    if (pipe2(report, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old); /* no handler of this process may run in the child */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_child(c, mask, report[1], parent);
    int errnum = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return err_set(err, ERR_SYSTEM, "cannot start a process: %s", strerror(errnum));
    }

    struct failure f;
    ssize_t n;
    do
        n = read(report[0], &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n != (ssize_t)sizeof(f))
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (f.step == 'd')
        return err_set(err, ERR_SYSTEM, "cannot change to the directory '%s': %s", c->cwd,
                       strerror(f.errnum));
    return err_set(err, ERR_SYSTEM, "cannot execute '%s': %s", c->argv[0], strerror(f.errnum));
}
