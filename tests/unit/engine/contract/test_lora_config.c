/* SPDX-License-Identifier: Apache-2.0 */
/* test_lora_config.c - targets name layers as peft's do; exceptions override the rest */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/contract/lora_config.h"

static void a_target_is_the_end_of_a_name(void **state)
{
    (void)state;
    assert_int_equal(lora_config_targets("to_q"), 1u << LORA_SELF_Q | 1u << LORA_CROSS_Q);
    assert_int_equal(lora_config_targets("attn2.to_q"), 1u << LORA_CROSS_Q);
    assert_int_equal(lora_config_targets("to_out.0"), 1u << LORA_SELF_OUT | 1u << LORA_CROSS_OUT);
    assert_int_equal(lora_config_targets("conv_point"), 1u << LORA_MLP_OUT);
    assert_int_equal(lora_config_targets("o_q"), 0);
    assert_int_equal(lora_config_targets(""), 0);
    assert_int_equal(lora_config_targets("conv_depth"), 0);
    assert_int_equal(lora_config_default(), 1u << LORA_SELF_Q | 1u << LORA_SELF_K | 1u << LORA_SELF_V |
                                                1u << LORA_CROSS_Q | 1u << LORA_CROSS_K | 1u << LORA_CROSS_V);
}

static void names_are_read_again(void **state)
{
    (void)state;
    for (int m = 0; m < LORA_MODULES; m++)
        assert_int_equal(lora_config_module(lora_config_name((enum lora_module)m)), m);
    assert_int_equal(lora_config_module("to_q"), LORA_MODULES);
}

static void exceptions_override_the_rest(void **state)
{
    const struct lora_config c = {
        .rank = 4, .alpha = 8, .targets = 1u << LORA_SELF_Q | 1u << LORA_SELF_K, .exceptions = 3,
        .exception = {{-1, LORA_SELF_K, 16, 4}, {2, LORA_SELF_Q, 0, 0}, {3, LORA_MLP_IN, 2, 6}},
    };
    (void)state;
    assert_int_equal(lora_config_rank(&c, 0, LORA_SELF_Q), 4);
    assert_int_equal(lora_config_rank(&c, 2, LORA_SELF_Q), 0);
    assert_int_equal(lora_config_rank(&c, 2, LORA_SELF_V), 0);
    assert_int_equal(lora_config_rank(&c, 2, LORA_SELF_K), 16);
    assert_int_equal(lora_config_rank(&c, 3, LORA_MLP_IN), 2);
    assert_true(fabs(lora_config_scale(&c, 0, LORA_SELF_Q) - 2) < 1e-12);
    assert_true(fabs(lora_config_scale(&c, 0, LORA_SELF_K) - 0.25) < 1e-12);
    assert_true(fabs(lora_config_scale(&c, 3, LORA_MLP_IN) - 3) < 1e-12);
    assert_true(fabs(lora_config_scale(&c, 2, LORA_SELF_Q)) < 1e-12);
}

static void rslora_divides_by_the_root(void **state)
{
    const struct lora_config c = {.rank = 16, .alpha = 8, .rslora = true, .targets = lora_config_default()};
    (void)state;
    assert_true(fabs(lora_config_scale(&c, 0, LORA_SELF_Q) - 2) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_is_the_end_of_a_name),
        cmocka_unit_test(names_are_read_again),
        cmocka_unit_test(exceptions_override_the_rest),
        cmocka_unit_test(rslora_divides_by_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
