/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack_dump.c - which process of a hung rank gets which signal */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ranks/stack_dump.h"

enum { PATIENCE_MS = 20000 };

static int said[2];
static char names[3]; /* what this process says on SIGTERM and on SIGABRT */

static void say(char c)
{
    (void)!write(said[1], &c, 1);
}

static void on_signal(int signo)
{
    struct rlimit core;
    say(names[signo == SIGABRT]);
    if (signo == SIGABRT && getrlimit(RLIMIT_CORE, &core) == 0)
        _exit(core.rlim_cur <= 1 ? 0 : 99);
}

/* As a process that catches what it has a name for, and then waits. */
static void behave(const char *said_on)
{
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) == 0) { /* as where core files are wanted */
        core.rlim_cur = core.rlim_max;
        setrlimit(RLIMIT_CORE, &core);
    }
    memcpy(names, said_on, 2);
    if (names[0] != '-')
        signal(SIGTERM, on_signal);
    if (names[1] != '-')
        signal(SIGABRT, on_signal);
    say('.');
    alarm(2 * PATIENCE_MS / 1000); /* should the test fail */
    for (;;)
        pause();
}

/* The next byte that is said; '?': none comes. */
static char hear(void)
{
    char c = '?';
    struct pollfd p = {.fd = said[0], .events = POLLIN};
    return poll(&p, 1, PATIENCE_MS) == 1 && read(said[0], &c, 1) == 1 ? c : '?';
}

/* A rank, its child and grandchild, each said_on of behave(), NULL: none; all are ready. */
static pid_t start(const char *rank, const char *child, const char *grandchild)
{
    assert_int_equal(pipe(said), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (child && fork() == 0) {
            if (grandchild && fork() == 0)
                behave(grandchild);
            behave(child);
        }
        behave(rank);
    }
    for (int i = 0; i < 1 + (child != NULL) + (grandchild != NULL); i++)
        assert_int_equal(hear(), '.');
    return pid;
}

/* Ends what is left, and returns how the rank ended. */
static int end(pid_t pid, bool kill_it)
{
    int status = 0;
    if (kill_it)
        kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    close(said[1]);
    assert_int_equal(hear(), '?'); /* nobody has said anything more, and nobody is left */
    close(said[0]);
    return status;
}

static void a_program_behind_a_shell_prints_its_stacks(void **state)
{
    (void)state;
    pid_t pid = start("--", "-a", "-w"); /* the shell, Python, a worker that has Python's handler */
    stack_dump_end(pid, false);
    assert_int_equal(hear(), 'a');
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* the shell is spared */
    end(pid, true);
}

static void one_that_saves_on_sigterm_may(void **state)
{
    (void)state;
    pid_t pid = start("ta", NULL, NULL);
    stack_dump_end(pid, false);
    assert_int_equal(hear(), 't');
    stack_dump_end(pid, true);
    assert_int_equal(hear(), 'a');
    int status = end(pid, false);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0); /* without a core file */
}

static void one_without_stacks_is_just_ended(void **state)
{
    (void)state;
    pid_t pid = start("--", NULL, NULL);
    kill(pid, SIGSTOP);
    stack_dump_end(pid, false);
    int status = end(pid, false);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_behind_a_shell_prints_its_stacks),
        cmocka_unit_test(one_that_saves_on_sigterm_may),
        cmocka_unit_test(one_without_stacks_is_just_ended),
    };
    return cmocka_run_group_tests_name("stack_dump", tests, NULL, NULL);
}
