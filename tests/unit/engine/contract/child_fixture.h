/* SPDX-License-Identifier: Apache-2.0 */
/* child_fixture.h - runs a function in a separate process, which it may end; captures its stderr */
#ifndef TESTS_UNIT_ENGINE_CONTRACT_CHILD_FIXTURE_H
#define TESTS_UNIT_ENGINE_CONTRACT_CHILD_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the exit code, which is that of fn(arg) if it returns; `said`: its stderr, cut at `size`. */
static inline int child_run(int (*fn)(unsigned arg), unsigned arg, char *said, size_t size)
{
    int to[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(to), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(to[1], STDERR_FILENO);
        _exit(fn(arg));
    }
    close(to[1]);
    while ((got = read(to[0], said + n, size - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(to[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#endif
