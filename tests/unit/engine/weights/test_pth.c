/* SPDX-License-Identifier: Apache-2.0 */
/* test_pth.c - pickles by hand, views of few numbers, and checksums; whole files are compared by `make golden` */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/weights/pickle.h"
#include "engine/weights/pth.h"
#include "tests/verify/sha256.h"
#include "engine/weights/tensor_view.h"
#include "engine/files/zip_records.h"

static const struct pickle_name allowed[] = {{"collections", "OrderedDict"}, {NULL, NULL}};

static struct pickle *parse(const char *bytes, size_t n, struct err *err)
{
    struct pickle *p = NULL;
    size_t used;
    *err = (struct err){0};
    pickle_parse(&p, &used, (const unsigned char *)bytes, n, allowed, err);
    return p;
}

#define PARSE(bytes, err) parse(bytes, sizeof(bytes) - 1, err)

static void integers_have_their_sign(void **state)
{
    static const struct {
        const char *bytes;
        size_t      n;
        int64_t     want;
    } row[] = {
        {"\x80\2K\xFF.", 5, 255},          {"\x80\2M\xFF\xFF.", 6, 65535},
        {"\x80\2J\xFB\xFF\xFF\xFF.", 8, -5}, {"\x80\2\x8A\0.", 5, 0},
        {"\x80\2\x8A\1\xFF.", 6, -1},      {"\x80\2\x8A\6\0\0\0\0\0\1.", 11, 1099511627776},
        {"\x80\2\x8A\6\0\0\0\0\0\xFF.", 11, -1099511627776},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct err err;
        struct pickle *p = parse(row[i].bytes, row[i].n, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(pickle_root(p)->kind, PICKLE_INT);
        assert_int_equal(pickle_root(p)->number, row[i].want);
        pickle_free(p);
    }
}

static void a_dict_keeps_the_order_of_its_items(void **state)
{
    struct err err;
    struct pickle *p = PARSE("\x80\2}(X\1\0\0\0bK\1X\1\0\0\0aK\2u.", &err);
    const struct pickle_value *root = pickle_root(p);
    uint32_t next = root->first;
    (void)state;
    assert_int_equal(root->kind, PICKLE_DICT);
    assert_int_equal(root->len, 4);
    assert_int_equal(pickle_item(p, &next)->bytes[0], 'b');
    assert_int_equal(pickle_item(p, &next)->number, 1);
    assert_int_equal(pickle_item(p, &next)->bytes[0], 'a');
    assert_int_equal(pickle_item(p, &next)->number, 2);
    assert_null(pickle_item(p, &next));
    pickle_free(p);
}

static void a_pickle_that_is_damaged_is_refused_with_the_place(void **state)
{
    static const struct {
        const char *bytes;
        size_t      n;
        const char *says;
    } row[] = {
        {"\x80\2.", 3, "the pickle's byte 3: an opcode needs a value, and the stack has none"},
        {"\x80\2K\1K\2.", 7, "the pickle's byte 7: the end, with values left over"},
        {"\x80\2(K\1.", 6, "the pickle's byte 6: the end, with values left over"},
        {"\x80\2](K\1.", 7, "the pickle's byte 7: the end, with values left over"},
        {"\x80\2K\1(\x85.", 7, "the pickle's byte 6: a tuple of more values than the stack has"},
        {"\x80\2}(K\1u.", 8, "the pickle's byte 7: a key without a value"},
        {"\x80\2](K\1a.", 8, "the pickle's byte 7: APPEND, and the stack has no list and value"},
        {"\x80\2)K\1a.", 7, "the pickle's byte 6: an opcode needs another kind of value than the stack has"},
        {"\x80\2K\1r\xFF\xFF\xFF\xFF.", 10, "the pickle's byte 9: PUT into a place beyond all values"},
        {"\x80\2cos\nsystem\n.", 14, "the pickle's byte 3 names os.system"},
        {"\x80\2K\1)R.", 7, "the pickle's byte 6: a call of something that is not a name"},
        {"\x80\3N.", 4, "the pickle has protocol 3"},
        {"\x80\2ccollections\n", 15, "the pickle's byte 15: it ends in the middle of a name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct err err;
        assert_null(parse(row[i].bytes, row[i].n, &err));
        if (!strstr(err.text, row[i].says))
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void a_pickle_of_too_many_values_is_refused(void **state)
{
    const size_t n = PICKLE_VALUES + 8;
    char *bytes = malloc(n);
    struct err err;
    (void)state;
    memset(bytes, 'N', n);
    memcpy(bytes, "\x80\2(", 3);
    memcpy(bytes + n - 2, "t.", 2);
    assert_null(parse(bytes, n, &err));
    assert_non_null(strstr(err.text, "more than 500000 values"));
    free(bytes);
}

static void a_view_follows_its_steps(void **state)
{
    static const float stored[6] = {0, 1, 2, 3, 4, 5};
    struct tensor_view v = {.name = "v", .dtype = ST_F32, .ndim = 2, .dim = {3, 2}, .step = {1, 3}, .count = 6,
                            .data = (const unsigned char *)stored};
    static const float turned[6] = {0, 3, 1, 4, 2, 5}, repeated[6] = {0, 0, 1, 1, 2, 2};
    float out[6];
    char shape[32];
    (void)state;
    tensor_view_floats(out, &v, 0, 6);
    assert_memory_equal(out, turned, sizeof(out));
    tensor_view_floats(out, &v, 2, 3);
    assert_memory_equal(out, turned + 2, 3 * sizeof(*out));
    v.step[1] = 0;
    tensor_view_floats(out, &v, 0, 6);
    assert_memory_equal(out, repeated, sizeof(out));
    tensor_view_dense(&v);
    tensor_view_floats(out, &v, 0, 6);
    assert_memory_equal(out, stored, sizeof(out));
    tensor_view_shape(shape, sizeof(shape), &v);
    assert_string_equal(shape, "[3, 2]");
}

static void big_endian_numbers_are_swapped(void **state)
{
    static const unsigned char stored[] = {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0};
    const struct tensor_view v = {.dtype = ST_F32, .ndim = 1, .dim = {2}, .step = {1}, .count = 2, .data = stored,
                                  .swapped = true};
    float out[2];
    (void)state;
    tensor_view_floats(out, &v, 0, 2);
    assert_true(out[0] == 1 && out[1] == -2);
}

/* FIPS 180-4: one block, two blocks, and a text whose length does not fit into its last block. */
static void sha256_gives_the_published_digests(void **state)
{
    static const char *const row[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnop"
         "qrstu", "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct sha256 s;
        char text[SHA256_TEXT];
        sha256_begin(&s);
        sha256_add(&s, row[i][0], strlen(row[i][0]) / 3);
        sha256_add(&s, row[i][0] + strlen(row[i][0]) / 3, strlen(row[i][0]) - strlen(row[i][0]) / 3);
        sha256_text(&s, text);
        assert_string_equal(text, row[i][1]);
    }
}

static void a_file_that_is_none_is_told_by_its_beginning(void **state)
{
    struct pth *f = NULL;
    struct err err = {0};
    (void)state;
    assert_true(pth_is((const unsigned char *)"PK\3\4rest", 8));
    assert_true(pth_is((const unsigned char *)"\x80\2\x8A\nrest.....", 13));
    assert_false(pth_is((const unsigned char *)"\x80\2\0\0\0\0\0\0{\"a\"", 12));
    assert_false(pth_is((const unsigned char *)"<html>", 6));
    assert_int_equal(pth_parse(&f, (const unsigned char *)"<html>", 6, &err), -1);
    assert_non_null(strstr(err.text, "begins with \"<html>\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_their_sign),
        cmocka_unit_test(a_dict_keeps_the_order_of_its_items),
        cmocka_unit_test(a_pickle_that_is_damaged_is_refused_with_the_place),
        cmocka_unit_test(a_pickle_of_too_many_values_is_refused),
        cmocka_unit_test(a_view_follows_its_steps),
        cmocka_unit_test(big_endian_numbers_are_swapped),
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(a_file_that_is_none_is_told_by_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
