/* SPDX-License-Identifier: Apache-2.0 */
/* test_usage.c - when the counters of ranks are read, and whose they are; ranks and processes are this test's */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/monitor/activity.h"
#include "agent/monitor/tree_use.h"
#include "agent/monitor/usage.h"
#include "agent/ranks/ranks.h"
#include "tests/unit/engine/contract/clock_fixture.h"

static int first = 4, count = 2, passes;
static int64_t last_window;
static char last_first[80];

int ranks_first(const struct ranks *r)
{
    (void)r;
    return first;
}

int ranks_count(const struct ranks *r)
{
    (void)r;
    return count;
}

int64_t ranks_pid(const struct ranks *r, int rank)
{
    (void)r;
    return 1000 + rank;
}

uint64_t ranks_output_bytes(const struct ranks *r, int rank)
{
    (void)r;
    return (uint64_t)(10 * rank + now / SECOND);
}

int tree_use_create(struct tree_use **out, struct err *err)
{
    (void)err;
    *out = NULL;
    return 0;
}

void tree_use_destroy(struct tree_use *u)
{
    (void)u;
}

void tree_use_read(struct tree_use *u, const int64_t *roots, int n, int64_t window_ms, const char *address,
                   struct tree_use_sum *sums)
{
    (void)u;
    passes++;
    last_window = window_ms;
    strcpy(last_first, address);
    for (int i = 0; i < n; i++) {
        sums[i].work_us += (uint64_t)roots[i];
        sums[i].io_bytes += 2 * (uint64_t)roots[i];
        sums[i].moved_bytes += 3 * (uint64_t)roots[i];
    }
}

static struct activity_sample get(struct usage *u, int rank)
{
    struct activity_sample s;
    memset(&s, 255, sizeof(s));
    usage_get(u, rank, &s);
    return s;
}

static void output_each_second_and_counters_by_windows(void **state)
{
    (void)state;
    struct usage *u;
    assert_int_equal(usage_create(&u, NULL, NULL), 0);
    now = 50 * SECOND;
    usage_begin(u, 5 * SECOND, "10.0.0.1");
    for (int64_t ms = 0; ms < 12 * SECOND; ms += 200) {
        now = 50 * SECOND + ms;
        for (int rank = 4; rank < 6; rank++) {
            const struct activity_sample s = get(u, rank);
            const uint64_t n = 1 + (uint64_t)(ms / (5 * SECOND)), pid = 1000 + (uint64_t)rank;
            assert_int_equal(s.at_ms, 50 * SECOND + ms / SECOND * SECOND);
            assert_int_equal(s.output_bytes, 10 * rank + 50 + ms / SECOND);
            assert_int_equal(s.work_us, n * pid);
            assert_int_equal(s.io_bytes, 2 * n * pid);
            assert_int_equal(s.moved_bytes, 3 * n * pid);
            assert_int_equal(s.counted_ms, 50 * SECOND + ms / (5 * SECOND) * 5 * SECOND);
        }
    }
    assert_int_equal(passes, 3);
    assert_int_equal(last_window, 5 * SECOND);
    assert_string_equal(last_first, "10.0.0.1");
    /* Ranks of other nodes have none. */
    for (int rank = 3; rank < 7; rank += 3) {
        const struct activity_sample s = get(u, rank), none = {0};
        assert_memory_equal(&s, &none, sizeof(s));
    }
    /* A generation, and another number of ranks, begin with a reading. */
    usage_begin(u, 5 * SECOND, NULL);
    get(u, 4);
    assert_int_equal(passes, 4);
    assert_string_equal(last_first, "");
    count = 3;
    assert_int_equal(get(u, 6).work_us, 1006);
    assert_int_equal(passes, 5);
    usage_destroy(u);
    usage_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(output_each_second_and_counters_by_windows)};
    return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
