/* SPDX-License-Identifier: Apache-2.0 */
/* test_field.c - fields of any shape, and the limits of numbers */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/field.h"

static void any_shape(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:s, s:i, s:f, s:I, s:n}", "text", "x", "int", -3, "real", 1.5, "huge",
                          (json_int_t)INT64_MIN, "null");
    static const char *const keys[] = { "text", "int", "real", "huge", "null", "missing" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_string_equal(field_text(o, keys[i]), i == 0 ? "x" : "");
        assert_int_equal(field_int(o, keys[i], 7), i == 1 ? -3 : i == 3 ? INT64_MIN : 7);
        assert_int_equal(field_safe_int(o, keys[i], 7), i == 1 ? -3 : 7);
    }
    assert_string_equal(field_text(NULL, "text"), "");
    assert_int_equal(field_int(json_object_get(o, "text"), "int", 7), 7);
    json_decref(o);
}

/* Beyond 2^53 other readers of JSON lose digits. */
static void whole_numbers_that_all_readers_keep(void **state)
{
    (void)state;
    const json_int_t most = (json_int_t)1 << 53;
    static const struct {
        json_int_t sign, over, safe;
    } rows[] = { { 1, 0, 1 }, { -1, 0, 1 }, { 1, 1, 0 }, { -1, 1, 0 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const json_int_t n = rows[i].sign * (most + rows[i].over);
        json_t *o = json_pack("{s:I}", "n", n);
        assert_int_equal(field_int(o, "n", 7), n);
        assert_int_equal(field_safe_int(o, "n", 7), rows[i].safe ? n : 7);
        json_decref(o);
    }
}

static void numbers_and_truth(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:s, s:i, s:f, s:b, s:b}", "text", "1", "int", 2, "real", 1.5, "yes", 1, "no", 0);
    assert_true(field_number(o, "int") == 2 && field_number(o, "real") == 1.5); /* a NaN is none, unlike for cmocka */
    assert_true(isnan(field_number(o, "text")) && isnan(field_number(o, "missing")));
    assert_true(isnan(field_number(NULL, "int")));
    assert_true(field_true(o, "yes"));
    assert_false(field_true(o, "no") || field_true(o, "int") || field_true(o, "missing"));
    assert_int_equal(field_seconds_ms(o, "real"), 1500);
    assert_int_equal(field_seconds_ms(o, "int"), 2000);
    assert_int_equal(field_seconds_ms(o, "text"), 0);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_shape),
                                        cmocka_unit_test(whole_numbers_that_all_readers_keep),
                                        cmocka_unit_test(numbers_and_truth) };
    return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
