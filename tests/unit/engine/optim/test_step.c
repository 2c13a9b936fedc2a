/* SPDX-License-Identifier: Apache-2.0 */
/* test_step.c - a training step: dropout, accumulation, NaN, memory, and that it learns;
 * the optimizer over a layout: state, EMA, refusals */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { B = 4, CH = 3, H = 4, W = 3, L = 5, D = 6, N = CH * H * W };

static const struct model_config config = {
    .depth = 2, .hidden = 16, .heads = 2, .linear_head_dim = 8, .patch = 1,
    .mlp_hidden = 20, .qk_norm = true, .y_norm = true, .y_norm_scale = 0.3f,
    .y_norm_eps = 1e-5f, .latent_channels = CH, .caption_channels = D,
    .caption_len = L, .caption_dropout = 0.1f};
static const struct model_limits limits = {B, H, W, L, false, false, 0};
static const struct optim_config adamw = {OPTIM_ADAMW, {0.9, 0.999, 0}, {1e-8, 0}, 0.01, 1, 1, 0.9};
static const struct optim_config came = {
    OPTIM_CAME, {0.9, 0.999, 0.9999}, {1e-30, 1e-16}, 0.01, 1, 1, 0};

struct data {
    float   x0[B * N], noise[B * N], y[B * L * D], mask[B * L];
    int     t_index[B];
    uint8_t drop[B];
};

static struct data data_make(void)
{
    struct data d;
    const struct rng r = rng_make(31, 0, 0, RNG_TEST);
    rng_normal(&r, d.x0, 0, B * N);
    rng_normal(&r, d.noise, 1000, B * N);
    rng_normal(&r, d.y, 2000, B * L * D);
    for (int i = 0; i < B * L; i++)
        d.mask[i] = i % L < 2 + i / L % 3;
    for (int i = 0; i < B; i++) {
        d.t_index[i] = (int)(i * 277 + 100) % 1000;
        d.drop[i] = 0;
    }
    return d;
}

/* Samples from..from+count of the data. */
static struct step_input part(const struct data *d, int from, int count)
{
    return (struct step_input){.batch = count, .height = H, .width = W, .text = L, .x0 = d->x0 + from * N,
                               .noise = d->noise + from * N, .t_index = d->t_index + from, .y = d->y + from * L * D,
                               .mask = d->mask + from * L, .drop = d->drop + from};
}

static struct step *step_make(const struct optim_config *opt)
{
    struct step *s = NULL;
    struct err err = {0};
    if (step_create(&s, &config, &limits, opt, 3.0, NULL, &err) < 0)
        fail_msg("%s", err.text);
    model_init_weights(step_model(s), 7);
    optim_ema_reset(params_optim(step_params(s)), model_weights(step_model(s)));
    return s;
}

static size_t floats(struct step *s)
{
    return layout_floats(model_layout(step_model(s)));
}

static double run(struct step *s, const struct step_input *in, double weight)
{
    struct err err = {0};
    double loss;
    if (step_micro(s, in, weight, &loss, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return loss;
}

static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw), *p = step_make(&adamw);
    const struct data d = data_make();
    const struct step_input all = part(&d, 0, B), one = part(&d, 0, 1), rest = part(&d, 1, B - 1);
    step_begin(s);
    const double whole = run(s, &all, 1.0);
    for (int twice = 0; twice < 2; twice++) { /* step_begin() forgets what was */
        step_begin(p);
        const double a = run(p, &one, 1.0 / B), b = run(p, &rest, (B - 1.0) / B);
        assert_true(fabs((a + (B - 1) * b) / B - whole) < 1e-6);
    }
    const float *g = model_grads(step_model(s)), *h = model_grads(step_model(p));
    double off = 0, norm = 0;
    for (size_t i = 0; i < floats(s); i++) {
        off += ((double)g[i] - (double)h[i]) * ((double)g[i] - (double)h[i]);
        norm += (double)g[i] * (double)g[i];
    }
    assert_true(norm > 0 && sqrt(off) < 1e-6 * sqrt(norm));
    assert_true(fabs(optim_grad_norm(kern_cpu(), model_layout(step_model(s)), g) - sqrt(norm)) < 1e-9);
    step_destroy(s);
    step_destroy(p);
}

/* What stands behind a caption is not even read: no number of a step changes with it. */
static void padding_of_captions_is_nothing(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    const size_t bytes = sizeof(float) * floats(s);
    float out[B * N], *grads = malloc(bytes);
    int64_t rows = 0, tokens = 0;
    assert_non_null(grads);
    d.drop[2] = 1;
    step_begin(s);
    const double loss = run(s, &in, 1);
    memcpy(out, step_output(s), sizeof(out));
    memcpy(grads, model_grads(step_model(s)), bytes);
    for (int i = 0; i < B * L; i++) {
        tokens += d.mask[i] > 0;
        for (int k = 0; !(d.mask[i] > 0) && k < D; k++)
            d.y[i * D + k] = NAN;
    }
    step_begin(s);
    assert_true(loss == run(s, &in, 1));
    assert_memory_equal(out, step_output(s), sizeof(out));
    assert_memory_equal(grads, model_grads(step_model(s)), bytes);
    assert_non_null(model_activation(step_model(s), "y_embedder", &rows, NULL));
    assert_int_equal(rows, tokens * config.hidden); /* and nothing is computed for it */
    assert_true(tokens < B * L);
    free(grads);
    step_destroy(s);
}

static void dropped_captions_become_the_null_embedding(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    struct data d = data_make(), by_hand = d;
    const struct layout *l = model_layout(step_model(s));
    const float *null = model_weights(step_model(s)) +
                        layout_at(l, layout_find(l, "y_embedder.y_embedding"))->offset;
    d.drop[1] = d.drop[3] = 1;
    memcpy(by_hand.y + L * D, null, sizeof(float) * L * D);
    memcpy(by_hand.y + 3 * L * D, null, sizeof(float) * L * D);
    const struct step_input with = part(&d, 0, B), without = part(&by_hand, 0, B);
    float out[B * N];
    step_begin(s);
    const double a = run(s, &with, 1);
    memcpy(out, step_output(s), sizeof(out));
    assert_true(a == run(s, &without, 1));
    assert_memory_equal(out, step_output(s), sizeof(out));
    d.drop[1] = 0;
    assert_true(a != run(s, &with, 1));
    step_destroy(s);
}

/* Two runs give the same bits, weights and state. */
static void runs_repeat_bit_for_bit(void **state)
{
    (void)state;
    static const struct optim_config *const opts[] = {&adamw, &came};
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    for (size_t o = 0; o < ARRAY_LEN(opts); o++) {
        struct step *s[2] = {step_make(opts[o]), step_make(opts[o])};
        double loss[2] = {0}, norm;
        struct err err = {0};
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 5; k++) {
                step_begin(s[i]);
                loss[i] = run(s[i], &in, 1);
                assert_int_equal(step_end(s[i], 1e-3, &norm, &err), 0);
            }
        assert_true(loss[0] == loss[1]);
        assert_memory_equal(model_weights(step_model(s[0])), model_weights(step_model(s[1])),
                            floats(s[0]) * sizeof(float));
        step_destroy(s[0]);
        step_destroy(s[1]);
    }
}

/* Blocks computed again before their backward pass: less memory, the same bits. */
static void blocks_computed_again_change_no_bit(void **state)
{
    (void)state;
    static const struct model_config deep = {
        .depth = 4, .hidden = 16, .heads = 2, .linear_head_dim = 8, .patch = 1,
        .mlp_hidden = 20, .qk_norm = true, .cross_norm = true, .y_norm = true,
        .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f, .latent_channels = CH,
        .caption_channels = D, .caption_len = L, .caption_dropout = 0.1f};
    static const struct model_limits less = {B, H, W, L, true, false, 0};
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B), few = part(&d, 1, 2);
    struct step *s[2] = {0};
    struct err err = {0};
    double loss[2], norm[2];
    for (int i = 0; i < 2; i++) {
        if (step_create(&s[i], &deep, i ? &less : &limits, &adamw, 3.0, NULL, &err) < 0)
            fail_msg("%s", err.text);
        model_init_weights(step_model(s[i]), 7);
        for (int k = 0; k < 3; k++) {
            step_begin(s[i]);
            run(s[i], &few, 0.3);
            loss[i] = run(s[i], &in, 0.7);
            assert_int_equal(step_end(s[i], 1e-2, &norm[i], &err), 0);
        }
    }
    assert_true(model_bytes(step_model(s[1])) < model_bytes(step_model(s[0])));
    assert_true(loss[0] == loss[1] && norm[0] == norm[1]);
    assert_memory_equal(model_grads(step_model(s[0])), model_grads(step_model(s[1])), floats(s[0]) * sizeof(float));
    assert_memory_equal(model_weights(step_model(s[0])), model_weights(step_model(s[1])), floats(s[0]) * sizeof(float));
    int64_t count;
    assert_non_null(model_activation(step_model(s[0]), "blocks.1.attn", &count, &err));
    assert_null(model_activation(step_model(s[1]), "blocks.1.attn", &count, &err));
    step_destroy(s[0]);
    step_destroy(s[1]);
}

/* Prints a digest of the weights after some steps; run by the test below in processes of its own,
 * because a process keeps the number of threads it began with. */
static int print_digest(void)
{
    static const struct model_config wide = {
        .depth = 1, .hidden = 96, .heads = 3, .linear_head_dim = 32, .patch = 1,
        .mlp_hidden = 200, .qk_norm = true, .cross_norm = true, .y_norm = true,
        .y_norm_scale = 0.3f, .y_norm_eps = 1e-5f, .latent_channels = CH,
        .caption_channels = D, .caption_len = L};
    static const struct model_limits large = {B, 16, 12, L, false, false, 0};
    enum { LARGE = B * CH * 16 * 12 };
    struct step *s = NULL;
    struct err err = {0};
    double loss, norm;
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    struct data d = data_make();
    float *x0 = malloc(LARGE * sizeof(float)), *noise = malloc(LARGE * sizeof(float));
    const struct rng r = rng_make(32, 0, 0, RNG_TEST);
    rng_normal(&r, x0, 0, LARGE);
    rng_normal(&r, noise, LARGE, LARGE);
    const struct step_input in = {.batch = B, .height = 16, .width = 12, .text = L, .x0 = x0, .noise = noise,
                                  .t_index = d.t_index, .y = d.y, .mask = d.mask, .drop = d.drop};
    if (step_create(&s, &wide, &large, &adamw, 3.0, NULL, &err) < 0)
        return 1;
    model_init_weights(step_model(s), 7);
    for (int k = 0; k < 3; k++) {
        step_begin(s);
        if (step_micro(s, &in, 1, &loss, NULL, &err) < 0 || step_end(s, 1e-2, &norm, &err) < 0)
            return 1;
    }
    for (size_t i = 0; i < floats(s); i++) {
        uint32_t bits;
        memcpy(&bits, model_weights(step_model(s)) + i, sizeof(bits));
        digest = (digest ^ bits) * UINT64_C(0x100000001b3);
    }
    printf("%016llx %.17g\n", (unsigned long long)digest, loss);
    step_destroy(s);
    free(x0);
    free(noise);
    return 0;
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    char first[64] = "", line[64], command[600], self[500];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    for (int threads = 1; threads <= 6; threads++) {
        snprintf(command, sizeof(command), "OMP_NUM_THREADS=%d '%s' digest", threads, self);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof(line), f));
        assert_int_equal(pclose(f), 0);
        if (threads == 1)
            memcpy(first, line, sizeof(line));
        assert_string_equal(line, first);
    }
}

static void it_learns_one_batch(void **state)
{
    (void)state;
    static const struct optim_config *const opts[] = {&adamw, &came};
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    for (size_t o = 0; o < ARRAY_LEN(opts); o++) {
        struct step *s = step_make(opts[o]);
        struct err err = {0};
        double first = 0, last = 0, norm;
        for (int k = 0; k < 150; k++) {
            step_begin(s);
            last = run(s, &in, 1);
            first = k ? first : last;
            assert_int_equal(step_end(s, 3e-3, &norm, &err), 0);
        }
        if (!(last < 0.3 * first))
            fail_msg("optimizer %zu: loss went from %g to %g", o, first, last);
        step_destroy(s);
    }
}

static void a_gradient_that_is_not_finite_updates_nothing(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    struct data d = data_make();
    struct err err = {0};
    double norm;
    float *before = malloc(floats(s) * sizeof(float));
    memcpy(before, model_weights(step_model(s)), floats(s) * sizeof(float));
    d.x0[7] = NAN;
    const struct step_input in = part(&d, 0, B);
    step_begin(s);
    assert_true(isnan(run(s, &in, 1)));
    assert_int_equal(step_end(s, 1e-3, &norm, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_true(!isfinite(norm));
    assert_memory_equal(before, model_weights(step_model(s)), floats(s) * sizeof(float));
    assert_int_equal(optim_count(params_optim(step_params(s))), 0);
    free(before);
    step_destroy(s);
}

static size_t allocated(void)
{
#if __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return (size_t)mallinfo().uordblks;
#endif
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    struct err err = {0};
    double norm;
    size_t used = 0;
    for (int k = 0; k < 400; k++) {
        step_begin(s);
        run(s, &in, 1);
        assert_int_equal(step_end(s, 1e-4, &norm, &err), 0);
        if (k == 5)
            used = allocated();
    }
    assert_int_equal(allocated(), used);
    step_destroy(s);
}

static void impossible_batches_are_refused(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    struct data d = data_make();
    double loss;
    const struct rng streams[B] = {rng_make(1, 0, 0, RNG_NOISE)};
    for (int i = 0; i < 5; i++) {
        struct step_input in = part(&d, 0, B);
        struct err err = {0};
        if (i == 0)
            in.batch = B + 1;
        if (i == 1)
            in.text = L + 1;
        if (i == 2)
            in.height = H + 1;
        if (i == 3) /* the CPU draws none */
            in.streams = streams;
        if (i == 4)
            d.t_index[2] = 1000;
        assert_int_equal(step_micro(s, &in, 1, &loss, NULL, &err), -1);
        assert_int_equal(err.code, i == 3 ? ERR_BUG : ERR_USAGE);
    }
    step_destroy(s);
}

static void state_has_a_row_for_every_piece(void **state)
{
    (void)state;
    static const struct {
        const struct optim_config *opt;
        const char                *name;
        int64_t                    count; /* 0: not there */
    } rows[] = {
        {&adamw, "adamw.m.blocks.0.attn.qkv.weight", 48 * 16},
        {&adamw, "adamw.v.x_embedder.proj.bias", 16},
        {&adamw, "ema.final_layer.linear.weight", CH * 16},
        {&adamw, "adamw.m.y_embedder.y_embedding", 0},
        {&came, "came.r.blocks.0.attn.qkv.weight", 48},
        {&came, "came.res_c.blocks.1.mlp.inverted_conv.conv.weight", 16},
        {&came, "came.v.blocks.1.mlp.depth_conv.conv.weight", 40 * 9},
        {&came, "came.m.blocks.1.mlp.depth_conv.conv.weight", 40 * 9},
        {&came, "came.r.blocks.1.mlp.depth_conv.conv.weight", 0},
        {&came, "came.c.blocks.0.scale_shift_table", 16},
        {&came, "ema.final_layer.linear.weight", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct step *s = step_make(rows[i].opt);
        struct optim *o = params_optim(step_params(s));
        int64_t count = 0;
        for (int k = 0; k < optim_state_len(o); k++)
            if (strcmp(optim_state_at(o, k)->name, rows[i].name) == 0)
                count = optim_state_at(o, k)->count;
        if (count != rows[i].count)
            fail_msg("%s has %lld numbers, not %lld", rows[i].name, (long long)count, (long long)rows[i].count);
        step_destroy(s);
    }
}

/* A run taken up from copied weights and state goes on with the same bits. */
static void state_is_all_there_is(void **state)
{
    (void)state;
    static const struct optim_config *const opts[] = {&adamw, &came};
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    for (size_t i = 0; i < ARRAY_LEN(opts); i++) {
        struct step *a = step_make(opts[i]), *b = step_make(opts[i]);
        struct err err = {0};
        double norm;
        for (int k = 0; k < 6; k++) {
            if (k == 3) { /* b begins here */
                struct optim *from = params_optim(step_params(a)), *to = params_optim(step_params(b));
                memcpy(model_weights(step_model(b)), model_weights(step_model(a)), floats(a) * sizeof(float));
                for (int n = 0; n < optim_state_len(from); n++)
                    memcpy(optim_state_at(to, n)->data, optim_state_at(from, n)->data,
                           (size_t)optim_state_at(from, n)->count * sizeof(float));
                optim_set_count(to, optim_count(from));
            }
            step_begin(a);
            run(a, &in, 1);
            assert_int_equal(step_end(a, 1e-3, &norm, &err), 0);
            if (k < 3)
                continue;
            step_begin(b);
            run(b, &in, 1);
            assert_int_equal(step_end(b, 1e-3, &norm, &err), 0);
        }
        assert_memory_equal(model_weights(step_model(a)), model_weights(step_model(b)), floats(a) * sizeof(float));
        if (optim_ema(params_optim(step_params(a))))
            assert_memory_equal(optim_ema(params_optim(step_params(a))), optim_ema(params_optim(step_params(b))),
                                floats(a) * sizeof(float));
        step_destroy(a);
        step_destroy(b);
    }
}

static void ema_follows_the_weights_before_the_update(void **state)
{
    (void)state;
    struct step *s = step_make(&adamw);
    const struct data d = data_make();
    const struct step_input in = part(&d, 0, B);
    const struct layout *l = model_layout(step_model(s));
    const size_t at = layout_at(l, layout_find(l, "blocks.0.attn.qkv.weight"))->offset;
    struct err err = {0};
    double want = (double)optim_ema(params_optim(step_params(s)))[at], norm;
    for (int k = 0; k < 4; k++) {
        want = 0.9 * want + 0.1 * (double)model_weights(step_model(s))[at];
        step_begin(s);
        run(s, &in, 1);
        assert_int_equal(step_end(s, 1e-2, &norm, &err), 0);
    }
    assert_true(fabs((double)optim_ema(params_optim(step_params(s)))[at] - want) < 1e-7);
    assert_true(optim_ema(params_optim(step_params(s)))[at] != model_weights(step_model(s))[at]);
    step_destroy(s);
}

static void impossible_optimizers_are_refused(void **state)
{
    (void)state;
    struct optim_config rows[] = {adamw, adamw, adamw, adamw, came, came, came};
    rows[0].beta[0] = 1;
    rows[1].eps[0] = 0;
    rows[2].clip = -1;
    rows[3].ema = 1;
    rows[4].beta[2] = 1;
    rows[5].eps[1] = 0;
    rows[6].clip_threshold = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct step *s = NULL;
        struct err err = {0};
        assert_int_equal(step_create(&s, &config, &limits, &rows[i], 3.0, NULL, &err), -1);
        assert_int_equal(err.code, ERR_USAGE);
        assert_null(s);
    }
    struct step *s = NULL;
    struct err err = {0};
    assert_int_equal(step_create(&s, &config, &limits, &adamw, 0, NULL, &err), -1);
    assert_non_null(strstr(err.text, "flow_shift"));
}

/* Bytes of weights, gradients and optimizer state. */
static int64_t bytes_held(struct step *s)
{
    struct optim *o = params_optim(step_params(s));
    size_t floats = 2 * params_floats(step_params(s));
    for (int i = 0; i < optim_state_len(o); i++)
        floats += optim_state_at(o, i)->to - optim_state_at(o, i)->from;
    return (int64_t)(floats * sizeof(float));
}

/* What ranks that share hold of weights, gradients, moments and averages: each less than one that
 * shares nothing, and all together no more than is shared once, but for the ends of parts. */
static void ranks_that_share_hold_less(void **state)
{
    (void)state;
    static const struct optim_config *const types[] = {&adamw, &came};
    for (size_t o = 0; o < ARRAY_LEN(types); o++)
        for (int world = 2; world <= 8; world += 3) {
            struct step *ddp, *s;
            struct err err = {0};
            int64_t held[SHARING_FSDP + 1] = {0};
            assert_int_equal(step_create(&ddp, &config, &limits, types[o], 3, NULL, &err), 0);
            const int64_t whole = bytes_held(ddp);
            const int64_t block = 4 * (int64_t)layout_floats(model_layout(step_model(ddp)));
            for (int how = SHARING_ZERO1; how <= SHARING_FSDP; how++)
                for (int r = 0; r < world; r++) {
                    const struct params_share share = {(enum sharing)how, r, world};
                    if (step_create(&s, &config, &limits, types[o], 3, &share, &err) < 0)
                        fail_msg("%s", err.text);
                    assert_true(bytes_held(s) < whole);
                    held[how] += bytes_held(s);
                    step_destroy(s);
                }
            assert_int_equal(held[SHARING_ZERO1], whole + (world - 1) * 2 * block);
            /* the buffer is with each of them, and every part ends with a gap below 16 numbers */
            const int64_t spare = 2 * 4 * (int64_t)world * (16 + L * D + 16 * (config.depth + 2));
            assert_true(held[SHARING_FSDP] <= whole + spare);
            assert_true(held[SHARING_FSDP] < held[SHARING_ZERO1]);
            step_destroy(ddp);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "digest") == 0)
        return print_digest();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(padding_of_captions_is_nothing),
        cmocka_unit_test(dropped_captions_become_the_null_embedding),
        cmocka_unit_test(runs_repeat_bit_for_bit),
        cmocka_unit_test(blocks_computed_again_change_no_bit),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(it_learns_one_batch),
        cmocka_unit_test(a_gradient_that_is_not_finite_updates_nothing),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(impossible_batches_are_refused),
        cmocka_unit_test(state_has_a_row_for_every_piece),
        cmocka_unit_test(state_is_all_there_is),
        cmocka_unit_test(ema_follows_the_weights_before_the_update),
        cmocka_unit_test(impossible_optimizers_are_refused),
        cmocka_unit_test(ranks_that_share_hold_less),
    };
    return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
