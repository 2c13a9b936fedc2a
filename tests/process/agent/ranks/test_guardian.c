/* SPDX-License-Identifier: Apache-2.0 */
/* test_guardian.c - a guardian exits as its agent does, and ends only what a dead agent has left */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/run_dir.h"
#include "agent/ranks/guardian.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { PATIENCE_MS = 60 * 1000 };

static const char nonce[] = "0123456789abcdef0123456789abcdef";
static char dir[200];
static int pids[2]; /* what the agent tells of its descendants */
static pid_t told[4];
static int n_told;

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "guardian");
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what the guardian spares comes here */
    return pipe2(pids, 0) == 0 ? 0 : -1;
}

static int down(void **state)
{
    (void)state;
    char path[300];
    for (int i = 0; i < n_told; i++) /* a failed test leaves them: they are our children then */
        if (waitpid(told[i], NULL, WNOHANG) == 0)
            kill(told[i], SIGKILL);
    n_told = 0;
    close(pids[0]);
    close(pids[1]);
    snprintf(path, sizeof(path), "%s/" RUN_DIR_LOCK, dir);
    unlink(path);
    return rmdir(dir);
}

/* Starts a guardian; `agent` runs below it. */
static pid_t guarded(void (*agent)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct err err = {0};
    const struct guardian_options o = {
        .run_dir = dir, .nonce = nonce, .tag = "1.1", .lock = run_dir_lock(dir, &err), .session = true};
    if (o.lock < 0 || guardian_start(&o, &err) < 0)
        _exit(99);
    agent();
    _exit(98);
}

static int status_of(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

/* --- descendants ------------------------------------------------------------------------------------------ */

/* A process that forked twice, in a session of its own, with this environment; it tells its pid. */
static void leave_behind(const char *script, char *const env[])
{
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, NULL};
    if (fork() == 0) {
        if (fork() == 0) {
            const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
            setsid();
            dup2(null, 1);
            dup2(null, 2);
            execve("/bin/sh", argv, env);
            _exit(97);
        }
        _exit(0);
    }
    wait(NULL);
}

static pid_t next_pid(void)
{
    char text[16];
    size_t n = 0;
    struct pollfd ready = {.fd = pids[0], .events = POLLIN};
    while (n < sizeof(text) - 1 && poll(&ready, 1, PATIENCE_MS) == 1 && read(pids[0], text + n, 1) == 1 &&
           text[n] != '\n')
        n++;
    text[n] = '\0';
    assert_true(atoi(text) > 1);
    return told[n_told++] = atoi(text);
}

static char *const bare[] = {NULL};
static char script[2][200];

/* `told` is the descriptor of the pipe, the same in every process. */
static void write_scripts(void)
{
    snprintf(script[0], sizeof(script[0]), "echo $$ >&%d; exec sleep 1000", pids[1]);
    snprintf(script[1], sizeof(script[1]), "trap '' TERM; echo $$ >&%d; while :; do sleep 1; done", pids[1]);
}

static bool lives(pid_t pid)
{
    char path[40], text[300] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end && !strchr("ZX", end[2]);
}

/* --- tests -------------------------------------------------------------------------------------------------- */

static void exit_7(void)
{
    _exit(7);
}

static void exit_0(void)
{
    _exit(0);
}

static void end_by_abrt(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
}

static void end_by_kill(void)
{
    raise(SIGKILL);
}

static void a_guardian_leaves_as_its_agent(void **state)
{
    (void)state;
    int status = status_of(guarded(exit_7));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    status = status_of(guarded(exit_0));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = status_of(guarded(end_by_abrt));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = status_of(guarded(end_by_kill));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void leave_two_behind(void)
{
    leave_behind(script[0], bare);
    leave_behind(script[1], bare);
    for (;;)
        pause();
}

static void what_hides_is_ended_while_the_lock_is_held(void **state)
{
    (void)state;
    struct err err = {0};
    write_scripts();
    pid_t guardian = guarded(leave_two_behind), one = next_pid(), other = next_pid();
    assert_true(lives(one) && lives(other));
    assert_int_equal(run_dir_held(dir), 1);
    kill(guardian, SIGTERM); /* passed on: it ends this agent, as it handles no signal */
    int status = status_of(guardian);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_false(lives(one) || lives(other));
    int lock = run_dir_lock(dir, &err);
    assert_true(lock >= 0);
    close(lock);
}

static void leave_a_daemon_behind(void)
{
    char *const daemon[] = {(char[]){"JOBCTL_DAEMON=1"}, NULL};
    char *const other[] = {(char[]){"JOBCTL_NONCE=ffffffffffffffff"}, NULL};
    leave_behind(script[0], daemon);
    leave_behind(script[0], other);
    for (;;)
        pause();
}

/* A daemon that a rank has started serves other jobs, and what another agent has started is not ours. */
static void strangers_are_spared(void **state)
{
    (void)state;
    write_scripts();
    pid_t guardian = guarded(leave_a_daemon_behind), one = next_pid(), other = next_pid();
    kill(guardian, SIGTERM);
    status_of(guardian);
    assert_true(lives(one) && lives(other));
}

static void leave_and_go(void)
{
    leave_behind(script[0], bare);
    _exit(0);
}

/* An agent that ends in order has ended what was its own; what is left it did not want to end. */
static void nothing_is_ended_after_an_orderly_end(void **state)
{
    (void)state;
    write_scripts();
    pid_t guardian = guarded(leave_and_go), one = next_pid();
    assert_int_equal(status_of(guardian), 0);
    assert_true(lives(one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_guardian_leaves_as_its_agent, up, down),
        cmocka_unit_test_setup_teardown(what_hides_is_ended_while_the_lock_is_held, up, down),
        cmocka_unit_test_setup_teardown(strangers_are_spared, up, down),
        cmocka_unit_test_setup_teardown(nothing_is_ended_after_an_orderly_end, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
