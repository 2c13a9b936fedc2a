/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - a run's memory plan equals its real use: counted on the CPU, and, if JOBCTL_CUDA names a plugin, by
 * the device's free memory */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/model/device_memory.h"
#include "engine/model/layout.h"
#include "engine/optim/memory.h"
#include "engine/optim/step.h"
#include "kernels/kernels.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { CH = 3, D = 6, L = 5 };

/* depth, hidden, heads, linear_head_dim, patch, mlp_hidden, norms, ... as the golden cases vary. */
static const struct model_config configs[] = {
    {.depth = 2, .hidden = 16, .heads = 2, .linear_head_dim = 8, .patch = 1,
     .mlp_hidden = 20, .y_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
     .latent_channels = CH, .caption_channels = D, .caption_len = L,
     .caption_dropout = 0.1f},
    {.depth = 3, .hidden = 32, .heads = 4, .linear_head_dim = 8, .patch = 1,
     .mlp_hidden = 80, .qk_norm = true, .cross_norm = true, .y_norm = true,
     .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f, .latent_channels = CH,
     .caption_channels = D, .caption_len = L, .caption_dropout = 0.1f},
    {.depth = 1, .hidden = 64, .heads = 2, .linear_head_dim = 32, .patch = 2,
     .mlp_hidden = 160, .qk_norm = true, .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f,
     .latent_channels = CH, .caption_channels = D, .caption_len = L,
     .caption_dropout = 0.1f},
};
static const struct model_limits limits[] = {
    {1, 4, 2, 1, false, false, 0}, {3, 4, 6, L, false, false, 0}, {3, 4, 6, L, true, false, 0},
};
static const struct optim_config optims[] = {
    {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0.01, 1, 1, 0},
    {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0.01, 1, 1, 0.9},
    {OPTIM_CAME, {0.9, 0.999, 0.9999}, {1e-30, 1e-16}, 0.01, 1, 1, 0.9},
};

static struct memory_ask ask_of(int i, bool device)
{
    return (struct memory_ask){.model = configs[i % 3], .limits = limits[i / 3 % 3],
                               .optim = optims[i / 9], .device = device, .ranks = 1};
}

static struct memory_plan plan_of(const struct memory_ask *ask)
{
    struct memory_plan p;
    struct err err = {0};
    if (memory_plan(&p, ask, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static struct step *step_of(const struct memory_ask *ask)
{
    struct step *s = NULL;
    struct err err = {0};
    if (step_create(&s, &ask->model, &ask->limits, &ask->optim, 3.0, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* --- the CPU: its table, with an alloc() that adds up ---------------------------------------- */

static int64_t taken;
static void *(*real_alloc)(size_t);

static void *counted_alloc(size_t bytes)
{
    taken += (int64_t)bytes;
    return real_alloc(bytes);
}

static void the_plan_is_what_a_step_takes(void **state)
{
    (void)state;
    struct kern_ops *ops = (struct kern_ops *)(uintptr_t)kern_cpu();
    real_alloc = ops->alloc;
    for (int i = 0; i < 27; i++) {
        const struct memory_ask ask = ask_of(i, false);
        taken = 0;
        ops->alloc = counted_alloc;
        struct step *s = step_of(&ask);
        ops->alloc = real_alloc;
        const int64_t real = taken;
        const struct memory_plan p = plan_of(&ask);
        assert_int_equal(p.total, real);
        assert_int_equal(p.bytes[USE_HOST], 0);
        assert_int_equal(p.bytes[USE_WEIGHTS], layout_floats(model_layout(step_model(s))) * sizeof(float));
        assert_int_equal(p.bytes[USE_GRADIENTS], p.bytes[USE_WEIGHTS]);
        assert_int_equal(p.bytes[USE_EMA], ask.optim.ema > 0 ? p.bytes[USE_WEIGHTS] : 0);
        assert_int_equal(taken, real); /* planning took nothing */
        step_destroy(s);
    }
}

static void a_model_that_draws_is_planned_for(void **state)
{
    (void)state;
    struct kern_ops *ops = (struct kern_ops *)(uintptr_t)kern_cpu();
    struct memory_ask ask = ask_of(10, false);
    const int64_t without = plan_of(&ask).total;
    struct model *m = NULL;
    ask.pictures = 5;
    const struct model_limits z = {5, ask.limits.height, ask.limits.width, ask.limits.text, false, false, 0};
    taken = 0;
    ops->alloc = counted_alloc;
    assert_int_equal(model_create(&m, &ask.model, &z, false, NULL), 0);
    ops->alloc = real_alloc;
    model_destroy(m);
    assert_int_equal(plan_of(&ask).total, without + taken);
    assert_int_equal(plan_of(&ask).bytes[USE_PICTURES], taken);
}

/* --- a device ------------------------------------------------------------------------------- */

static int64_t used(const struct kern_ops *ops)
{
    size_t left, all;
    assert_true(ops->free_memory(&left, &all));
    return (int64_t)(all - left);
}

static void one_step(struct step *s, const struct memory_ask *ask)
{
    const struct model_limits *z = &ask->limits;
    const size_t latent = (size_t)(z->batch * CH * z->height * z->width);
    const size_t text = (size_t)(z->batch * z->text);
    float *x = calloc(2 * latent + text * D + text, sizeof(*x));
    int *t = calloc((size_t)z->batch, sizeof(*t));
    struct err err = {0};
    double loss, norm;
    assert_true(x && t);
    const struct step_input in = {
        .batch = z->batch, .height = z->height, .width = z->width, .text = z->text, .x0 = x, .noise = x + latent,
        .t_index = t, .y = x + 2 * latent, .mask = x + 2 * latent + text * D,
    };
    step_begin(s);
    x[0] = 1;
    if (step_micro(s, &in, 1, &loss, NULL, &err) < 0 || step_end(s, 1e-3, &norm, &err) < 0)
        fail_msg("%s", err.text);
    free(x);
    free(t);
}

static void the_plan_is_what_a_device_gives(void **state)
{
    (void)state;
    struct err err = {0};
    if (!getenv("JOBCTL_CUDA"))
        skip();
    if (backend_open("cuda", getenv("PRECISION"), &err) < 0)
        fail_msg("%s", err.text);
    const struct kern_ops *ops = backend_ops();
    int64_t workspace = 0; /* it grows to the largest, and stays */
    for (int i = 0; i < 54; i++) { /* all weights, then adapters above frozen ones of both types */
        struct memory_ask ask = ask_of(i % 27, true);
        ask.bf16 = backend_is_bf16();
        if (i >= 27)
            ask.model.lora = (struct lora_config){.rank = 4, .alpha = 4, .base_fp32 = i % 2 == 0,
                                                  .targets = lora_config_default()};
        const struct memory_plan p = plan_of(&ask);
        const int64_t before = used(ops);
        struct step *s = step_of(&ask);
        assert_int_equal(used(ops) - before, p.total - p.bytes[USE_WORKSPACE]);
        assert_true(p.bytes[USE_HOST] > 0);
        one_step(s, &ask);
        step_destroy(s);
        if (p.bytes[USE_WORKSPACE] > workspace)
            workspace = p.bytes[USE_WORKSPACE];
        if (used(ops) > workspace)
            fail_msg("configuration %d: the kernels hold %lld bytes of their own, planned were "
                     "%lld", i, (long long)used(ops), (long long)workspace);
    }
}

/* --- decisions ------------------------------------------------------------------------------ */

static void computing_again_takes_less(void **state)
{
    (void)state;
    struct memory_ask ask = ask_of(4, true);
    const struct memory_plan kept = plan_of(&ask);
    ask.limits.recompute = true;
    const struct memory_plan again = plan_of(&ask);
    for (int i = 0; i < USES; i++)
        if (i == USE_ACTIVATIONS)
            assert_true(again.bytes[i] < kept.bytes[i] * 2 / 3);
        else
            assert_int_equal(again.bytes[i], kept.bytes[i]);
    assert_true(kept.again == 0 && again.again > 0.1 && again.again < 1.0 / 3);
}

static void ranks_share_what_they_can(void **state)
{
    (void)state;
    struct memory_ask ask = ask_of(10, true);
    const struct memory_plan one = plan_of(&ask);
    ask.ranks = 4;
    const struct memory_plan ddp = plan_of(&ask);
    ask.sharing = SHARING_ZERO1;
    const struct memory_plan zero1 = plan_of(&ask);
    ask.sharing = SHARING_FSDP;
    const struct memory_plan fsdp = plan_of(&ask);
    assert_int_equal(ddp.total - ddp.bytes[USE_EXCHANGE], one.total);
    assert_int_equal(zero1.bytes[USE_OPTIMIZER], one.bytes[USE_OPTIMIZER] / 4);
    assert_int_equal(zero1.bytes[USE_WEIGHTS], one.bytes[USE_WEIGHTS]);
    assert_int_equal(fsdp.bytes[USE_WEIGHTS], one.bytes[USE_WEIGHTS] / 4);
    assert_int_equal(fsdp.bytes[USE_EMA], one.bytes[USE_EMA] / 4);
    assert_true(fsdp.bytes[USE_EXCHANGE] > zero1.bytes[USE_EXCHANGE]);
    assert_int_equal(fsdp.bytes[USE_ACTIVATIONS], one.bytes[USE_ACTIVATIONS]);
}

static void the_largest_micro_batch_fits_and_the_next_does_not(void **state)
{
    (void)state;
    struct memory_ask ask = ask_of(1, false);
    struct memory_plan p;
    struct err err = {0};
    for (int want = 0; want <= 9; want++) {
        ask.limits.batch = want ? want : 1;
        const int64_t room = plan_of(&ask).total - (want ? 0 : 1);
        assert_int_equal(memory_largest_micro(&p, &ask, 9, room, &err), want);
        assert_true(want ? p.total == room : p.total == room + 1);
        assert_int_equal(memory_largest_micro(&p, &ask, 9, room + 8, &err), want ? want : 1);
    }
    assert_int_equal(memory_largest_micro(&p, &ask, 9, INT64_MAX, &err), 9);
    ask.limits.text = L + 1;
    assert_int_equal(memory_largest_micro(&p, &ask, 9, INT64_MAX, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
}

static void a_machine_has_some_memory(void **state)
{
    (void)state;
    const struct device_memory r = device_memory();
    assert_true(r.free > 0 && r.total >= r.free);
}

/* Of many sizes of pictures: no batch has more pixels, whatever its samples are. */
static void fewer_pixels_take_less(void **state)
{
    (void)state;
    struct memory_ask ask = ask_of(0, false);
    ask.limits = (struct model_limits){.batch = 8, .height = 8, .width = 8, .text = L};
    const struct memory_plan all = plan_of(&ask);
    ask.pixels_most = 4 * 8 * 8;
    const struct memory_plan half = plan_of(&ask);
    assert_true(half.bytes[USE_ACTIVATIONS] * 10 < all.bytes[USE_ACTIVATIONS] * 6);
    assert_true(half.bytes[USE_BACKWARD] * 10 < all.bytes[USE_BACKWARD] * 6);
    ask.limits = half.limits; /* a step of these takes it, and no more */
    struct step *s = step_of(&ask);
    struct err err = {0};
    double loss;
    float x[8 * CH * 8 * 8] = {1}, y[8 * L * D] = {0}, mask[8 * L] = {1};
    int t[8] = {0};
    struct step_input in = {.batch = 4, .height = 8, .width = 8, .text = L, .x0 = x, .noise = x,
                            .t_index = t, .y = y, .mask = mask};
    step_begin(s);
    assert_int_equal(step_micro(s, &in, 1, &loss, NULL, &err), 0);
    in.batch = 8, in.width = 4; /* more of the smaller ones */
    assert_int_equal(step_micro(s, &in, 1, &loss, NULL, &err), 0);
    in.batch = 5, in.width = 8;
    assert_int_equal(step_micro(s, &in, 1, &loss, NULL, &err), -1);
    step_destroy(s);
    ask.pixels_most = 1; /* one sample must have room */
    const struct memory_plan one = plan_of(&ask);
    assert_int_equal(model_limits_pixels(&one.limits), 8 * 8);
}

static void samples_of_a_size(void **state)
{
    (void)state;
    assert_int_equal(memory_micro(8, 0, 16, 16), 8);
    assert_int_equal(memory_micro(8, 4 * 256, 16, 16), 4);
    assert_int_equal(memory_micro(8, 4 * 256, 8, 16), 8);
    assert_int_equal(memory_micro(8, 4 * 256, 20, 16), 3);
    assert_int_equal(memory_micro(8, 4 * 256, 64, 64), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_a_step_takes),
        cmocka_unit_test(a_model_that_draws_is_planned_for),
        cmocka_unit_test(computing_again_takes_less),
        cmocka_unit_test(ranks_share_what_they_can),
        cmocka_unit_test(the_largest_micro_batch_fits_and_the_next_does_not),
        cmocka_unit_test(a_machine_has_some_memory),
        cmocka_unit_test(fewer_pixels_take_less),
        cmocka_unit_test(samples_of_a_size),
        cmocka_unit_test(the_plan_is_what_a_device_gives), /* last: it chooses the backend */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
