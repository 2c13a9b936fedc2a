/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - the table of tensors: offsets, refusals, digest */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct layout *make(void)
{
    struct layout *l = NULL;
    struct err err = {0};
    assert_int_equal(layout_create(&l, &err), 0);
    return l;
}

static void offsets_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int         ndim;
        int64_t     dim[4];
        size_t      count;
    } rows[] = {
        {"a", 1, {1}, 1},          {"b", 2, {3, 5}, 15},       {"c", 2, {4, 4}, 16},
        {"d", 1, {17}, 17},        {"e", 4, {2, 3, 5, 7}, 210}, {"f", 0, {0}, 1},
    };
    struct layout *l = make();
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(layout_add(l, rows[i].name, i == 3 ? TENSOR_BUFFER : TENSOR_PARAM,
                                    rows[i].ndim, rows[i].dim, &err),
                         (int)i);
    size_t end = 0;
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        assert_string_equal(t->name, rows[i].name);
        assert_int_equal(t->count, rows[i].count);
        assert_int_equal(t->offset % 16, 0);
        assert_true(t->offset >= end);
        end = t->offset + t->count;
        assert_int_equal(layout_find(l, t->name), i);
    }
    assert_true(layout_floats(l) >= end);
    assert_int_equal(layout_params(l), 1 + 15 + 16 + 210 + 1);
    assert_int_equal(layout_find(l, "nobody"), -1);
    float *block = layout_alloc(l);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    for (size_t i = 0; i < layout_floats(l); i++)
        assert_true(block[i] == 0.0f);
    free(block);
    layout_destroy(l);
}

static void invalid_tensors_are_refused(void **state)
{
    (void)state;
    char longest[TENSOR_NAME + 1];
    memset(longest, 'x', TENSOR_NAME);
    longest[TENSOR_NAME] = 0;
    const struct {
        const char *name;
        int         ndim;
        int64_t     dim[4];
        const char *says;
    } rows[] = {
        {"taken", 1, {1}, "two tensors"},
        {"", 1, {1}, "0 characters"},
        {longest, 1, {1}, "characters"},
        {"zero", 2, {3, 0}, "at least 1"},
        {"negative", 1, {-4}, "at least 1"},
        {"huge", 3, {INT64_MAX / 4, 5, 1}, "memory can address"},
        {"huge2", 4, {1 << 30, 1 << 30, 1 << 30, 1 << 30}, "memory can address"},
        {"dims", 5, {1, 1, 1, 1}, "5 dimensions"},
    };
    struct layout *l = make();
    struct err err = {0};
    assert_int_equal(layout_add(l, "taken", TENSOR_PARAM, 1, (int64_t[]){2}, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        int r = layout_add(l, rows[i].name, TENSOR_PARAM, rows[i].ndim, rows[i].dim, &e);
        assert_int_equal(r, -1);
        assert_int_equal(e.code, ERR_USAGE);
        if (!strstr(e.text, rows[i].says))
            fail_msg("row %zu says \"%s\"", i, e.text);
        assert_int_equal(layout_len(l), 1);
    }
    layout_destroy(l);
}

static void digests_of_layouts_differ(void **state)
{
    (void)state;
    static const struct {
        const char      *name;
        enum tensor_kind kind;
        int              ndim;
        int64_t          dim[2];
    } rows[] = {
        {"a", TENSOR_PARAM, 2, {2, 3}},  {"a", TENSOR_PARAM, 2, {3, 2}},
        {"a", TENSOR_PARAM, 1, {6}},     {"b", TENSOR_PARAM, 2, {2, 3}},
        {"a", TENSOR_BUFFER, 2, {2, 3}},
    };
    uint64_t digest[ARRAY_LEN(rows)];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct layout *l = make(), *twin = make();
        struct err err = {0};
        layout_add(l, rows[i].name, rows[i].kind, rows[i].ndim, rows[i].dim, &err);
        layout_add(twin, rows[i].name, rows[i].kind, rows[i].ndim, rows[i].dim, &err);
        digest[i] = layout_digest(l);
        assert_true(digest[i] == layout_digest(twin));
        layout_destroy(l);
        layout_destroy(twin);
        for (size_t j = 0; j < i; j++)
            assert_true(digest[i] != digest[j]);
    }
}

static void many_tensors_grow_the_table(void **state)
{
    (void)state;
    struct layout *l = make();
    struct err err = {0};
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(layout_add(l, name, TENSOR_PARAM, 1, (int64_t[]){i + 1}, &err), i);
    }
    assert_int_equal(layout_params(l), 500 * 501 / 2);
    assert_int_equal(layout_find(l, "t499"), 499);
    layout_destroy(l);
    layout_destroy(NULL);
}

/* Rows between the numbers of a pair: the fewest that keep the second at a multiple of 16. */
static void a_pair_has_the_smallest_gap(void **state)
{
    (void)state;
    static const int64_t rows[][3] = {{4, 4, 4},    {3, 4, 4},   {5, 6, 8},    {7, 1, 16},   {16, 3, 16},
                                      {41, 24, 42}, {1, 16, 1},  {17, 15, 32}, {1 << 20, 1 << 16, 1 << 20}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(layout_pair_rows(rows[i][0], rows[i][1]), rows[i][2]);
}

/* A table with others between and behind the tensors of two pairs; or the same table without pairs. */
static struct layout *make_pairs(bool pairs, int64_t rows, int64_t cols)
{
    struct layout *l = make();
    struct err err = {0};
    const int64_t dim[] = {rows, cols};
    for (int unit = 0; unit < 2; unit++) {
        const char *const names[2][4] = {{"a", "b", "c", "d"}, {"e", "f", "g", "h"}};
        const char *const *n = names[unit];
        layout_next_unit(l);
        const int first = pairs ? layout_add_first(l, n[0], TENSOR_PARAM, 2, dim, &err)
                                : layout_add(l, n[0], TENSOR_PARAM, 2, dim, &err);
        assert_true(layout_add(l, n[1], TENSOR_PARAM, 1, &cols, &err) == first + 1);
        const int second = pairs ? layout_add_second(l, n[2], first, &err)
                                 : layout_add(l, n[2], TENSOR_PARAM, 2, dim, &err);
        assert_int_equal(second, first + 2);
        assert_true(layout_add(l, n[3], TENSOR_PARAM, 1, &rows, &err) == first + 3);
    }
    return l;
}

static void assert_apart(const struct layout *l)
{
    unsigned char *used = calloc(1, layout_floats(l));
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        assert_int_equal(t->offset % 16, 0);
        assert_true(t->offset + t->count <= layout_floats(l));
        for (size_t k = 0; k < t->count; k++)
            assert_int_equal(used[t->offset + k]++, 0);
    }
    free(used);
}

/* The order of the table, its digest and what is trained are those of a table without pairs. */
static void a_pair_lies_together(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{4, 4}, {3, 4}, {5, 7}, {1, 1}, {41, 24}, {40, 24}};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        struct layout *l = make_pairs(true, rows, cols), *plain = make_pairs(false, rows, cols);
        assert_apart(l);
        for (int unit = 0; unit < 2; unit++) {
            const size_t from = layout_at(l, 4 * unit)->offset, to = layout_at(l, 4 * unit + 2)->offset;
            assert_int_equal(to - from, layout_pair_rows(rows, cols) * cols);
            assert_true(layout_at(l, 4 * unit + 1)->offset > to);
        }
        for (int k = 0; k < layout_len(l); k++)
            assert_string_equal(layout_at(l, k)->name, layout_at(plain, k)->name);
        assert_true(layout_digest(l) == layout_digest(plain));
        assert_int_equal(layout_params(l), layout_params(plain));
        layout_destroy(l);
        layout_destroy(plain);
    }
}

static void assert_refused(int index, const struct err *err, int code)
{
    assert_int_equal(index, -1);
    assert_int_equal(err->code, code);
}

static void seconds_without_a_place_are_refused(void **state)
{
    (void)state;
    struct layout *l = make_pairs(true, 3, 4);
    const int taken = 4, second = 6, single = 7;
    const int first = layout_add_first(l, "i", TENSOR_PARAM, 1, (int64_t[]){5}, &(struct err){0});
    const int wrong[] = {taken, second, single, -1, layout_len(l)};
    struct err err = {0}, name = {0}, size = {0}, unit = {0};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++, err = (struct err){0})
        assert_refused(layout_add_second(l, "j", wrong[i], &err), &err, ERR_BUG);
    assert_refused(layout_add_second(l, "a", first, &name), &name, ERR_USAGE);
    const int64_t huge = INT64_MAX / 65;
    assert_refused(layout_add_first(l, "k", TENSOR_PARAM, 1, &huge, &size), &size, ERR_USAGE);
    layout_next_unit(l);
    assert_refused(layout_add_second(l, "j", first, &unit), &unit, ERR_BUG);
    assert_int_equal(layout_len(l), 9);
    layout_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_aligned_and_do_not_overlap),
        cmocka_unit_test(invalid_tensors_are_refused),
        cmocka_unit_test(digests_of_layouts_differ),
        cmocka_unit_test(many_tensors_grow_the_table),
        cmocka_unit_test(a_pair_has_the_smallest_gap),
        cmocka_unit_test(a_pair_lies_together),
        cmocka_unit_test(seconds_without_a_place_are_refused),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
