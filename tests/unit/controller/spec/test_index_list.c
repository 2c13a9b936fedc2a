/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "controller/spec/index_list.h"
#include "engine/base/err.h"

static void lists_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *is;
        int         count, at_once;
    } table[] = {
        {"0", "0", 1, 0},           {"0-3", "0-3", 4, 0},      {"0-15:4", "0,4,8,12", 4, 0}, {"1,3,7", "1,3,7", 3, 0},
        {"7,1-2", "1,2,7", 3, 0},   {"0-99%8", "0-99", 100, 8}, {"5-5", "5", 1, 0},          {"0-9:100", "0", 1, 0},
        {"63-65", "63-65", 3, 0},   {"99999", "99999", 1, 0},  {"0-9999", "0-9999", 10000, 0},
        {"1,2,3,5%99999", "1-3,5", 4, INDEX_COUNT_MAX},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct index_list list;
        struct err err = {0};
        assert_int_equal(index_list_parse(&list, table[i].text, &err), 0);
        assert_int_equal(list.count, table[i].count);
        assert_int_equal(list.at_once, table[i].at_once);
        char *text = index_list_text(&list);
        assert_string_equal(text, table[i].is);
        free(text);
    }
}

static void mistakes_have_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } table[] = {
        {"", "expected indices"},         {"a", "expected indices"},      {"1-", "expected indices"},
        {"1,,2", "expected indices"},     {"1,", "expected indices"},     {"-1", "expected indices"},
        {"0-3%", "expected indices"},     {"0-3%x", "expected indices"},  {"0-3 ", "expected indices"},
        {" 0-3", "expected indices"},     {"0-3:", "expected indices"},   {"0x4", "expected indices"},
        {"5-1", "runs backwards; write 1-5"}, {"1,1", "index 1 is given twice"}, {"0-4,3", "index 3 is given twice"},
        {"0-10000", "at most 10000"},     {"100000", "from 0 to 99999"},  {"9999999999999999999999", "from 0 to 99999"},
        {"0-99999999999", "from 0 to 99999"}, {"0-3%0", "%0 would let no member start"}, {"0-3:0", "the step of"},
        {"0-3:99999999999", "the step of"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct index_list list;
        struct err err = {0};
        if (index_list_parse(&list, table[i].text, &err) == 0 || !strstr(err.text, table[i].says))
            fail_msg("\"%s\": %s", table[i].text, err.text);
        assert_int_equal(err.code, ERR_USAGE);
    }
}

static void next_finds_each_once(void **state)
{
    (void)state;
    static const int indices[] = {0, 1, 63, 64, 127, 128, 5000, 99998, 99999};
    struct index_list list = {.count = 0};
    size_t n = 0;
    for (size_t i = sizeof(indices) / sizeof(indices[0]); i-- > 0;) {
        assert_true(index_list_add(&list, indices[i]));
        assert_false(index_list_add(&list, indices[i]));
    }
    for (int i = index_list_next(&list, -1); i >= 0; i = index_list_next(&list, i))
        assert_int_equal(i, indices[n++]);
    assert_int_equal(n, sizeof(indices) / sizeof(indices[0]));
    assert_false(index_list_has(&list, 2));
    assert_false(index_list_has(&list, INDEX_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_are_parsed), cmocka_unit_test(mistakes_have_a_sentence),
                                       cmocka_unit_test(next_finds_each_once)};
    return cmocka_run_group_tests_name("index_list", tests, NULL, NULL);
}
