/* SPDX-License-Identifier: Apache-2.0 */
/* test_diagnostics.c - mistakes are ordered by line, without duplicates, limited, and survive
 * JSON */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "controller/base/diagnostics.h"

static void add(struct diagnostics *f, int line, int column, const char *text)
{
    struct err err = {.code = ERR_NONE};
    err_set(&err, ERR_USAGE, "%s", text);
    diagnostics_add(f, line, column, &err);
}

/* The texts, joined. */
static const char *all(const struct diagnostics *f)
{
    static char text[DIAGNOSTICS_MAX * 8];
    text[0] = '\0';
    for (int i = 0; i < f->count; i++)
        strncat(text, f->list[i].err.text, 7);
    return text;
}

static void lines_are_in_order_and_the_command_line_is_last(void **state)
{
    (void)state;
    struct diagnostics f = {.count = 0};
    struct err first = {.code = ERR_NONE};
    assert_int_equal(diagnostics_first(&f, &first), 0);
    add(&f, 0, 0, "x");
    add(&f, 7, 2, "c");
    add(&f, 2, 9, "b");
    add(&f, 7, 2, "d");
    add(&f, 2, 1, "a");
    add(&f, 0, 0, "y");
    assert_string_equal(all(&f), "abcdxy");
    assert_int_equal(diagnostics_first(&f, &first), -1);
    assert_string_equal(first.text, "a");
}

static void one_sentence_about_one_place_is_told_once(void **state)
{
    (void)state;
    struct diagnostics f = {.count = 0};
    add(&f, 3, 1, "a");
    add(&f, 3, 1, "a");
    add(&f, 3, 2, "a");
    assert_string_equal(all(&f), "aa");
}

static void of_very_many_the_first_lines_are_kept(void **state)
{
    (void)state;
    struct diagnostics f = {.count = 0};
    for (int line = 30; line >= 1; line--)
        add(&f, line, 1, line == 1 ? "first" : "a");
    add(&f, 99, 1, "last");
    assert_int_equal(f.count, DIAGNOSTICS_MAX);
    assert_int_equal(f.more, 31 - DIAGNOSTICS_MAX);
    for (int i = 0; i < f.count; i++)
        assert_int_equal(f.list[i].line, i + 1);
}

static void an_answer_carries_them(void **state)
{
    (void)state;
    struct diagnostics f = {.count = 0}, back;
    for (int line = 1; line <= 22; line++)
        add(&f, line, 4, "wrong");
    json_t *answer = diagnostics_to_json(&f, "x.yaml");
    const json_t *error = json_object_get(answer, "error");
    assert_string_equal(json_string_value(json_object_get(error, "file")), "x.yaml");
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 1);
    assert_int_equal(json_integer_value(json_object_get(answer, "more")), 2);
    diagnostics_from_json(&back, answer);
    json_decref(answer);
    assert_int_equal(back.count, f.count);
    assert_int_equal(back.more, f.more);
    assert_int_equal(back.list[19].line, 20);
    assert_int_equal(back.list[19].column, 4);

    f.count = f.more = 0;
    answer = diagnostics_to_json(&f, "x.yaml");
    assert_int_equal(json_object_size(answer), 0);
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_in_order_and_the_command_line_is_last),
        cmocka_unit_test(one_sentence_about_one_place_is_told_once),
        cmocka_unit_test(of_very_many_the_first_lines_are_kept),
        cmocka_unit_test(an_answer_carries_them),
    };
    return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
