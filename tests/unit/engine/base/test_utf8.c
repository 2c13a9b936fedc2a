/* SPDX-License-Identifier: Apache-2.0 */
/* test_utf8.c - every character encoded and decoded; invalid and truncated ones */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "engine/base/utf8.h"

static void test_there_and_back(void **state)
{
    (void)state;
    size_t characters = 0;
    for (uint32_t c = 0; c < 0x120000; c++) {
        char text[4];
        uint32_t read = c + 1;
        const size_t n = utf8_write(text, c);
        characters += n > 0;
        if (n == 0)
            continue;
        assert_int_equal(utf8_read(text, n, &read), n);
        assert_int_equal(read, c);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(utf8_read(text, cut, &read), 0);
            assert_true(utf8_is_cut(text, cut));
        }
        assert_false(utf8_is_cut(text, n));
    }
    assert_int_equal(characters, 0x110000 - 0x800);
}

/* None of these begins a character, whatever follows. */
static void test_no_character(void **state)
{
    static const char *const texts[] = {
        "\x80", "\xBF", "\xC0", "\xC1", "\xC0\x80", "\xE0\x80", "\xE0\x9F", "\xED\xA0", "\xED\xBF", "\xF0\x80",
        "\xF0\x8F", "\xF4\x90", "\xF5", "\xF8", "\xFF", "\xC3\x28", "\xE2\x28", "\xE2\x82\x28", "\xF0\x9F\x28",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint32_t c;
        assert_int_equal(utf8_read(texts[i], strlen(texts[i]), &c), 0);
        assert_false(utf8_is_cut(texts[i], strlen(texts[i])));
    }
    assert_false(utf8_is_cut("", 0));
}

static void test_whole(void **state)
{
    static const char text[] = "a\xC3\xA9\xE5\x9B\xBE\xF0\x9F\x98\x80z";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    (void)state;
    for (size_t n = 0; n <= 11; n++) {
        assert_int_equal(utf8_whole(text, n), whole[n]);
        assert_int_equal(utf8_fit(text, 11, n), whole[n]);
        assert_int_equal(utf8_fit(text, n, 11), n);
        assert_int_equal(utf8_valid(text, n), whole[n] == n);
    }
    assert_int_equal(utf8_whole("\xE9\xE9\x80", 3), 1);
    assert_int_equal(utf8_whole("\x80\x80\x80\x80", 4), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_no_character),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
