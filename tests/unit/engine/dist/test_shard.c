/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard.c - every trained number has exactly one owner, for 1 to 8 ranks and both splits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/dist/dist.h"
#include "engine/dist/shard.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"

enum { WORLDS = 8 };

static struct layout *layout;

/* Two units of odd sizes, one with fewer numbers than there are ranks, and one with a pair whose second tensor is the
 * last of the table, and a buffer at the end. */
static int setup(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{37, 301}, {5, 1}, {64, 16}, {1, 1}, {3, 7}, {1000, 3}};
    static const int units[] = {0, 0, 0, 1, 2, 2};
    layout_create(&layout, NULL);
    for (int i = 0; i < 6; i++) {
        char name[] = {'t', (char)('0' + i), 0};
        if (i > 0 && units[i] != units[i - 1])
            layout_next_unit(layout);
        layout_add(layout, name, TENSOR_PARAM, 2, shapes[i], NULL);
    }
    const int64_t dim[] = {41, 24};
    layout_next_unit(layout);
    const int pair = layout_add_first(layout, "first", TENSOR_PARAM, 2, dim, NULL);
    layout_add(layout, "between", TENSOR_PARAM, 2, shapes[0], NULL);
    layout_add(layout, "more", TENSOR_PARAM, 2, shapes[4], NULL);
    layout_add_second(layout, "second", pair, NULL);
    return layout_add(layout, "buffer", TENSOR_BUFFER, 2, shapes[1], NULL) < 0;
}

static int teardown(void **state)
{
    (void)state;
    layout_destroy(layout);
    return 0;
}

/* How many ranks own each number of the block. */
static void count(unsigned char *times, const struct shard *s)
{
    for (int r = 0; r < shard_world(s); r++)
        for (int i = 0; i < layout_len(layout); i++) {
            const struct tensor *t = layout_at(layout, i);
            size_t from, to, at;
            shard_of_tensor((struct shard_holder){s, r}, t, &from, &to, &at);
            for (size_t k = from; k < to; k++)
                times[t->offset + k] += t->kind == TENSOR_PARAM || r == 0;
            assert_true(t->kind == TENSOR_PARAM || to - from == t->count);
            assert_true(from <= to && to <= t->count);
            assert_true(from == to || at + (to - from) <= shard_floats(s, r));
            if (shard_cut(s) == SHARD_TENSORS)
                assert_true(to == from || (from == 0 && to == t->count));
        }
}

static void every_number_has_one_owner(void **state)
{
    (void)state;
    for (int world = 1; world <= WORLDS; world++)
        for (int cut = SHARD_EVEN; cut <= SHARD_TENSORS; cut++) {
            struct shard *s;
            unsigned char *times = calloc(1, layout_floats(layout));
            assert_int_equal(shard_create(&s, layout, world, (enum shard_cut)cut, NULL), 0);
            assert_int_equal(shard_units(s), 4);
            assert_true(world > 1 || shard_floats(s, 0) == layout_floats(layout));
            count(times, s);
            for (int i = 0; i < layout_len(layout); i++) {
                const struct tensor *t = layout_at(layout, i);
                for (size_t k = 0; k < t->count; k++)
                    if (times[t->offset + k] != 1)
                        fail_msg("%d ranks: number %zu of %s has %d owners", world, k, t->name, times[t->offset + k]);
            }
            free(times);
            shard_destroy(s);
        }
}

static void parts_match_the_slices_of_collectives(void **state)
{
    (void)state;
    for (int world = 1; world <= WORLDS; world++) {
        struct shard *s;
        assert_int_equal(shard_create(&s, layout, world, SHARD_EVEN, NULL), 0);
        for (int u = 0; u < shard_units(s); u++) {
            struct shard_part unit = shard_unit(s, u);
            assert_true(unit.to - unit.from <= shard_widest(s));
            for (int r = 0; r < world; r++) {
                struct shard_part p = shard_part(s, u, r);
                size_t from, to, from8, to8;
                dist_slice(&from, &to, unit.to - unit.from, DIST_F32, r, world);
                dist_slice(&from8, &to8, unit.to - unit.from, DIST_I64, r, world);
                assert_true(from == from8 && to == to8);
                assert_true(p.from == unit.from + from && p.to == unit.from + to);
                assert_true(p.at % DIST_NUMBERS == 0);
                assert_true(world > 1 || p.at == p.from);
            }
        }
        shard_destroy(s);
    }
}

static void packed_parts_are_disjoint_and_balanced(void **state)
{
    (void)state;
    for (int world = 2; world <= WORLDS; world++) {
        struct shard *s;
        size_t floats = layout_floats(layout);
        assert_int_equal(shard_create(&s, layout, world, SHARD_EVEN, NULL), 0);
        for (int r = 0; r < world; r++) {
            size_t end = 0;
            for (int u = 0; u < shard_units(s); u++) {
                struct shard_part p = shard_part(s, u, r);
                assert_true(p.at >= end);
                end = p.at + (p.to - p.from);
            }
            assert_true(end <= shard_floats(s, r));
            assert_true(shard_floats(s, r) <= floats / (size_t)world + 4 * 2 * DIST_NUMBERS + 16);
        }
        shard_destroy(s);
    }
}

/* The units of a real model are its blocks, all before them and all after. */
static void units_of_a_model(void **state)
{
    (void)state;
    struct model_config c = {.depth = 3, .hidden = 32, .heads = 2, .linear_head_dim = 16,
                             .patch = 1, .mlp_hidden = 80, .y_norm = true, .y_norm_scale = 1,
                             .y_norm_eps = 1e-5f, .latent_channels = 4, .caption_channels = 8,
                             .caption_len = 5};
    struct model_limits max = {.batch = 1, .height = 4, .width = 4, .text = 5};
    struct model *m;
    struct err err = {0};
    if (model_create(&m, &c, &max, false, &err) < 0)
        fail_msg("%s", err.text);
    const struct layout *l = model_layout(m);
    for (int i = 0; i < layout_len(l); i++) {
        const char *name = layout_at(l, i)->name;
        int unit = layout_at(l, i)->unit;
        int want = name[0] == 'b' ? name[7] - '0' + 1 : i < layout_len(l) / 2 ? 0 : 4;
        if (unit != want)
            fail_msg("%s is of unit %d, not %d", name, unit, want);
    }
    model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_one_owner),
        cmocka_unit_test(parts_match_the_slices_of_collectives),
        cmocka_unit_test(packed_parts_are_disjoint_and_balanced),
        cmocka_unit_test(units_of_a_model),
    };
    return cmocka_run_group_tests_name("shard", tests, setup, teardown);
}
