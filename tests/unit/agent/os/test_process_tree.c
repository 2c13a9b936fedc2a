/* SPDX-License-Identifier: Apache-2.0 */
/* test_process_tree.c - a process, its children, and those of its session */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/process_tree.h"

enum { LEFT_S = 60 };

/* A session whose leader has an orphan in it: its pid is said, then a byte once its parent is gone. All end when they are
 * killed. */
static pid_t start(int said)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        alarm(LEFT_S); /* should the test fail */
        if (fork() == 0) {
            const pid_t orphan = fork();
            if (orphan == 0) {
                alarm(LEFT_S);
                for (;;)
                    pause();
            }
            (void)!write(said, &orphan, sizeof(orphan));
            _exit(0);
        }
        wait(NULL);
        (void)!write(said, "", 1);
        for (;;)
            pause();
    }
    close(said);
    return pid;
}

static int tree_of(const struct process_tree_entry *all, size_t n, int64_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == pid)
            return all[i].tree;
    return -1;
}

static void a_tree_is_what_a_process_has_started(void **state)
{
    (void)state;
    int fds[2];
    size_t n;
    pid_t orphan;
    assert_int_equal(pipe(fds), 0);
    const pid_t pid = start(fds[1]);
    char alone;
    assert_int_equal(read(fds[0], &orphan, sizeof(orphan)), sizeof(orphan));
    assert_int_equal(read(fds[0], &alone, 1), 1);
    const int64_t roots[] = {0, pid, 0x7fffffff};
    struct process_tree_entry *all = process_tree_find(roots, 3, &n);
    assert_int_equal(n, 2);
    assert_int_equal(tree_of(all, n, pid), 1);
    assert_int_equal(tree_of(all, n, orphan), 1);
    free(all);
    assert_null(process_tree_find(roots, 1, &n));
    assert_int_equal(n, 0);
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(fds[0], &orphan, 1) > 0) /* the orphan is gone too */
        ;
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_tree_is_what_a_process_has_started)};
    return cmocka_run_group_tests_name("process_tree", tests, NULL, NULL);
}
