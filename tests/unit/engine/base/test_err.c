/* SPDX-License-Identifier: Apache-2.0 */
/* test_err.c - an error is one printable line, whatever it quotes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *quoted, *text;
} rows[] = {
    {"plain", "plain"},
    {"", ""},
    {"Gr\xc3\xbc\xc3\x9f" "e, \xe2\x82\xac, \xf0\x9f\x98\x80",
     "Gr\xc3\xbc\xc3\x9f" "e, \xe2\x82\xac, \xf0\x9f\x98\x80"},
    {"two\nlines\tand\x1b[31mred\x7f", "two?lines?and?[31mred?"},
    {"next\xc2\x85line", "next??line"},             /* C1 control */
    {"cut\xe2\x82", "cut??"},                        /* "%.5s" of a longer character */
    {"\x80lone", "?lone"},
    {"\xc0\xaf", "??"},                              /* '/' in two bytes */
    {"\xe0\x80\xaf", "???"},
    {"\xed\xa0\x80", "???"},                         /* a surrogate */
    {"\xf4\x90\x80\x80", "????"},                    /* beyond Unicode */
    {"\xf8\x88\x80\x80\x80", "?????"},
    {"\xfa\x90\x80\x80", "????"},
};

static void test_printable(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_int_equal(err_set(&err, ERR_DATA, "%s", rows[i].quoted), -1);
        assert_string_equal(err.text, rows[i].text);
        struct err front = {0};
        err_set(&front, ERR_DATA, "x");
        assert_int_equal(err_prefix(&front, "%s: ", rows[i].quoted), -1);
        assert_memory_equal(front.text, rows[i].text, strlen(rows[i].text));
        assert_string_equal(front.text + strlen(rows[i].text), ": x");
    }
}

static void test_cut(void **state)
{
    (void)state;
    char many[2000];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(many, 'a', sizeof(many));
        for (size_t i = shift; i + 4 < sizeof(many); i += 3)
            memcpy(many + i, "\xe2\x82\xac", 3);
        many[sizeof(many) - 1] = '\0';
        struct err err = {0};
        err_set(&err, ERR_DATA, "%s", many);
        size_t n = strlen(err.text);
        assert_true(n < sizeof(err.text) && n > sizeof(err.text) - 8);
        assert_string_equal(err.text + n - 3, "...");
        assert_null(strchr(err.text, '?'));
    }
}

static void test_first_failure_stays(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_NOT_FOUND, "first");
    err_set(&err, ERR_BUG, "second");
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err_prefix(&err, "file: ");
    assert_string_equal(err.text, "file: first");
    assert_int_equal(err_set(NULL, ERR_BUG, "nobody listens"), -1);
    assert_int_equal(err_prefix(NULL, "nobody listens"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_first_failure_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
