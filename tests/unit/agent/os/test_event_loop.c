/* SPDX-License-Identifier: Apache-2.0 */
/* test_event_loop.c - without free descriptors there is an error message, whichever one fails */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/os/event_loop.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/child_fixture.h"

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

static void test_sentences(void **state)
{
    char said[512];
    int seen[16] = {0};
    (void)state;
    for (unsigned spare = 0; spare < 16; spare++) {
        const int rc = child_run(open_with, spare, said, sizeof(said));
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
