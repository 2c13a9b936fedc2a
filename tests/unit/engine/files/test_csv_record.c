/* SPDX-License-Identifier: Apache-2.0 */
/* test_csv_record.c - records of CSV: with quotes, commas and line ends, and invalid ones */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/files/csv_record.h"

static void cut(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fields; /* with | between them; NULL: refused */
    } all[] = {{"a,b", "a|b"},
               {"a,b\r\n", "a|b"},
               {"", ""},
               {",,\n", "||"},
               {"\"a, b\",\"say \"\"hi\"\"\"\n", "a, b|say \"hi\""},
               {"\"\",x", "|x"},
               {"\"two\nlines\",x\n", "two\nlines|x"},
               {" a , b ", " a | b "},
               {"\"\"\"\"", "\""},
               {"a\"b,c", "a\"b|c"},
               {"\"a\"b,c", NULL},
               {"\"a", NULL},
               {"\"", NULL},
               {"a\rb", NULL}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[80], said[160] = "", *field[CSV_FIELDS];
        struct err err = {0};
        snprintf(text, sizeof(text), "%s", all[i].text);
        const int n = csv_record_split(field, text, &err);
        for (int k = 0; k < n; k++)
            snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s%s", k ? "|" : "", field[k]);
        assert_int_equal(n < 0, all[i].fields == NULL);
        assert_string_equal(said, n < 0 ? "" : all[i].fields);
    }
}

static void whole(void **state)
{
    (void)state;
    assert_true(csv_record_is_whole("a,\"b\"\n", 6));
    assert_false(csv_record_is_whole("a,\"b\n", 5));
    assert_true(csv_record_is_whole("\"\"\"\"", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut), cmocka_unit_test(whole)};
    return cmocka_run_group_tests_name("csv record", tests, NULL, NULL);
}
