/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - the table of tensors: offsets, refusals, digest */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/contract/err.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_aligned_and_do_not_overlap),
        cmocka_unit_test(invalid_tensors_are_refused),
        cmocka_unit_test(digests_of_layouts_differ),
        cmocka_unit_test(many_tensors_grow_the_table),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
