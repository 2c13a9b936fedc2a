/* SPDX-License-Identifier: Apache-2.0 */
/* test_pid_span.c - which pids were assigned since a given moment */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/pid_span.h"

enum { MAX = 32768 };

static void between(void **state)
{
    static const struct {
        struct pid_span then, now;
        bool            known;
    } table[] = {
        {{1000, 500}, {1010, 510}, true},
        {{1000, 500}, {1000, 500}, true},                 /* none */
        {{1000, 500}, {1010, 500 + MAX / 2 - 1}, true},   /* in a container the others fork, too */
        {{1000, 500}, {1010, 500 + MAX / 2}, false},      /* may have come around */
        {{32760, 500}, {310, 520}, false},                /* has come around */
        {{-1, 500}, {1010, 510}, false},                  /* a kernel that does not tell */
        {{1000, 500}, {-1, 510}, false},
        {{1000, -1}, {1010, 510}, false},
        {{1000, 500}, {1010, -1}, false},
        {{1000, 500}, {1010, 499}, false},                /* another machine */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int64_t after = 0, until = 0;
        assert_int_equal(pid_span_between(&table[i].then, &table[i].now, MAX, &after, &until), table[i].known);
        if (table[i].known) {
            assert_int_equal(after, table[i].then.last);
            assert_int_equal(until, table[i].now.last);
        }
    }
    int64_t after, until;
    assert_false(pid_span_between(&table[0].then, &table[0].now, -1, &after, &until)); /* its end is not known */
}

/* On any kernel: either it is not known, or a child is in it. */
static void a_child(void **state)
{
    const struct pid_span then = pid_span_now();
    int64_t after = 0, until = 0;
    (void)state;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    if (pid_span_since(&then, &after, &until)) {
        assert_true(after < pid);
        assert_true(pid <= until);
    }
    waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between),
        cmocka_unit_test(a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
