/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer.c - a small tokenizer by hand; false or damaged files are refused with the place
 *
 * The authors' ids are compared by `make golden` (tests/golden/tokenizer).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"
#include "engine/text/bpe.h"
#include "engine/text/json_scan.h"
#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A file whose parts can be replaced. */
struct json_file {
    const char *added, *normalizer, *settings, *pieces, *merges;
};

static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}";
static const char pieces[] = "\"\\u2581\":4,\"a\":5,\"b\":6,\"ab\":7,\"\\u2581a\":8,\"aba\":9,\"\\ud83d\\ude00\":10";
#define ADDED(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"single_word\":false,\"lstrip\":false," \
                        "\"rstrip\":false,\"normalized\":false}"
static const char added[] = ADDED("0", "<pad>") "," ADDED("11", "<pad><pad>");
static const struct json_file whole = {added, replace, "\"type\":\"BPE\",\"byte_fallback\":true", pieces,
                                       "\"a b\",[\"\\u2581\",\"a\"],\"ab a\""};

/* The caller frees it. */
static char *json_text_of(const struct json_file *f)
{
    char *out = malloc(16384);
    int n = sprintf(out,
                    "{\"added_tokens\":[%s],\n\"normalizer\":%s,\n\"model\":{%s,\n\"vocab\":{\"<pad>\":0,\"<bos>\":2,",
                    f->added, f->normalizer, f->settings);
    for (int b = 0; b < 256; b++)
        n += sprintf(out + n, "\"<0x%02X>\":%d,", (unsigned)b, 100 + b);
    sprintf(out + n, "%s},\n\"merges\":[%s]}}", f->pieces, f->merges);
    return out;
}

static struct tokenizer *open_whole(void)
{
    struct tokenizer *t = NULL;
    struct err err = {0};
    char *text = json_text_of(&whole);
    tokenizer_parse(&t, text, strlen(text), &err);
    assert_string_equal(err.text, "");
    free(text);
    return t;
}

static void text_becomes_ids_and_text_again(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t     id[8];
        size_t      n;
        const char *back;
    } rows[] = {
        {"", {0}, 0, ""},
        {"ab", {7}, 1, "ab"},
        {"aab", {5, 7}, 2, "aab"},
        {"aba", {9}, 1, "aba"},
        {" ab", {4, 7}, 2, " ab"},          /* "a b" was added before "\u2581 a" */
        {" a", {8}, 1, " a"},
        {"\xE2\x96\x81" "a", {8}, 1, " a"}, /* U+2581 is a space from then on */
        {"a<pad>b", {5, 0, 6}, 3, "a<pad>b"},
        {"<pad><pad>", {11}, 1, "<pad><pad>"}, /* the longest first */
        {"<pad", {160, 212, 5, 200}, 4, "<pad"},
        {"\xF0\x9F\x98\x80", {10}, 1, "\xF0\x9F\x98\x80"},
        {"\xC3\xA9", {295, 269}, 2, "\xC3\xA9"},
        {"\xFF", {339, 291, 289}, 3, "\xEF\xBF\xBD"},
    };
    struct tokenizer *t = open_whole();
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct token_ids ids = {0};
        assert_int_equal(tokenizer_encode(t, &ids, rows[i].text, strlen(rows[i].text), &err), 0);
        assert_int_equal(ids.n, rows[i].n);
        assert_memory_equal(ids.id ? ids.id : rows[i].id, rows[i].id, rows[i].n * sizeof(int32_t));
        char *back = tokenizer_decode(t, ids.id, ids.n, NULL, &err);
        assert_string_equal(back, rows[i].back);
        free(back);
        free(ids.id);
    }
    assert_null(tokenizer_decode(t, (int32_t[]){3}, 1, NULL, &err));
    assert_string_equal(err.text, "the tokenizer has no token 3");
    tokenizer_close(t);
}

static void lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct json_file f; /* NULL: as in the whole file */
        const char      *says;
    } rows[] = {
        {{.settings = "\"type\":\"Unigram\""}, "line 3: model.type is \"Unigram\"; only \"BPE\" is supported"},
        {{.settings = "\"byte_fallback\":false"}, "line 3: model.byte_fallback is false; only true is supported"},
        {{.normalizer = "null"}, "there is no normalizer"},
        {{.normalizer = "{\"type\":\"NFKC\"}"}, "only Gemma's is supported"},
        {{.pieces = "\"a\":5,\"a\":6"}, "line 4: the piece \"a\" has two ids, 5 and 6"},
        {{.pieces = "\"a\":5,\"b\":5"}, "line 4: the id 5 has two pieces"},
        {{.pieces = "\"a\":-5"}, "line 4: the id of a piece is too large or negative"},
        {{.pieces = "\"a\":99999999999"}, "line 4: the id of a piece is too large or negative"},
        {{.pieces = "\"a\":5.5"}, "line 4: expected an integer"},
        {{.pieces = "\"a\":\"5\""}, "line 4: expected an integer"},
        {{.pieces = "\"\":5"}, "line 4: the piece with id 5 has 0 bytes"},
        {{.pieces = "\"\\ud800\":5"}, "line 4: half of a surrogate pair is not a character"},
        {{.pieces = "\"\\x\":5"}, "line 4: expected one of"},
        {{.merges = "\"a c\""}, "line 5: a merge has a piece, or makes one, that is not in the vocabulary"},
        {{.merges = "\"b a\""}, "line 5: a merge has a piece, or makes one, that is not in the vocabulary"},
        {{.merges = "\"a\""}, "line 5: expected a merge of two pieces"},
        {{.merges = "\"a b c\""}, "line 5: expected a merge of two pieces"},
        {{.merges = "[\"a\"]"}, "line 5: expected a merge of two pieces"},
        {{.merges = "[\"a\",\"b\",\"a\"]"}, "line 5: expected a merge of two pieces"},
        {{.merges = "\"a b\""
                    "\"a b\""}, "line 5: expected , or ]"},
        {{.added = "{\"id\":0,\"content\":\"<pad>\"}"}, "an added token lacks"},
        {{.added = "{\"id\":1,\"content\":\"<pad>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                   "\"normalized\":false}"}, "has the id 1, and 0 in the vocabulary"},
        {{.added = "{\"id\":0,\"content\":\"<pad>\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,"
                   "\"normalized\":false}"}, "is not supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct json_file f = {
            rows[i].f.added ? rows[i].f.added : whole.added,
            rows[i].f.normalizer ? rows[i].f.normalizer : whole.normalizer,
            rows[i].f.settings ? rows[i].f.settings : whole.settings,
            rows[i].f.pieces ? rows[i].f.pieces : whole.pieces,
            rows[i].f.merges ? rows[i].f.merges : whole.merges,
        };
        struct tokenizer *t = NULL;
        struct err err = {0};
        char *text = json_text_of(&f);
        assert_int_equal(tokenizer_parse(&t, text, strlen(text), &err), -1);
        if (!strstr(err.text, rows[i].says))
            fail_msg("row %zu says \"%s\", not \"%s\"", i, err.text, rows[i].says);
        free(text);
    }
}

/* In memory of exactly that size, so that a sanitizer sees a byte too many. */
static void a_file_that_ends_early_is_refused(void **state)
{
    (void)state;
    char *text = json_text_of(&whole);
    const size_t size = strlen(text);
    for (size_t n = 0; n < size; n += n < 400 || n > size - 400 ? 1 : 37) {
        struct tokenizer *t = NULL;
        struct err err = {0};
        char *part = malloc(n ? n : 1);
        memcpy(part, text, n);
        assert_int_equal(tokenizer_parse(&t, part, n, &err), -1);
        assert_int_equal(err.code, ERR_DATA);
        free(part);
    }
    free(text);
}

static void merges_go_by_rank_then_from_the_left(void **state)
{
    (void)state;
    struct bpe *b = NULL;
    struct err err = {0};
    assert_int_equal(bpe_create(&b, &err), 0);
    bpe_add(b, 1, 1, 2, &err); /* aa */
    bpe_add(b, 2, 2, 3, &err); /* aaaa */
    bpe_add(b, 1, 1, 9, &err); /* known: keeps its first rank and result */
    int32_t seven[] = {1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(bpe_run(b, seven, 7, &err), 3);
    assert_memory_equal(seven, ((int32_t[]){3, 2, 1}), 3 * sizeof(int32_t));
    bpe_destroy(b);
}

static void utf8_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t      n;
        uint32_t    c;
    } rows[] = {
        {"a", 1, 'a'}, {"\xC3\xA9", 2, 0xE9}, {"\xE2\x96\x81", 3, 0x2581}, {"\xF4\x8F\xBF\xBF", 4, 0x10FFFF},
        {"\xC0\x80", 0, 0}, {"\xE0\x80\x80", 0, 0}, {"\xED\xA0\x80", 0, 0}, {"\xF4\x90\x80\x80", 0, 0},
        {"\x80", 0, 0}, {"\xE2\x96", 0, 0}, {"\xFF", 0, 0}, {"\xC3" "a", 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t c = 0;
        char back[4];
        assert_int_equal(utf8_read(rows[i].bytes, strlen(rows[i].bytes), &c), rows[i].n);
        if (rows[i].n) {
            assert_int_equal(c, rows[i].c);
            assert_int_equal(utf8_write(back, c), rows[i].n);
            assert_memory_equal(back, rows[i].bytes, rows[i].n);
        }
    }
    uint32_t c;
    assert_int_equal(utf8_read("", 0, &c), 0);
    assert_int_equal(utf8_write((char[4]){0}, 0xD800), 0);
}

static void a_long_instruction_leaves_rows_for_the_caption(void **state)
{
    (void)state;
    struct tokenizer *t = open_whole();
    struct prompt p;
    struct err err = {0};
    assert_int_equal(prompt_sana(&p, t, "b", "aba", 3, 3, &err), 0);
    assert_int_equal(p.chi, 2);
    assert_int_equal(p.length, 3); /* 2 + 3 - 2; "b" "aba" fits behind <bos> */
    assert_memory_equal(p.id, ((int32_t[]){2, 6, 9}), 3 * sizeof(int32_t));
    assert_memory_equal(p.row, ((int[]){0, 1, 2}), 3 * sizeof(int));
    prompt_free(&p);
    assert_int_equal(prompt_sana(&p, t, NULL, "a", 1, 1, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_int_equal(prompt_lumina_length(1, 256), 8);
    assert_int_equal(prompt_lumina_length(300, 256), 256);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_ids_and_text_again),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(a_file_that_ends_early_is_refused),
        cmocka_unit_test(merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(a_long_instruction_leaves_rows_for_the_caption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
