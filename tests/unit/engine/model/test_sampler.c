/* SPDX-License-Identifier: Apache-2.0 */
/* test_sampler.c - sampled pictures depend on caption, seed and id only; the score of captions */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/image/image.h"
#include "engine/model/layout.h"
#include "engine/model/sampler.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/sample_grid.h"
#include "engine/train/sample_prompts.h"
#include "kernels/rng.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { N = 5, L = 3, D = 16, C = 12, HW = 16, LATENT = C * HW };

static float y[N * L * D], mask[N * L];
static const int64_t ids[N] = {0, 1, 2, 3, 4};
static const struct sampler_wish wish = {.n = N, .height = 4, .width = 4, .y = y, .mask = mask,
                                         .ids = ids};

static struct sampler_config settings_of(int batch, double cfg, uint64_t seed, int steps)
{
    return (struct sampler_config){
        .model = {.depth = 1, .hidden = 32, .heads = 2, .linear_head_dim = 16, .patch = 1,
                  .mlp_hidden = 48, .y_norm = true, .y_norm_scale = 1, .y_norm_eps = 1e-5f,
                  .latent_channels = C, .caption_channels = D, .caption_len = L},
        .limits = {batch, 4, 4, L, false},
        .flow_shift = 3,
        .steps = steps,
        .cfg = cfg,
        .seed = seed,
    };
}

static struct sampler *make_with(const struct sampler_config *c)
{
    struct sampler *s;
    struct err err = {0};
    if (sampler_create(&s, c, &err) < 0)
        fail_msg("%s", err.text);
    model_init_weights(sampler_model(s), 1);
    return s;
}

static struct sampler *make_steps(int batch, double cfg, uint64_t seed, int steps)
{
    const struct sampler_config c = settings_of(batch, cfg, seed, steps);
    return make_with(&c);
}

static struct sampler *make(int batch, double cfg, uint64_t seed)
{
    return make_steps(batch, cfg, seed, 4);
}

static void draw(float *out, int batch, double cfg, uint64_t seed)
{
    struct err err = {0};
    struct sampler *s = make(batch, cfg, seed);
    assert_int_equal(sampler_draw(s, out, &wish, NULL, NULL, &err), 0);
    for (int i = 0; i < N * LATENT; i++)
        assert_true(isfinite(out[i]));
    sampler_destroy(s);
}

static double apart(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - b[i]));
    return most;
}

static int make_captions(void **state)
{
    (void)state;
    for (int i = 0; i < N * L * D; i++)
        y[i] = (float)((i * 7919) % 13) / 6 - 1;
    for (int i = 0; i < N * L; i++)
        mask[i] = i % L <= i / L % 3;
    return 0;
}

static void a_picture_depends_on_seed_id_and_caption_only(void **state)
{
    (void)state;
    static float a[N * LATENT], b[N * LATENT];
    draw(a, N, 1, 1);
    draw(b, N, 1, 1);
    assert_memory_equal(a, b, sizeof(a));
    draw(b, N, 1, 2); /* another seed */
    assert_true(apart(a, b, N * LATENT) > 0.5);
    draw(b, 2, 1, 1); /* two per batch instead of five */
    assert_true(apart(a, b, N * LATENT) < 1e-4);
    y[0] += 3; /* another caption for the first sample only */
    draw(b, N, 1, 1);
    y[0] -= 3;
    assert_true(apart(a, b, LATENT) > 1e-6);
    assert_true(apart(a + LATENT, b + LATENT, (N - 1) * LATENT) < 1e-4);
}

static void guidance_moves_away_from_the_empty_caption(void **state)
{
    (void)state;
    static float one[N * LATENT], none[N * LATENT], near[N * LATENT], two[N * LATENT];
    draw(one, N, 1, 1);
    draw(none, N, 0, 1);
    draw(near, N, 1 + 1e-6, 1);
    draw(two, N, 2, 1);
    assert_true(apart(one, near, N * LATENT) < 1e-4);
    assert_true(apart(one, none, N * LATENT) > 1e-5);
    /* in the first order, 2 is as far on one side as 0 on the other */
    double along = 0;
    for (int i = 0; i < N * LATENT; i++)
        along += ((double)two[i] - one[i]) * ((double)one[i] - none[i]);
    assert_true(along > 0);
}

/* One step of size 1 with unpacked captions. */
static void draw_padded(float *out, uint64_t seed)
{
    struct err err = {0};
    static float v[N * LATENT], time[N];
    struct sampler *s = make_steps(N, 1, seed, 1);
    for (int b = 0; b < N; b++) {
        const struct rng r = rng_make(seed, 0, (uint64_t)ids[b], RNG_SAMPLING);
        rng_normal(&r, out + (size_t)b * LATENT, 0, LATENT);
        time[b] = 999;
    }
    const struct model_input in = {.batch = N, .height = 4, .width = 4, .text = L, .x = out,
                                   .timestep = time, .y = y, .mask = mask};
    assert_int_equal(model_forward_host(sampler_model(s), &in, v, &err), 0);
    for (int i = 0; i < N * LATENT; i++)
        out[i] -= v[i];
    sampler_destroy(s);
}

static void padding_is_skipped_without_effect(void **state)
{
    (void)state;
    static float packed[N * LATENT], padded[N * LATENT];
    struct err err = {0};
    draw_padded(padded, 1);
    for (int i = 0; i < N * L; i++) /* after the caption */
        for (int k = 0; k < D && mask[i] == 0; k++)
            y[i * D + k] = NAN;
    struct sampler *s = make_steps(N, 1, 1, 1);
    assert_int_equal(sampler_draw(s, packed, &wish, NULL, NULL, &err), 0);
    sampler_destroy(s);
    make_captions(NULL);
    for (int i = 0; i < N * LATENT; i++)
        assert_true(isfinite(packed[i]));
    assert_true(apart(packed, padded, N * LATENT) < 1e-5);
}

/* --- flow-DPM-Solver++ ------------------------------------------------------------------------- */

static struct sampler *make_method(enum sampler_method method, int steps, double cfg)
{
    struct sampler_config c = settings_of(N, cfg, 1, steps);
    c.method = method;
    return make_with(&c);
}

static void draw_method(float *out, enum sampler_method method, int steps, double cfg)
{
    struct err err = {0};
    struct sampler *s = make_method(method, steps, cfg);
    assert_int_equal(sampler_draw(s, out, &wish, NULL, NULL, &err), 0);
    sampler_destroy(s);
}

/* The noise that the model predicts, as the authors' wrapper turns velocities into it; the time is that of sigma. */
static void predict_noise(struct sampler *s, double *noise, const double *x, double sigma)
{
    static float in_x[N * LATENT], v[N * LATENT], time[N];
    struct err err = {0};
    for (int i = 0; i < N * LATENT; i++)
        in_x[i] = (float)x[i];
    for (int b = 0; b < N; b++)
        time[b] = (float)floor(1000 * sigma);
    const struct model_input in = {.batch = N, .height = 4, .width = 4, .text = L, .x = in_x, .timestep = time,
                                   .y = y, .mask = mask};
    assert_int_equal(model_forward_host(sampler_model(s), &in, v, &err), 0);
    for (int i = 0; i < N * LATENT; i++)
        noise[i] = (1 - sigma) * v[i] + x[i];
}

/* Written from the paper's algorithm 2 (DPM-Solver++(2M), Lu et al. 2022) with the authors' noise levels. */
static void reference(double *x, int steps)
{
    static double m[2][N * LATENT], noise[N * LATENT];
    struct sampler *s = make_method(SAMPLER_FLOW_DPM, steps, 1);
    double sigma[64], lam[64];
    for (int k = 0; k <= steps; k++) {
        const double beta = 1 - 0.999 * (steps - k) / steps;
        sigma[k] = 3 * (1 - beta) / (1 + 2 * (1 - beta));
        lam[k] = log(1 - sigma[k]) - log(sigma[k]);
    }
    for (int b = 0; b < N; b++) {
        static float start[LATENT];
        const struct rng r = rng_make(1, 0, (uint64_t)ids[b], RNG_SAMPLING);
        rng_normal(&r, start, 0, LATENT);
        for (int i = 0; i < LATENT; i++)
            x[b * LATENT + i] = start[i];
    }
    for (int k = 1; k <= steps; k++) {
        const double from = sigma[k - 1], alpha = 1 - sigma[k], h = lam[k] - lam[k - 1];
        predict_noise(s, noise, x, from);
        for (int i = 0; i < N * LATENT; i++) {
            double *now = &m[k % 2][i], d;
            *now = (x[i] - from * noise[i]) / (1 - from);
            d = *now;
            if (k > 1 && k < steps)
                d += h / (lam[k - 1] - lam[k - 2]) / 2 * (*now - m[(k + 1) % 2][i]);
            x[i] = sigma[k] / from * x[i] - alpha * (exp(-h) - 1) * d;
        }
    }
    sampler_destroy(s);
}

static void flow_dpm_solver_computes_the_papers_algorithm(void **state)
{
    (void)state;
    static float got[N * LATENT];
    static double want[N * LATENT];
    for (int steps = 1; steps <= 20; steps = steps < 4 ? steps + 1 : steps + 8) {
        draw_method(got, SAMPLER_FLOW_DPM, steps, 1);
        reference(want, steps);
        for (int i = 0; i < N * LATENT; i++)
            assert_true(fabs(got[i] - want[i]) < 2e-4);
    }
}

static void it_needs_fewer_steps_than_euler(void **state)
{
    (void)state;
    static float fine[N * LATENT], euler[N * LATENT], dpm[N * LATENT];
    draw_method(fine, SAMPLER_EULER, 1000, 1);
    draw_method(euler, SAMPLER_EULER, 20, 1);
    draw_method(dpm, SAMPLER_FLOW_DPM, 20, 1);
    assert_true(apart(dpm, fine, N * LATENT) < 0.5 * apart(euler, fine, N * LATENT));
}

static int ticks;
static double last_share;

static bool tick(void *arg, double share)
{
    assert_ptr_equal(arg, &ticks);
    assert_true(share > last_share);
    last_share = share;
    return ++ticks != 13;
}

static void progress_is_reported(void **state)
{
    (void)state;
    static float out[N * LATENT];
    struct err err = {0};
    struct sampler *s = make(2, 1, 1);
    assert_int_equal(sampler_draw(s, out, &wish, tick, &ticks, &err), 0);
    assert_int_equal(ticks, 12); /* three batches of four steps */
    assert_true(fabs(last_share - 1) < 1e-9);
    last_share = 0; /* the next tick stops */
    assert_int_equal(sampler_draw(s, out, &wish, tick, &ticks, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(ticks, 13);
    sampler_destroy(s);
}

static void the_score_prefers_the_own_caption(void **state)
{
    (void)state;
    char dir[256], path[400];
    struct err err = {0};
    struct dataset *d;
    struct sample_grid_score score;
    scratch_dir_create(dir, sizeof(dir), "gallery");
    for (int i = 0; i < 3; i++) {
        struct image im;
        assert_int_equal(image_create(&im, 8, 8, &err), 0);
        image_fill(&im, i * 2, 0, 3, 8, 0x3060C0u << i);
        snprintf(path, sizeof(path), "%s/p%d.png", dir, i);
        assert_int_equal(image_write_png(&im, path, &err), 0);
        image_free(&im);
        snprintf(path, sizeof(path), "%s/p%d.txt", dir, i);
        FILE *f = fopen(path, "w");
        fprintf(f, "picture %d", i);
        fclose(f);
    }
    struct train_spec s = {.dct_block = 4, .caption_words = 2, .caption_channels = 8};
    s.model.patch = 1;
    snprintf(s.data_path, sizeof(s.data_path), "%s", dir);
    snprintf(path, sizeof(path), "%s/cache", dir);
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    struct sample_prompts who;
    assert_int_equal(sample_prompts_of_data(&who, d, 3, &err), 0);
    assert_int_equal(who.floats, 3 * 192);
    float *latents = who.original;
    assert_int_equal(sample_grid_score(&score, d, &who, latents, &err), 0);
    assert_int_equal(score.nearest_own, 3);
    assert_true(score.psnr > 98);
    float swap[192];
    memcpy(swap, latents, sizeof(swap));
    memcpy(latents, latents + 192, sizeof(swap));
    memcpy(latents + 192, swap, sizeof(swap));
    assert_int_equal(sample_grid_score(&score, d, &who, latents, &err), 0);
    assert_int_equal(score.nearest_own, 1);
    assert_true(score.psnr < 60);
    struct picture_decoder decoder = {.data = d};
    struct sample_grid_pictures all = {latents, latents, latents};
    who.of[1].caption = "a caption much longer than a row is wide";
    struct image im;
    snprintf(path, sizeof(path), "%s/grid.png", dir);
    for (int n = 1; n <= 3; n++) {
        who.n = n;
        assert_int_equal(sample_grid_write(&decoder, &who, &all, path, &err), 0);
        assert_int_equal(image_read(&im, path, &err), 0);
        image_free(&im);
    }
    sample_prompts_free(&who);
    dataset_close(d);
    assert_int_equal(scratch_remove(dir, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_depends_on_seed_id_and_caption_only),
        cmocka_unit_test(padding_is_skipped_without_effect),
        cmocka_unit_test(guidance_moves_away_from_the_empty_caption),
        cmocka_unit_test(flow_dpm_solver_computes_the_papers_algorithm),
        cmocka_unit_test(it_needs_fewer_steps_than_euler),
        cmocka_unit_test(progress_is_reported),
        cmocka_unit_test(the_score_prefers_the_own_caption),
    };
    return cmocka_run_group_tests(tests, make_captions, NULL);
}
