/* SPDX-License-Identifier: Apache-2.0 */
/* test_process_tree.c - CPU time and bytes of a process, its children, and those of its session */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/process_tree.h"

enum { WORK_MS = 300, BYTES = 3 << 20, LEFT_S = 60 };

static void work(void)
{
    while (clock() < CLOCKS_PER_SEC * WORK_MS / 1000)
        ;
}

static void copy(void)
{
    static char bytes[BYTES];
    int in = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
    if (in < 0 || out < 0 || read(in, bytes, BYTES) != BYTES || write(out, bytes, BYTES) != BYTES)
        _exit(1);
}

/* A session whose leader does nothing itself: a child that works and ends, one that copies and is an
 * orphan. It says when they are done, and waits to be killed. */
static pid_t start(int *ready)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            work();
            _exit(0);
        }
        wait(NULL);
        if (fork() == 0) {
            if (fork() == 0) {
                copy();
                (void)!write(fds[1], "x", 1);
                alarm(LEFT_S);
                for (;;)
                    pause();
            }
            _exit(0);
        }
        wait(NULL);
        alarm(LEFT_S); /* should the test fail */
        for (;;)
            pause();
    }
    close(fds[1]);
    *ready = fds[0];
    return pid;
}

static void a_tree_is_what_a_process_has_started(void **state)
{
    (void)state;
    int ready;
    char byte;
    pid_t pid = start(&ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    struct process_tree trees[] = {{.root = 0, .cpu_ms = 9}, {.root = pid}, {.root = 0x7fffffff}};
    process_tree_read(trees, 3);
    assert_true(trees[0].cpu_ms == 0 && trees[0].io_bytes == 0);
    assert_true(trees[2].cpu_ms == 0 && trees[2].io_bytes == 0);
    assert_true(trees[1].cpu_ms >= WORK_MS - 20);
    /* a kernel without accounting of I/O has no such file */
    assert_true(trees[1].io_bytes >= 2 * BYTES || access("/proc/self/io", R_OK) != 0);
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(ready, &byte, 1) > 0) /* the orphan is gone too */
        ;
    close(ready);
    /* its last descriptor is closed a little before its entry in /proc goes */
    for (int ms = 0; ms < LEFT_S * 1000 && (process_tree_read(trees, 3), trees[1].cpu_ms != 0); ms++)
        usleep(1000);
    assert_true(trees[1].cpu_ms == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_tree_is_what_a_process_has_started)};
    return cmocka_run_group_tests_name("process_tree", tests, NULL, NULL);
}
