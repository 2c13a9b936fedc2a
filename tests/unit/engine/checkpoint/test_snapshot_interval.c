/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot_interval.c - the least interval whose snapshots cost at most 2 % of the steps */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/checkpoint/snapshot_interval.h"

static void the_least_interval_costs_at_most_two_per_cent(void **state)
{
    (void)state;
    for (double bytes = 1e5; bytes < 1e11; bytes *= 3.7)
        for (double rate = 1e9; rate < 1e12; rate *= 3.1)
            for (double step_s = 1e-3; step_s < 100; step_s *= 2.3) {
                const struct snapshot_pace p = {bytes, rate, step_s};
                const int n = snapshot_interval(&p);
                const double copy_s = bytes / rate;
                assert_in_range(n, 1, SNAPSHOT_INTERVAL_MOST);
                if (n < SNAPSHOT_INTERVAL_MOST)
                    assert_true(copy_s <= 1.000001 * SNAPSHOT_COST * n * step_s);
                if (n > 1)
                    assert_true(copy_s > 0.999999 * SNAPSHOT_COST * (n - 1) * step_s);
            }
}

static void known_runs(void **state)
{
    (void)state;
    static const struct {
        struct snapshot_pace pace;
        int                  every;
    } rows[] = {
        {{19.2e9, 50e9, 0.95}, 21}, /* Sana-1600M on one H200 */
        {{1e6, 10e9, 0.1}, 1},
        {{19.2e9, 50e9, 1e-6}, SNAPSHOT_INTERVAL_MOST},
        {{0, 50e9, 1}, 1}, {{19.2e9, 0, 1}, 1}, {{19.2e9, 50e9, 0}, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(snapshot_interval(&rows[i].pace), rows[i].every);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_interval_costs_at_most_two_per_cent),
        cmocka_unit_test(known_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
