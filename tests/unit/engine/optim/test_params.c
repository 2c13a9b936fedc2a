/* SPDX-License-Identifier: Apache-2.0 */
/* test_params.c - the parts that ranks update: each number once, at the right place in the arrays and images */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/params.h"
#include "engine/optim/state.h"

enum { WORLD = 3 };

static const struct model_config config = {
    .depth = 2, .hidden = 16, .heads = 2, .linear_head_dim = 8, .patch = 1,
    .mlp_hidden = 20, .qk_norm = true, .y_norm = true, .y_norm_scale = 0.3f,
    .y_norm_eps = 1e-5f, .latent_channels = 3, .caption_channels = 6,
    .caption_len = 5, .caption_dropout = 0.1f};
static const struct optim_config optims[] = {
    {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0.01, 1, 1, 0.9},
    {OPTIM_CAME, {0.9, 0.999, 0.9999}, {1e-30, 1e-16}, 0.01, 1, 1, 0}};

/* Each number that this rank holds, by state, becomes its place in the layout. */
static void number_weights(const struct params *p, const struct layout *l)
{
    struct state all;
    struct err err = {0};
    assert_int_equal(params_state(p, &all, &err), 0);
    for (int i = 0; i < all.weights; i++)
        for (size_t k = all.part[i].from; k < all.part[i].to; k++)
            all.part[i].data[k - all.part[i].from] = (float)(layout_at(l, i)->offset + k);
    state_free(&all);
}

/* Counts the trained numbers that a rank updates, each found at its place in the array. */
static void count_updates(const struct params *p, const struct layout *l, int *times)
{
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        const struct shard_part part = params_part(p, t->unit);
        for (size_t n = t->offset; t->kind == TENSOR_PARAM && n < t->offset + t->count; n++)
            if (n >= part.from && n < part.to) {
                assert_true((size_t)params_weights(p)[part.at + n - part.from] == n);
                times[n]++;
            }
    }
}

static void check_rank(const struct optim_config *opt, const struct params_share *share, int *times)
{
    const struct model_limits limits = {2, 4, 3, 5, false, share->sharing == SHARING_FSDP, 0};
    struct model *m;
    struct params *p;
    struct err err = {0};
    assert_int_equal(model_create(&m, &config, &limits, true, &err), 0);
    assert_int_equal(params_create(&p, m, opt, share, &err), 0);
    assert_int_equal(params_has_all(p), share->sharing != SHARING_FSDP);
    float *image = calloc(params_image(p), sizeof(*image));
    number_weights(p, model_layout(m));
    count_updates(p, model_layout(m), times);
    params_place(p, image);
    number_weights(p, model_layout(m));
    assert_ptr_equal(params_weights(p), image);
    count_updates(p, model_layout(m), times);
    params_destroy(p);
    model_destroy(m);
    free(image);
}

static void ranks_update_each_number_once(void **state)
{
    (void)state;
    for (int how = SHARING_DDP; how <= SHARING_FSDP; how++)
        for (int o = 0; o < 2; o++) {
            struct model *m;
            struct err err = {0};
            const struct model_limits limits = {2, 4, 3, 5, false, false, 0};
            assert_int_equal(model_create(&m, &config, &limits, true, &err), 0);
            const struct layout *l = model_layout(m);
            int *times = calloc(layout_floats(l), sizeof(*times));
            for (int r = 0; r < WORLD; r++)
                check_rank(&optims[o], &(struct params_share){(enum sharing)how, r, WORLD}, times);
            for (int i = 0; i < layout_len(l); i++)
                for (size_t k = 0; layout_at(l, i)->kind == TENSOR_PARAM && k < layout_at(l, i)->count; k++)
                    assert_int_equal(times[layout_at(l, i)->offset + k], how == SHARING_DDP ? 2 * WORLD : 2);
            free(times);
            model_destroy(m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_update_each_number_once),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
