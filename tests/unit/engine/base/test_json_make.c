/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_make.c - JSON of any text: foreign encodings, and texts cut at each byte */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "engine/base/json_make.h"

#define BAD "\xEF\xBF\xBD"

/* Takes the value. */
static void expect(json_t *made, const char *text)
{
    assert_non_null(made);
    char *said = json_dumps(made, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(said);
    assert_string_equal(said, text);
    free(said);
    json_decref(made);
}

static void every_format(void **state)
{
    (void)state;
    json_t *kept = json_integer(7);
    expect(json_make("{s:s, s:i, s:I, s:f, s:b, s:b, s:n}", "s", "x", "i", -1, "I", (json_int_t)1 << 40, "f", 0.5, "t",
                     2, "b", 0, "n"),
           "{\"s\":\"x\",\"i\":-1,\"I\":1099511627776,\"f\":0.5,\"t\":true,\"b\":false,\"n\":null}");
    expect(json_make("[{s:[ii]}, [], {},\n[s]]", "a", 1, 2, "b"), "[{\"a\":[1,2]},[],{},[\"b\"]]");
    expect(json_make("{s:o, s:O, s:O?, s:o?, s:O*, s:o*, s:O*}", "o", json_true(), "O", kept, "O?", NULL, "o?", NULL,
                     "no", NULL, "no", NULL, "O*", kept),
           "{\"o\":true,\"O\":7,\"O?\":null,\"o?\":null,\"O*\":7}");
    expect(json_make("{s:s?, s:s*, s:s*, s:s?}", "null", NULL, "out", NULL, "in", "x", "here", "y"),
           "{\"null\":null,\"in\":\"x\",\"here\":\"y\"}");
    expect(json_make("[s*, s?, i]", NULL, NULL, 3), "[null,3]");
    expect(json_make("s", "x"), "\"x\"");
    assert_int_equal(kept->refcount, 1);
    json_decref(kept);
}

static void an_event_is_not_lost_by_one_of_its_values(void **state)
{
    (void)state;
    expect(json_make("{s:i, s:s, s:s, s:f, s:f}", "code", 7, "text", "caf\xE9!", "none", NULL, "loss", NAN, "grad",
                     INFINITY),
           "{\"code\":7,\"text\":\"caf" BAD "!\",\"none\":null,\"loss\":null,\"grad\":null}");
    expect(json_make("{s:i}", "k\xE9y", 1), "{\"k" BAD "y\":1}");
}

/* As json_pack(): the caller's own failure, and a format that does not exist. */
static void a_value_that_failed(void **state)
{
    static const char *const wrong[] = {"", "{s:s", "{i:i}", "{s:q, s:s}", "[s", "[q]", "s#", "{s:s}}", "x"};
    (void)state;
    json_t *given = json_integer(1);
    assert_null(json_make("{s:o, s:o}", "absent", NULL, "given", json_incref(given)));
    assert_null(json_make("[o, O]", json_incref(given), NULL));
    assert_int_equal(given->refcount, 1);
    json_decref(given);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(json_make(wrong[i], "a", "b", "c"));
}

/* The same words in the encodings that programs print; then cut at each byte, with and without text behind it. */
static void every_encoding_cut_at_each_byte(void **state)
{
    static const char *const texts[] = {
        "ValueError: \xE5\x9B\xBE\xE5\x83\x8F\xE6\x8D\x9F\xE5\x9D\x8F \xF0\x9F\x98\x80 \xC3\xA9", /* UTF-8 */
        "ValueError: \xCD\xBC\xCF\xF1\xCB\xF0\xBB\xB5",                                           /* GBK */
        "ValueError: \xB9\xCF\xB9\xB3\xB7\x6C\xC3\x61",                                           /* Big5 */
        "ValueError: \x89\xE6\x91\x9C\x91\xB9\x8F\x9D",                                           /* Shift JIS */
        "ValueError: donn\xE9"
        "es corrompues",                                        /* Latin-1 */
        "V\0a\0l\0u\0\xFE\x56\xCF\x50",                         /* UTF-16 */
        "\xFF\xFE\x00\x00\xED\xA0\x80\xC0\x80\xF5\x80\x80\x80", /* what no text has */
    };
    static const size_t sizes[] = {32, 20, 20, 20, 31, 12, 13};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t n = 0; n <= sizes[i]; n++) {
            char cut[64], behind[80];
            memcpy(cut, texts[i], n);
            cut[n] = '\0';
            memcpy(behind, cut, n);
            memcpy(behind + n, "; more", 7);
            json_t *made = json_make("{s:i, s:s, s:s, s:o, s:o}", "exit_code", 7, "cut", cut, "behind", behind, "bytes",
                                     json_text_n(texts[i], n), "said", json_text_f("%s: %.*s", "rank 0", (int)n, cut));
            assert_non_null(made);
            char *said = json_dumps(made, JSON_COMPACT);
            assert_non_null(said);
            json_t *again = json_loads(said, 0, NULL);
            assert_true(json_equal(made, again));
            assert_int_equal(json_integer_value(json_object_get(again, "exit_code")), 7);
            if (i == 0 && n > 15) /* a cut is not to be seen */
                assert_memory_equal(json_string_value(json_object_get(again, "cut")), texts[i],
                                    json_string_length(json_object_get(again, "cut")));
            json_decref(again);
            json_decref(made);
            free(said);
        }
}

static void what_a_replacement_stands_for(void **state)
{
    (void)state;
    expect(json_text("caf\xE9"), "\"caf" BAD "\"");
    expect(json_text("\xCB\xF0 \xCD\xF1"), "\"" BAD BAD " " BAD BAD "\"");
    expect(json_text("\xE5\x9B\xBE\xE5\x83"), "\"\xE5\x9B\xBE\"");
    expect(json_text_n("\xE5\x9B\xBE\xE5\x83", 5), "\"\xE5\x9B\xBE" BAD "\"");
    expect(json_text("\xE5\x83; \xF0\x9F\x98;\xE9\xE9"), "\"" BAD "; " BAD ";" BAD BAD "\"");
    expect(json_text_n("a\0b", 3), "\"a" BAD "b\"");
    expect(json_text_f("%s%c", "x", 0xFF), "\"x" BAD "\"");
    expect(json_text(""), "\"\"");
    assert_null(json_text(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(an_event_is_not_lost_by_one_of_its_values),
        cmocka_unit_test(a_value_that_failed),
        cmocka_unit_test(every_encoding_cut_at_each_byte),
        cmocka_unit_test(what_a_replacement_stands_for),
    };
    return cmocka_run_group_tests_name("json make", tests, NULL, NULL);
}
