/* SPDX-License-Identifier: Apache-2.0 */
/* test_event_loop.c - without free descriptors there is a sentence, at whichever of them it fails */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/event_loop.h"
#include "engine/contract/err.h"

enum { ENDED = 4, OPEN = 0, REFUSED = 5 };

/* In a child: opens a loop with so many free descriptors. */
static int open_with(unsigned spare)
{
    uv_loop_t loop;
    struct err err = {0};
    const int first = dup(0);
    const struct rlimit r = {(rlim_t)first + spare, (rlim_t)first + spare};
    close(first);
    if (setrlimit(RLIMIT_NOFILE, &r) < 0)
        return 6;
    const int rc = event_loop_open(&loop, &err);
    dprintf(2, "%s", err.text);
    return rc == 0 ? OPEN : REFUSED;
}

static int in_child(unsigned spare, char *said, size_t size)
{
    int to[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(to), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(to[1], 2);
        _exit(open_with(spare));
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

static void test_sentences(void **state)
{
    char said[512];
    int seen[16] = {0};
    (void)state;
    for (unsigned spare = 0; spare < 16; spare++) {
        const int rc = in_child(spare, said, sizeof(said));
        assert_true(rc == ENDED || rc == OPEN || rc == REFUSED);
        seen[rc]++;
        if (rc != OPEN)
            assert_non_null(strstr(said, "cannot make an event loop: Too many open files"));
    }
    assert_true(seen[ENDED] > 0 && seen[OPEN] > 0 && seen[REFUSED] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
