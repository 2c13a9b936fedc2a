/* SPDX-License-Identifier: Apache-2.0 */
/* test_retry.c - the verdict and its text for each kind of failure; back-off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/retry.h"

static const struct retry_rules rules = { .max = 4, .no_progress = 3, .backoff_min_ms = 5000,
                                          .backoff_max_ms = 60000 };

static const struct {
    struct retry_case c;
    bool              again;
    int               exit_code;
    int64_t           least_ms, most_ms;
    const char       *says;
} cases[] = {
    { { .text = "rank 0 died", .helps = true, .failures = 1, .same = 1 }, true, 0, 0, 0,
      "rank 0 died" },
    { { .text = "rank 0 died", .helps = true, .failures = 2, .same = 2 }, true, 0, 3750, 5000,
      "rank 0 died" },
    { { .text = "x", .helps = true, .failures = 4, .same = 1, .random = 1 }, true, 0, 15000, 20000,
      "x" },
    { { .text = "x", .helps = true, .failures = 0, .same = 9 }, true, 0, 0, 0, "x" },
    { { .cause = "user_exit", .text = "exit 1", .helps = true, .failures = 3, .same = 3 }, false,
      93, 0, 0, "exit 1; not retried: the same failure (user_exit) 3 times in a row without a new step" },
    { { .text = "x", .helps = true, .failures = 5, .same = 1 }, false, 93, 0, 0,
      "x; not retried: retry limit (4) reached without progress" },
    { { .text = "no such config", .helps = false, .failures = 1 }, false, 1, 0, 0,
      "no such config; not retried, the same failure would recur" },
    { { .cause = "user_exit", .text = "exit 1; not retried: why", .early = true, .failures = 1, .same = 1 }, false, 1,
      0, 0, "exit 1; not retried: why" },
    { { .cause = "disk_full", .text = "no room", .helps = true, .failures = 9, .same = 9 }, true, 0, 45000, 60000,
      "no room" },
    { { .cause = "dir_in_use", .text = "job 3 writes", .helps = true, .failures = 1, .same = 1 }, true, 0, 3750, 5000,
      "job 3 writes" },
    { { .cause = "dir_in_use", .text = "job 3 writes", .helps = true, .failures = 0, .same = 99 }, true, 0, 45000,
      60000, "job 3 writes" },
    { { .cause = "host_unreachable", .text = "h1 refused", .helps = true, .same = 1 }, true, 0, 3750, 5000, "h1 refused" },
    { { .cause = "host_unreachable", .text = "h1 refused", .helps = true, .same = 99, .places = 1 }, true, 0, 45000, 60000,
      "h1 refused" },
    { { .cause = "host_unreachable", .text = "h1 refused", .helps = true, .same = 1, .places = 3 }, true, 0, 0, 0, "h1" },
    { { .cause = "host_unreachable", .text = "h2 refused", .helps = true, .same = 2, .places = 3 }, true, 0, 0, 0, "h2" },
    { { .cause = "host_unreachable", .text = "h3 refused", .helps = true, .same = 3, .places = 3 }, true, 0, 3750, 5000, "h3" },
    { { .cause = "host_unreachable", .text = "h1 refused", .helps = true, .same = 4, .places = 3 }, true, 0, 0, 0, "h1" },
    { { .cause = "host_unreachable", .text = "h3 refused", .helps = true, .same = 6, .places = 3 }, true, 0, 7500, 10000, "h3" },
    { { .cause = "disk_full", .text = "no room on h1", .helps = true, .same = 1, .places = 2 }, true, 0, 0, 0, "no room" },
    { { .cause = "disk_full", .text = "no room on h2", .helps = true, .same = 2, .places = 2 }, true, 0, 3750, 5000, "no room" },
    { { .cause = "host_unusable", .text = "h1 has no home", .places = 1 }, true, 0, 0, 0, "h1 has no home" },
    { { .cause = "too_few_gpus", .text = "h1 has 1 of 2 GPUs", .places = 1 }, true, 0, 0, 0, "h1 has 1 of 2 GPUs" },
    { { .cause = "host_unusable", .text = "h1 has no home" }, false, 1, 0, 0,
      "h1 has no home; not retried, the same failure would recur" },
    { { .cause = "slurm_refused", .text = "no such partition", .places = 3 }, false, 1, 0, 0,
      "no such partition; not retried, the same failure would recur" },
    { { .text = "restart limit (4) reached", .helps = true, .gave_up = true, .failures = 1 }, false, 93,
      0, 0, "restart limit (4) reached" },
};

static void verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct retry_verdict v;
        retry_decide(&v, &rules, &cases[i].c);
        if (!strstr(v.text, cases[i].says))
            fail_msg("case %zu says '%s', expected '%s'", i, v.text, cases[i].says);
        assert_int_equal(v.again, cases[i].again);
        assert_int_equal(v.exit_code, cases[i].exit_code);
        assert_in_range(v.delay_ms, cases[i].least_ms, cases[i].most_ms);
    }
}

/* Without retries another host is tried, as nothing of the job has begun; none is tried twice. */
static void no_retries_is_no_other_try_of_a_host(void **state)
{
    (void)state;
    const struct retry_rules none = { .max = 0 };
    struct retry_verdict v;
    struct retry_case c = { .cause = "host_unreachable", .text = "h1 refused", .helps = true, .same = 1, .places = 2 };
    retry_decide(&v, &none, &c);
    assert_true(v.again);
    c.same = 2;
    retry_decide(&v, &none, &c);
    assert_false(v.again);
    assert_string_equal(v.text, "h1 refused; not retried: retry.max is 0");
}

static void backoff_is_bounded(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        for (uint64_t r = 0; r < 50; r++) {
            int64_t ms = retry_backoff(&rules, n, r * 977);
            assert_in_range(ms, 0, rules.backoff_max_ms);
            if (n >= 2)
                assert_true(ms >= rules.backoff_min_ms * 3 / 4);
        }
    }
    const struct retry_rules none = { .max = 1 };
    assert_int_equal(retry_backoff(&none, 50, 12345), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(no_retries_is_no_other_try_of_a_host),
        cmocka_unit_test(backoff_is_bounded),
    };
    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
