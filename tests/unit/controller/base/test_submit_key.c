/* SPDX-License-Identifier: Apache-2.0 */
/* keys of submits: generated keys are valid, invalid ones are refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "controller/base/submit_key.h"
#include "engine/base/err.h"

static void made(void **state)
{
    char one[SUBMIT_KEY_SIZE], two[SUBMIT_KEY_SIZE];
    struct err err = { 0 };
    (void)state;
    assert_int_equal(submit_key_make(one, &err), 0);
    assert_int_equal(submit_key_make(two, &err), 0);
    assert_int_equal(strlen(one), 32);
    assert_string_not_equal(one, two);
    assert_int_equal(submit_key_check(one, &err), 0);
}

static void checked(void **state)
{
    static const char *const wrong[] = { "", "a b", "a/b", "\xc3\xa4", "x\n",
                                         "12345678901234567890123456789012345678901234567890123456789012345" };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = { 0 };
        assert_int_equal(submit_key_check(wrong[i], &err), -1);
        assert_int_equal(err.code, ERR_USAGE);
    }
    assert_int_equal(submit_key_check("Night-7.retry_1", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(made), cmocka_unit_test(checked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
