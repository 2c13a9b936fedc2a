/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_append.c - appends text; what does not fit is cut, and nothing after the buffer is changed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/text_append.h"

static void behind_what_is_there(void **state)
{
    (void)state;
    char text[16] = "";
    text_append(text, sizeof(text), "%d", 7);
    text_append(text, sizeof(text), "%s", "");
    text_append(text, sizeof(text), ", %s", "nine");
    assert_string_equal(text, "7, nine");
}

static void what_does_not_fit_is_cut(void **state)
{
    (void)state;
    struct {
        char text[6], behind[4];
    } b = { "abc", "xyz" };
    text_append(b.text, sizeof(b.text), "%s", "de");
    assert_string_equal(b.text, "abcde");
    text_append(b.text, sizeof(b.text), "%s", "f");
    assert_string_equal(b.text, "abcde");
    b.text[4] = '\0';
    text_append(b.text, sizeof(b.text), "%s", "EFGH");
    assert_string_equal(b.text, "abcdE");
    assert_string_equal(b.behind, "xyz");
}

static void no_character_is_cut(void **state)
{
    (void)state;
    char text[6] = "ab";
    text_append(text, sizeof(text), "%s", "\xC3\xA9\xC3\xA9");
    assert_string_equal(text, "ab\xC3\xA9");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(behind_what_is_there),
                                        cmocka_unit_test(what_does_not_fit_is_cut),
                                        cmocka_unit_test(no_character_is_cut) };
    return cmocka_run_group_tests_name("text append", tests, NULL, NULL);
}
