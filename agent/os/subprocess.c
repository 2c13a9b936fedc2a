/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.c - see subprocess.h; only async-signal-safe calls between vfork and exec */
#include "agent/os/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/cpu_list.h"
#include "agent/os/descriptors.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

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
static int place_descriptors(const struct subprocess_spec *s, int *report)
{
    const int standard[] = {s->in, s->out, s->err == SUBPROCESS_OUT ? s->out : s->err};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int n = SUBPROCESS_FIRST_FD + s->n_extra, least = SUBPROCESS_FIRST_FD + SUBPROCESS_EXTRA + 1;
    int high[SUBPROCESS_FIRST_FD + SUBPROCESS_EXTRA];
    for (int i = 0; i < n; i++) {
        int fd = i < SUBPROCESS_FIRST_FD ? standard[i] : s->extra[i - SUBPROCESS_FIRST_FD];
        high[i] = fcntl(fd == SUBPROCESS_NULL ? null : fd, F_DUPFD_CLOEXEC, least);
        if (high[i] < 0)
            return -1;
    }
    const int moved = fcntl(*report, F_DUPFD_CLOEXEC, least);
    if (moved < 0)
        return -1;
    *report = moved;
    for (int i = 0; i < n; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    /* The report pipe is close-on-exec; every other descriptor above is closed here. */
    descriptors_close((unsigned)n, (unsigned)moved - 1);
    descriptors_close((unsigned)moved + 1, ~0U);
    return 0;
}

static void run_child(const struct subprocess_spec *s, char **env, const cpu_set_t *mask, int report, pid_t parent)
{
    char *const *argv = (char *const *)(const void *)s->argv;
    default_signals();
    if (s->session)
        setsid();
    if (s->tied)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (s->tied && getppid() != parent)
        fail(report, 'x');
    if (s->enter)
        s->enter(s->enter_arg);
    if (place_descriptors(s, &report) < 0)
        fail(report, 'f');
    if (mask)
        sched_setaffinity(0, CPU_LIST_BYTES, mask); /* best effort: any CPU is better than none */
    if (s->cwd && chdir(s->cwd) < 0)
        fail(report, 'd');
    if (strchr(argv[0], '/'))
        execve(argv[0], argv, env);
    else
        execvpe(argv[0], argv, env);
    fail(report, 'e');
}

static bool is_set(const struct subprocess_spec *s, const char *entry)
{
    for (const char *const *set = s->set; set && *set; set++)
        if (strncmp(*set, entry, strcspn(*set, "=") + 1) == 0)
            return true;
    return false;
}

/* The caller frees the array; its entries are borrowed. */
static char **environment(const struct subprocess_spec *s)
{
    char *const *base = s->env ? s->env : environ;
    size_t n = 0, added = 0, used = 0;
    while (base[n])
        n++;
    while (s->set && s->set[added])
        added++;
    char **env = calloc(n + added + 1, sizeof(*env));
    for (size_t i = 0; env && i < n; i++)
        if (!is_set(s, base[i]))
            env[used++] = base[i];
    if (env && added)
        memcpy(env + used, s->set, added * sizeof(*env));
    return env;
}

/* Some parents ignore SIGCHLD, and their children inherit that: no exit code would be known. */
static void keep_exit_codes(void)
{
    struct sigaction now;
    if (sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
}

static pid_t fork_child(const struct subprocess_spec *s, char **env, int report)
{
    _Alignas(cpu_set_t) unsigned char cpus[CPU_LIST_BYTES];
    const cpu_set_t *mask = s->cpus ? cpu_list_mask(cpus, s->cpus) : NULL;
    sigset_t all, old;
    keep_exit_codes();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old); /* no handler of this process may run in the child */
    /* vfork: the child borrows this memory until it executes; a copy would cost a large daemon milliseconds */
    pid_t parent = getpid(), pid = vfork();
    if (pid == 0)
        run_child(s, env, mask, report, parent);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

/* E2BIG: which of what it was to get is the largest. */
static int too_large(const struct subprocess_spec *s, char *const *env, struct err *err)
{
    size_t total = 0, largest = 0;
    const char *name = "an argument";
    int chars = (int)strlen(name);
    for (const char *const *a = s->argv; *a; total += strlen(*a++) + 1)
        largest = strlen(*a) > largest ? strlen(*a) : largest;
    for (; *env; total += strlen(*env++) + 1)
        if (strlen(*env) > largest) {
            largest = strlen(*env);
            name = *env;
            chars = (int)strcspn(name, "=");
        }
    return err_set(err, ERR_SYSTEM,
                   "cannot execute '%s': its arguments and environment (%zu bytes) exceed the kernel's limit; the "
                   "largest is %.*s with %zu bytes; pass large values in a file",
                   s->argv[0], total, chars, name, largest);
}

/* Returns once the program has been executed, or could not be. */
static int await_exec(const struct subprocess_spec *s, char *const *env, pid_t pid, int report, struct err *err)
{
    struct failure f;
    ssize_t n;
    do
        n = read(report, &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(f))
        return 0;
    subprocess_wait(pid);
    if (f.step == 'e' && f.errnum == E2BIG)
        return too_large(s, env, err);
    return f.step == 'd' ? err_set(err, ERR_SYSTEM, "cannot change to the directory '%s': %s", s->cwd,
                                   strerror(f.errnum))
                         : err_set(err, ERR_SYSTEM, "cannot execute '%s': %s", s->argv[0], strerror(f.errnum));
}

pid_t subprocess_start(const struct subprocess_spec *s, struct err *err)
{
    int report[2];
    char **env = environment(s);
    if (!env)
        return err_set(err, ERR_MEMORY, "no memory for an environment");
    if (pipe2(report, O_CLOEXEC) < 0) {
        free(env);
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t pid = fork_child(s, env, report[1]);
    if (pid < 0)
        err_set(err, ERR_SYSTEM, "cannot start a process: %s", strerror(errno));
    close(report[1]);
    if (pid > 0 && await_exec(s, env, pid, report[0], err) < 0)
        pid = -1;
    close(report[0]);
    free(env);
    return pid;
}

int subprocess_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : SUBPROCESS_SIGNALLED + WTERMSIG(status);
}

/* --- to its end ---------------------------------------------------------------------------------- */

static void keep(struct buf *out, const char *piece, size_t n, size_t most)
{
    buf_append(out, piece, n);
    if (most > 0 && out->size > 2 * most)
        buf_consume(out, out->size - most);
}

/* How long poll() may wait, of a program that began at `since`: until one of its limits. */
static int patience(const struct subprocess_spec *s, int64_t since, int wait_ms)
{
    const int64_t left = s->limit_ms - (clock_ms() - since);
    if (s->limit_ms <= 0 || (wait_ms >= 0 && wait_ms < left))
        return wait_ms;
    return left > 0 ? (int)left : 0;
}

/* Reads both outputs to their end; -1: timed out.  A descriptor of -1 is none. */
static int read_both(const struct subprocess_spec *s, const int fd[2], struct buf out[2], int wait_ms)
{
    const int64_t since = clock_ms();
    struct pollfd p[2] = {{.fd = fd[0], .events = POLLIN}, {.fd = fd[1], .events = POLLIN}};
    char piece[4096];
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        const int ms = patience(s, since, wait_ms), rc = poll(p, 2, ms);
        if (rc == 0 || (ms == 0 && s->limit_ms > 0) || (rc < 0 && errno != EINTR))
            return -1;
        for (int i = 0; i < 2; i++) {
            ssize_t n = p[i].fd >= 0 && p[i].revents ? read(p[i].fd, piece, sizeof(piece)) : -1;
            if (n > 0)
                keep(&out[i], piece, (size_t)n, s->most);
            if (n == 0)
                p[i].fd = -1;
        }
    }
    return 0;
}

/* Makes the pipes that *s wants: their ends for reading and writing, else -1. */
static int make_pipes(struct subprocess_spec *s, int from[2], int to[2])
{
    int *const want[2] = {&s->out, &s->err};
    for (int i = 0; i < 2; i++) {
        int ends[2] = {-1, -1};
        if (*want[i] == SUBPROCESS_PIPE && pipe2(ends, O_CLOEXEC) < 0)
            return -1;
        from[i] = ends[0];
        to[i] = ends[1];
        if (*want[i] == SUBPROCESS_PIPE)
            *want[i] = ends[1];
    }
    return 0;
}

static void close_both(const int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

int subprocess_run(const struct subprocess_spec *spec, struct buf out[2], int wait_ms, struct err *err)
{
    struct subprocess_spec s = *spec;
    int from[2] = {-1, -1}, to[2] = {-1, -1}, code = -1;
    pid_t pid = make_pipes(&s, from, to) == 0
                    ? subprocess_start(&s, err)
                    : err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    close_both(to);
    const bool late = pid > 0 && read_both(spec, from, out, wait_ms) < 0;
    if (late)
        kill(s.session ? -pid : pid, SIGKILL);
    if (pid > 0)
        code = subprocess_wait(pid);
    close_both(from);
    const int limit = s.limit_ms > 0 && (wait_ms < 0 || s.limit_ms < wait_ms) ? s.limit_ms : wait_ms;
    return late ? err_set(err, ERR_SYSTEM, "%s timed out after %d s", s.argv[0], limit / 1000) : code;
}

const char *subprocess_text(const struct buf *b)
{
    return b->data ? b->data : "";
}

void subprocess_last_line(char *out, size_t size, int fd, const char *name)
{
    char text[4096];
    const off_t end = lseek(fd, 0, SEEK_END), from = end >= (off_t)sizeof(text) ? end - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = pread(fd, text, sizeof(text) - 1, from);
    const size_t skip = strlen(name);
    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    const char *line = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    if (strncmp(line, name, skip) == 0 && strncmp(line + skip, ": ", 2) == 0)
        line += skip + 2;
    snprintf(out, size, "%s", line);
    err_make_printable(out);
}
