/* SPDX-License-Identifier: Apache-2.0 */
/* test_lora.c - adapters of a frozen Sana: at the start, merged, with a base of bf16, and by unit */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/model/layout.h"
#include "engine/model/lora.h"
#include "engine/model/model.h"

enum { BATCH = 2, EDGE = 4, CHANNELS = 8, WORDS = 3, WIDTH = 16, LATENT = BATCH * CHANNELS * EDGE * EDGE };

static struct err err;
static float x[LATENT], out[LATENT], other[LATENT], dout[LATENT], y[BATCH * WORDS * WIDTH];
static float mask[BATCH * WORDS] = {1, 1, 0, 1, 1, 1}, time_of[BATCH] = {100, 700};

static const struct model_input in = {.batch = BATCH, .height = EDGE, .width = EDGE, .text = WORDS, .x = x,
                                      .timestep = time_of, .y = y, .mask = mask};

static struct model_config config(void)
{
    return (struct model_config){
        .family = MODEL_SANA, .depth = 2, .hidden = 64, .heads = 2, .patch = 1, .mlp_hidden = 160, .qk_norm = true,
        .cross_norm = true, .latent_channels = CHANNELS, .caption_channels = WIDTH, .caption_len = WORDS,
        .linear_head_dim = 32, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
    };
}

static struct model_config with_adapters(void)
{
    struct model_config c = config();
    c.lora = (struct lora_config){.rank = 2, .alpha = 6, .base_fp32 = true, .targets = (1u << LORA_MODULES) - 1};
    return c;
}

static struct model *create(const struct model_config *c, bool by_unit)
{
    struct model *m;
    const struct model_limits z = {.batch = BATCH, .height = EDGE, .width = EDGE, .text = WORDS, .by_unit = by_unit};
    err = (struct err){0};
    if (model_create(&m, c, &z, true, &err) < 0)
        fail_msg("%s", err.text);
    return m;
}

static void fill(float *p, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (float)sin(0.37 * (double)i + seed);
}

static int setup(void **state)
{
    (void)state;
    fill(x, LATENT, 1);
    fill(y, sizeof(y) / sizeof(*y), 2);
    fill(dout, LATENT, 3);
    return 0;
}

/* The base of `m` gets the initial weights of a whole model, which is returned. */
static struct model *base_of(struct model *m)
{
    const struct model_config c = config();
    struct model *whole = create(&c, false);
    model_init_weights(whole, 5);
    lora_base_put(model_lora(m), 0, layout_floats(model_layout(whole)), model_weights(whole));
    return whole;
}

static void training_begins_with_the_base(void **state)
{
    const struct model_config c = with_adapters();
    struct model *m = create(&c, false), *whole = base_of(m);
    (void)state;
    model_init_weights(m, 7);
    assert_int_equal(model_forward(whole, &in, other, &err), 0);
    assert_int_equal(model_forward(m, &in, out, &err), 0);
    assert_memory_equal(out, other, sizeof(out));
    assert_int_equal(model_backward(m, &in, dout, NULL, &err), 0);
    for (int i = 0; i < layout_len(model_layout(m)); i++) {
        const struct tensor *t = layout_at(model_layout(m), i);
        float sum = 0;
        for (size_t k = 0; k < t->count; k++)
            sum += fabsf(model_grads(m)[t->offset + k]);
        assert_int_equal(sum > 0, strstr(t->name, "lora_B") != NULL);
    }
    model_destroy(whole);
    model_destroy(m);
}

static void merged_weights_give_the_same(void **state)
{
    const struct model_config c = with_adapters();
    struct model *m = create(&c, false), *whole = base_of(m);
    struct lora *l = model_lora(m);
    (void)state;
    fill(model_weights(m), layout_floats(model_layout(m)), 4);
    for (int i = 0; i < lora_len(l); i++) {
        const struct lora_adapter *a = lora_at(l, i);
        lora_merge(l, a, model_weights(m), model_weights(whole) + layout_at(model_layout(whole), a->tensor)->offset);
    }
    assert_int_equal(model_forward(whole, &in, other, &err), 0);
    assert_int_equal(model_forward(m, &in, out, &err), 0);
    assert_memory_equal(out, other, sizeof(out));
    model_destroy(whole);
    model_destroy(m);
}

static void a_base_of_bf16_is_rounded(void **state)
{
    struct model_config c = with_adapters();
    const float numbers[] = {1, 1.00390625f, 1.01171875f, -3.0e-20f, INFINITY, 1.0000001f};
    const float want[] = {1, 1, 1.015625f, 0, INFINITY, 1};
    float got[6];
    c.lora.base_fp32 = false;
    struct model *m = create(&c, false);
    (void)state;
    lora_base_put(model_lora(m), 40, 6, numbers);
    lora_base_get(model_lora(m), 40, 6, got);
    for (int i = 0; i < 6; i++)
        assert_true(i == 3 ? fabsf(got[3] / numbers[3] - 1) < 4e-3f : got[i] >= want[i] && got[i] <= want[i]);
    model_destroy(m);
}

/* --- units, as exchange.c supplies them ------------------------------------------------- */

struct units {
    const struct layout *layout;
    float               *weights, *grads;
    int                  last, forward, backward;
};

static size_t unit_from(const struct layout *l, int unit)
{
    int i = 0;
    while (layout_at(l, i)->unit != unit)
        i++;
    return layout_at(l, i)->offset;
}

static void need(void *arg, int unit, float **weights, void **narrow, float **grads)
{
    struct units *u = arg;
    const size_t from = unit_from(u->layout, unit);
    assert_int_equal(unit, grads ? u->last - (u->backward > 0) : u->last + 1);
    u->last = unit;
    u->forward += !grads;
    u->backward += grads != NULL;
    *narrow = *weights = u->weights + from;
    if (grads)
        *grads = u->grads + from;
}

static void done(void *arg, int unit)
{
    const struct units *u = arg;
    assert_int_equal(unit, u->last);
}

static void units_of_adapters_are_the_blocks(void **state)
{
    const struct model_config c = with_adapters();
    struct model *m = create(&c, false), *parts = create(&c, true), *whole = base_of(m);
    const struct layout *l = model_layout(parts);
    struct units u = {l, layout_alloc(l), layout_alloc(l), -1, 0, 0};
    const struct model_units calls = {need, done, &u};
    (void)state;
    lora_base_share(model_lora(parts), model_lora(m));
    model_on_units(parts, &calls);
    fill(model_weights(m), layout_floats(l), 4);
    memcpy(u.weights, model_weights(m), layout_floats(l) * sizeof(float));
    assert_int_equal(model_forward(m, &in, out, &err), 0);
    assert_int_equal(model_backward(m, &in, dout, NULL, &err), 0);
    assert_int_equal(model_forward(parts, &in, other, &err), 0);
    assert_int_equal(model_backward(parts, &in, dout, NULL, &err), 0);
    assert_memory_equal(out, other, sizeof(out));
    assert_memory_equal(u.grads, model_grads(m), layout_floats(l) * sizeof(float));
    assert_int_equal(u.forward, c.depth);
    assert_int_equal(u.backward, c.depth);
    free(u.weights);
    free(u.grads);
    model_destroy(parts);
    model_destroy(whole);
    model_destroy(m);
}

static void impossible_ones_are_refused(void **state)
{
    struct model *m;
    struct layout *l;
    const struct model_limits z = {.batch = 1, .height = EDGE, .width = EDGE, .text = WORDS};
    struct model_config c = with_adapters();
    (void)state;
    c.lora.rank = 65;
    err = (struct err){0};
    assert_int_equal(model_create(&m, &c, &z, true, &err), -1);
    assert_non_null(strstr(err.text, "train.lora.rank: 65 is too large for layer attn1.to_q"));
    c.lora.rank = 2;
    c.lora.targets = 0;
    err = (struct err){0};
    assert_int_equal(model_layout_make(&l, &c, &err), -1);
    assert_non_null(strstr(err.text, "train.lora.targets: no layer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_begins_with_the_base),
        cmocka_unit_test(merged_weights_give_the_same),
        cmocka_unit_test(a_base_of_bf16_is_rounded),
        cmocka_unit_test(units_of_adapters_are_the_blocks),
        cmocka_unit_test(impossible_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
