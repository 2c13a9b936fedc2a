/* SPDX-License-Identifier: Apache-2.0 */
/* test_nan_policy.c - how near two NaN losses may be before the run is given up */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/core/nan_policy.h"

static void a_second_one_nearby_gives_up(void **state)
{
    (void)state;
    static const struct {
        int64_t first, second;
        bool    goes_on;
    } table[] = {
        {0, NAN_POLICY_NEAR, false}, {0, NAN_POLICY_NEAR + 1, true}, {50, 50, false}, {50, 51, false},
        {50, 20, false}, /* it went back further than it skipped */
        {50, 50 + NAN_POLICY_NEAR, false}, {50, 51 + NAN_POLICY_NEAR, true},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct nan_policy s = {0};
        assert_true(nan_policy_decide(&s, table[i].first));
        assert_true(s.any && s.back && s.step == table[i].first);
        s.back = false; /* the generation has begun */
        assert_int_equal(nan_policy_decide(&s, table[i].second), table[i].goes_on);
        assert_int_equal(s.step, table[i].goes_on ? table[i].second : table[i].first);
        assert_int_equal(s.back, table[i].goes_on);
    }
}

static void an_unknown_step_is_not_skipped(void **state)
{
    (void)state;
    struct nan_policy s = {0};
    assert_true(nan_policy_decide(&s, -1));
    assert_false(s.any || s.back);
    assert_true(nan_policy_decide(&s, 7));
    assert_true(nan_policy_decide(&s, -1));
    assert_int_equal(s.step, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_second_one_nearby_gives_up),
                                       cmocka_unit_test(an_unknown_step_is_not_skipped)};
    return cmocka_run_group_tests_name("nan_policy", tests, NULL, NULL);
}
