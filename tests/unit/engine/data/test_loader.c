/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c - a batch depends on (seed, step) only, and no sample is lost */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/files/safetensors.h"
#include "kernels/bf16.h"
#include "kernels/rng.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { N = 11, C = 3, HW = 4, L = 5, D = 8 };

static char dir[256];
static struct dataset *data;
static struct train_spec spec;

/* Sample i has latents i, captions 100 + i, and 1 + i % 3 words. */
static int make_data(void **state)
{
    (void)state;
    static float latent[N * C * HW], caption[N * L * D], mask[N * L];
    struct st_writer *w;
    char path[300];
    int64_t bytes;
    scratch_dir_create(dir, sizeof(dir), "loader");
    for (int i = 0; i < N * C * HW; i++)
        latent[i] = (float)(i / (C * HW));
    for (int i = 0; i < N * L * D; i++)
        caption[i] = 100 + (float)(i / (L * D)) + 0.001f * (float)(i % D);
    for (int i = 0; i < N * L; i++)
        mask[i] = i % L < 1 + i / L % 3;
    snprintf(path, sizeof(path), "%s/s.safetensors", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (st_writer_create(&w, NULL) < 0 ||
        st_writer_add(w, "latent", ST_F32, 4, (int64_t[]){N, C, 2, 2}, latent, NULL) < 0 ||
        st_writer_add(w, "caption", ST_F32, 3, (int64_t[]){N, L, D}, caption, NULL) < 0 ||
        st_writer_add(w, "mask", ST_F32, 2, (int64_t[]){N, L}, mask, NULL) < 0 ||
        st_writer_write(w, fd, &bytes, NULL) < 0)
        return -1;
    close(fd);
    st_writer_destroy(w);
    spec = (struct train_spec){.encoders = ENCODERS_FEATURES, .batch_global = 4, .batch_micro = 4,
                               .logit_std = 1, .seed = 7};
    spec.model.caption_dropout = 0.3f;
    snprintf(spec.data_path, sizeof(spec.data_path), "%s", dir);
    return dataset_open(&data, &spec, NULL, NULL, NULL);
}

static int remove_data(void **state)
{
    (void)state;
    dataset_close(data);
    return scratch_remove(dir, NULL);
}

static void a_step_does_not_depend_on_the_steps_before_or_the_micro_batch(void **state)
{
    (void)state;
    struct loader *a, *b;
    struct err err = {0};
    struct step_input whole, part;
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &spec, NULL, &err), 0);
    for (int64_t step = 0; step < 9; step++) {
        assert_int_equal(loader_fill(a, &whole, step, 0, 4, &err), 0);
        for (int i = 3; i >= 0; i--) {
            assert_int_equal(loader_fill(b, &part, step, i, 1, &err), 0);
            assert_memory_equal(part.x0, whole.x0 + i * C * HW, sizeof(float) * C * HW);
            assert_memory_equal(part.noise, whole.noise + i * C * HW, sizeof(float) * C * HW);
            assert_int_equal(part.t_index[0], whole.t_index[i]);
            assert_int_equal(part.drop[0], whole.drop[i]);
            assert_true(part.y[0] == whole.y[i * whole.text * D]);
            assert_true(part.y[0] == 100 + part.x0[0]);
        }
        assert_int_equal(loader_fill(b, &part, 1000 - step, 0, 4, &err), 0);
    }
    loader_destroy(a);
    loader_destroy(b);
}

static void captions_are_cut_to_the_longest_of_the_batch(void **state)
{
    (void)state;
    struct loader *l;
    struct err err = {0};
    struct step_input in;
    int dropped = 0;
    assert_int_equal(loader_create(&l, data, &spec, NULL, &err), 0);
    for (int64_t step = 0; step < 200; step++) {
        assert_int_equal(loader_fill(l, &in, step, 0, 4, &err), 0);
        int most = 0;
        for (int i = 0; i < 4; i++) {
            int words = 1 + (int)in.x0[i * C * HW] % 3;
            most = words > most ? words : most;
            for (int k = 0; k < in.text; k++)
                assert_true(in.mask[i * in.text + k] == (k < words));
            assert_in_range(in.t_index[i], 0, 999);
            dropped += in.drop[i];
        }
        assert_int_equal(in.text, most);
    }
    assert_in_range(dropped, 180, 300); /* 0.3 of 800 */
    assert_int_equal(loader_fill(l, &in, 0, 0, 5, &err), -1);
    loader_destroy(l);
}

static void another_seed_is_another_run(void **state)
{
    (void)state;
    struct loader *a, *b;
    struct err err = {0};
    struct step_input x, y;
    struct train_spec other = spec;
    other.seed = 8;
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &other, NULL, &err), 0);
    assert_int_equal(loader_fill(a, &x, 0, 0, 4, &err), 0);
    assert_int_equal(loader_fill(b, &y, 0, 0, 4, &err), 0);
    assert_memory_not_equal(x.noise, y.noise, sizeof(float) * C * HW * 4);
    loader_destroy(a);
    loader_destroy(b);
}

/* Micro-batches of four steps, in the order in which a rank takes them. */
static void a_batch_that_was_read_ahead_is_the_same(void **state)
{
    (void)state;
    static const int from[] = {0, 2, 3}, n[] = {2, 1, 1};
    struct loader *a, *b;
    struct err err = {0};
    struct step_input now, ahead;
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &spec, NULL, &err), 0);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(loader_fill(a, &now, i / 3, from[i % 3], n[i % 3], &err), 0);
        assert_int_equal(loader_fill(b, &ahead, i / 3, from[i % 3], n[i % 3], &err), 0);
        assert_int_equal(loader_ahead(b, (i + 1) / 3, from[(i + 1) % 3], n[(i + 1) % 3], &err), 0);
        assert_int_equal(ahead.text, now.text);
        assert_int_equal(ahead.batch, n[i % 3]);
        assert_memory_equal(ahead.x0, now.x0, sizeof(float) * C * HW * (size_t)n[i % 3]);
        assert_memory_equal(ahead.noise, now.noise, sizeof(float) * C * HW * (size_t)n[i % 3]);
        assert_memory_equal(ahead.y, now.y, sizeof(float) * D * (size_t)(now.text * n[i % 3]));
        assert_memory_equal(loader_slots(b), loader_slots(a), sizeof(struct batch_slot) * (size_t)n[i % 3]);
    }
    assert_int_equal(loader_counts(b).ahead, 11);
    assert_int_equal(loader_counts(a).ahead, 0);
    assert_int_equal(loader_fill(b, &ahead, 7, 0, 2, &err), 0); /* another one than was read */
    assert_int_equal(loader_fill(a, &now, 7, 0, 2, &err), 0);
    assert_memory_equal(ahead.x0, now.x0, sizeof(float) * C * HW * 2);
    assert_int_equal(loader_ahead(b, 0, 0, 5, &err), -1);
    loader_destroy(a);
    loader_destroy(b);
}

/* What was read ahead is of another step, begins at another sample, or has another number of them: it is not taken. */
static void another_batch_than_was_read_is_read_now(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        int     from, n;
    } other[] = {{6, 1, 2}, {5, 2, 2}, {5, 1, 1}};
    struct loader *a, *b;
    struct err err = {0};
    struct step_input now, ahead;
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &spec, NULL, &err), 0);
    for (int i = 0; i < 3; i++) {
        const size_t n = (size_t)other[i].n;
        assert_int_equal(loader_ahead(b, 5, 1, 2, &err), 0);
        assert_int_equal(loader_fill(b, &ahead, other[i].step, other[i].from, other[i].n, &err), 0);
        assert_int_equal(loader_fill(a, &now, other[i].step, other[i].from, other[i].n, &err), 0);
        assert_int_equal(ahead.batch, now.batch);
        assert_memory_equal(ahead.x0, now.x0, sizeof(float) * C * HW * n);
        assert_memory_equal(loader_slots(b), loader_slots(a), sizeof(struct batch_slot) * n);
    }
    assert_int_equal(loader_counts(b).ahead, 0);
    loader_destroy(a);
    loader_destroy(b);
}

/* Ties go to even numbers, and what a device makes of a NaN has one form. */
static void bf16_is_rounded_as_on_a_device(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t half;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x00008001, 0x0001}, {0x80000000, 0x8000},
                 {0x7f800001, 0x7fff}, {0xffc00000, 0x7fff}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float x;
        memcpy(&x, &cases[i].bits, sizeof(x));
        assert_int_equal(bf16_of(x), cases[i].half);
    }
}

static void captions_for_a_device_are_rounded(void **state)
{
    (void)state;
    static const struct loader_device device = {.bf16 = true};
    struct loader *a, *b;
    struct err err = {0};
    struct step_input wide, half;
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &spec, &device, &err), 0);
    for (int64_t step = 0; step < 20; step++) {
        assert_int_equal(loader_fill(a, &wide, step, 0, 4, &err), 0);
        assert_int_equal(loader_fill(b, &half, step, 0, 4, &err), 0);
        assert_int_equal(loader_ahead(b, step + 1, 0, 4, &err), 0);
        assert_int_equal(half.text, wide.text);
        assert_null(half.y);
        assert_null(wide.y_bf16);
        for (int i = 0; i < 4 * wide.text * D; i++)
            assert_int_equal(half.y_bf16[i], bf16_of(wide.y[i]));
        assert_memory_equal(half.mask, wide.mask, sizeof(float) * 4 * (size_t)wide.text);
        assert_memory_equal(half.noise, wide.noise, sizeof(float) * C * HW * 4);
    }
    loader_destroy(a);
    loader_destroy(b);
}

/* A device draws from the streams what is drawn here without it, in either buffer. */
static void streams_for_a_device_are_those_of_the_noise(void **state)
{
    (void)state;
    static const struct loader_device device = {.draws = true};
    struct loader *a, *b;
    struct err err = {0};
    struct step_input here, there;
    float noise[C * HW];
    assert_int_equal(loader_create(&a, data, &spec, NULL, &err), 0);
    assert_int_equal(loader_create(&b, data, &spec, &device, &err), 0);
    for (int64_t step = 0; step < 9; step++) {
        assert_int_equal(loader_fill(a, &here, step, 1, 3, &err), 0);
        assert_int_equal(loader_fill(b, &there, step, 1, 3, &err), 0);
        assert_int_equal(loader_ahead(b, step + 1, 1, 3, &err), 0);
        assert_null(there.noise);
        assert_null(here.streams);
        for (size_t i = 0; i < 3; i++) {
            rng_normal(&there.streams[i], noise, 0, C * HW);
            assert_memory_equal(noise, here.noise + i * C * HW, sizeof(noise));
        }
        assert_memory_equal(there.x0, here.x0, sizeof(float) * C * HW * 3);
        assert_memory_equal(there.y, here.y, sizeof(float) * 3 * D * (size_t)here.text);
        assert_memory_equal(there.mask, here.mask, sizeof(float) * 3 * (size_t)here.text);
    }
    loader_destroy(a);
    loader_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_does_not_depend_on_the_steps_before_or_the_micro_batch),
        cmocka_unit_test(captions_are_cut_to_the_longest_of_the_batch),
        cmocka_unit_test(another_seed_is_another_run),
        cmocka_unit_test(a_batch_that_was_read_ahead_is_the_same),
        cmocka_unit_test(another_batch_than_was_read_is_read_now),
        cmocka_unit_test(bf16_is_rounded_as_on_a_device),
        cmocka_unit_test(captions_for_a_device_are_rounded),
        cmocka_unit_test(streams_for_a_device_are_those_of_the_noise),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
