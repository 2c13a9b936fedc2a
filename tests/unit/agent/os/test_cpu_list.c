/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_list.c - lists of processors: read, shared, bound to */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/os/cpu_list.h"

static void lists_are_counted(void **state)
{
    static const struct {
        const char *list;
        int         count;
    } rows[] = {
        {"0-3", 4},   {"0-3,8", 5}, {"5", 1},       {"0-1,0-1", 2}, {"", 0},
        {"0-3\n", 4}, {"x", 0},     {"3-1", 0},     {"0-", 0},      {"-1", 0},
        {"0-9999", 0}, {"1;2", 0},  {"0-31,64-95", 64},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (cpu_list_count(rows[i].list) != rows[i].count)
            fail_msg("'%s' has %d, not %d", rows[i].list, cpu_list_count(rows[i].list), rows[i].count);
}

static void two_lists_have_some_in_common(void **state)
{
    char out[64];
    (void)state;
    assert_int_equal(cpu_list_common(out, sizeof(out), "0-31,64-95", "16-70"), 23);
    assert_string_equal(out, "16-31,64-70");
    assert_int_equal(cpu_list_common(out, sizeof(out), "0-3", "4-7"), 0);
    assert_string_equal(out, "");
    assert_int_equal(cpu_list_common(out, 4, "0,2,4,6", "0-7"), 0); /* no room: nothing, not half */
    assert_string_equal(out, "");
}

static void a_mask_has_its_processors(void **state)
{
    _Alignas(cpu_set_t) unsigned char bytes[CPU_LIST_BYTES];
    (void)state;
    const cpu_set_t *mask = cpu_list_mask(bytes, "1,2000-2001");
    assert_non_null(mask);
    assert_int_equal(CPU_COUNT_S(CPU_LIST_BYTES, mask), 3);
    assert_true(CPU_ISSET_S(2001, CPU_LIST_BYTES, mask));
    assert_null(cpu_list_mask(bytes, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_counted),
        cmocka_unit_test(two_lists_have_some_in_common),
        cmocka_unit_test(a_mask_has_its_processors),
    };
    return cmocka_run_group_tests_name("cpu_list", tests, NULL, NULL);
}
