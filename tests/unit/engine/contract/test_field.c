/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/contract/field.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_shape) };
    return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
