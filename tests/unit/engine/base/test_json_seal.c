/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_seal.c - each flipped bit in a sealed object is detected, unless the object's meaning is unchanged */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/json_seal.h"

static json_t *sealed(void)
{
    json_t *o = json_pack("{s:i, s:s, s:b}", "pid", 4711, "nonce", "0123456789abcdef", "released", 0);
    assert_int_equal(json_seal(o), 0);
    return o;
}

static void a_whole_one_is_accepted(void **state)
{
    (void)state;
    json_t *o = sealed(), *old = json_pack("{s:i}", "pid", 1);
    assert_false(json_seal_broken(o));
    assert_int_equal(json_seal(o), 0);      /* once more */
    assert_false(json_seal_broken(o));
    assert_false(json_seal_broken(old));    /* of an earlier version */
    json_decref(o);
    json_decref(old);
}

static void each_flipped_bit_shows(void **state)
{
    (void)state;
    json_t *o = sealed();
    char *text = json_dumps(o, JSON_COMPACT), *sum = strstr(text, "\"sum\"");
    int parsed = 0;
    for (size_t bit = 0; bit < 8 * strlen(text); bit++) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        json_t *now = json_loads(text, 0, NULL);
        parsed += now != NULL;
        if (now && (text + bit / 8 < sum || text + bit / 8 > sum + 4))     /* the name "sum" itself */
            assert_true(json_seal_broken(now));
        json_decref(now);
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_in_range(parsed, 100, 1000);
    free(text);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_whole_one_is_accepted),
                                       cmocka_unit_test(each_flipped_bit_shows)};
    return cmocka_run_group_tests_name("json seal", tests, NULL, NULL);
}
