/* SPDX-License-Identifier: Apache-2.0 */
/* test_vae.c - autoencoders in strips against the whole picture, their sizes, names and latents in files */
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/vae/latent_file.h"
#include "engine/vae/vae_names.h"
#include "engine/vae/vae_source.h"

static const struct vae_config dcae = {
    .family = VAE_DCAE, .latent = 4, .stages = 4, .width = {16, 32, 32, 64}, .encoder_depth = {2, 1, 2, 1},
    .decoder_depth = {1, 2, 1, 2}, .attention = {false, false, true, true}, .scale = 1};
static const struct vae_config kl = {
    .family = VAE_KL, .latent = 4, .stages = 3, .width = {16, 24, 32}, .encoder_depth = {1, 2, 1},
    .decoder_depth = {2, 1, 2}, .groups = 4, .scale = 1};

static void fill(float *x, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((i * 7919 + (size_t)seed * 104729) % 2003) / 1001.0f - 1;
}

static double relative_l2(const float *a, const float *b, size_t n)
{
    double diff = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)b[i] * (double)b[i];
    }
    assert_true(all > 0);
    return sqrt(diff / all);
}

enum { HIGH = 13, WIDE = 6 }; /* latents: odd, and more pixels than the quadratic form of attention has */

/* Strips of 2 rows, whatever the resolution, of 6, of 16, and one of all rows; memory for all pictures between layers,
 * for some and for none. */
static void check_strips(const struct vae_config *cfg, enum vae_half half)
{
    static const int strips[] = {1, 6, 16, 40};
    static const size_t memory[] = {0, 100000, 1};
    const size_t factor = (size_t)vae_config_factor(cfg), small = HIGH * WIDE * 2 * (size_t)cfg->latent;
    const size_t big = HIGH * WIDE * factor * factor * 3, n = half == VAE_ENCODER ? small : big;
    float *in = malloc((small + big) * sizeof(*in)), *whole = calloc(n, sizeof(*whole)), *out = calloc(n, sizeof(*out));
    struct vae *v = NULL;
    struct err err = {0};
    assert_true(in && whole && out);
    fill(in, small + big, 1);
    assert_int_equal(vae_source_random(&v, cfg, half, &err), 0);
    for (int i = -1; i < 12; i++) {
        float *to = i < 0 ? whole : out;
        vae_set_strip(v, i < 0 ? 1 << 20 : strips[i % 4]);
        vae_set_memory(v, i < 0 ? 0 : memory[i / 4]);
        assert_int_equal(half == VAE_ENCODER
                             ? vae_encode(v, to, in, HIGH * (int)factor, WIDE * (int)factor, &err)
                             : vae_decode(v, to, in, HIGH, WIDE, &err), 0);
        if (i >= 0 && !(relative_l2(out, whole, n) < 1e-5))
            fail_msg("strips of %d rows, with %zu bytes, differ by %g", strips[i % 4], memory[i / 4],
                     relative_l2(out, whole, n));
    }
    vae_destroy(v);
    free(in);
    free(whole);
    free(out);
}

static void strips_test(void **state)
{
    (void)state;
    check_strips(&dcae, VAE_ENCODER);
    check_strips(&dcae, VAE_DECODER);
    check_strips(&kl, VAE_ENCODER);
    check_strips(&kl, VAE_DECODER);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* Bytes that are allocated now, and the most so far. */
static atomic_long live, peak;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void  __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void  __wrap_free(void *p);

static void *count(void *p, long before)
{
    const long now = atomic_fetch_add(&live, (long)malloc_usable_size(p) - before) + (long)malloc_usable_size(p) - before;
    long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return count(__real_malloc(n), 0);
}

void *__wrap_calloc(size_t n, size_t each)
{
    return count(__real_calloc(n, each), 0);
}

void *__wrap_realloc(void *p, size_t n)
{
    const long before = (long)malloc_usable_size(p);
    return count(__real_realloc(p, n), before);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return count(__real_aligned_alloc(align, n), 0);
}

void __wrap_free(void *p)
{
    atomic_fetch_sub(&live, (long)malloc_usable_size(p));
    __real_free(p);
}

enum { EDGE_MEMORY = 64 };

/* The most bytes that are allocated during a pass over `height` x 64 pixels. */
static long peak_of(struct vae *v, const struct vae_config *cfg, enum vae_half half, int height)
{
    const int factor = vae_config_factor(cfg), high = height / factor, wide = EDGE_MEMORY / factor;
    float *x = calloc(3 * (size_t)height * EDGE_MEMORY, sizeof(*x));
    float *z = calloc(2 * (size_t)(cfg->latent * high * wide), sizeof(*z));
    struct err err = {0};
    assert_true(x && z);
    fill(x, 3 * (size_t)height * EDGE_MEMORY, 4);
    fill(z, 2 * (size_t)(cfg->latent * high * wide), 5);
    const long before = atomic_load(&live);
    atomic_store(&peak, before);
    assert_int_equal(half == VAE_ENCODER ? vae_encode(v, z, x, height, EDGE_MEMORY, &err)
                                         : vae_decode(v, x, z, high, wide, &err), 0);
    assert_int_equal(atomic_load(&live), before);
    free(x);
    free(z);
    return atomic_load(&peak) - before;
}

/* A pass over four times the pixels, of the same width, allocates at most `floats` more for each of the new ones. */
static void check_growth(const struct vae_config *cfg, enum vae_half half, double floats)
{
    enum { LOW = 128, HIGH_MEMORY = 512 };
    struct vae *v = NULL;
    struct err err = {0};
    assert_int_equal(vae_source_random(&v, cfg, half, &err), 0);
    vae_set_strip(v, 4);
    vae_set_memory(v, 1);
    const long small = peak_of(v, cfg, half, LOW), big = peak_of(v, cfg, half, HIGH_MEMORY);
    const double each = (double)(big - small) / (double)sizeof(float) / ((HIGH_MEMORY - LOW) * EDGE_MEMORY);
    if (!(each <= floats))
        fail_msg("%s %s: %ld and %ld bytes: %.2f numbers for each pixel, at most %.2f are expected",
                 cfg->family == VAE_KL ? "KL" : "DC-AE", half == VAE_ENCODER ? "encode" : "decode", small, big, each,
                 floats);
    vae_destroy(v);
}

/* Only what attention sees as a whole grows with the height: at 1/4 of the edges, three arrays of 32 channels (KL; one
 * of 24 at 1/2 would be six numbers more), or two of 32 and 64 (DC-AE). One of 16 at full size would be 16 more. */
static void memory_test(void **state)
{
    (void)state;
    check_growth(&kl, VAE_ENCODER, 6.1);
    check_growth(&kl, VAE_DECODER, 6.1);
    check_growth(&dcae, VAE_ENCODER, 3.1);
    check_growth(&dcae, VAE_DECODER, 3.1);
}

/* A pixel reaches every latent: by attention, however far away. */
static void global_test(void **state)
{
    enum { EDGE = 64, N = 4 * (EDGE / 8) * (EDGE / 8) };
    static float x[3 * EDGE * EDGE], before[N], after[N];
    struct vae *v = NULL;
    struct err err = {0};
    (void)state;
    fill(x, 3 * EDGE * EDGE, 2);
    assert_int_equal(vae_source_random(&v, &dcae, VAE_ENCODER, &err), 0);
    vae_set_strip(v, 2);
    assert_int_equal(vae_encode(v, before, x, EDGE, EDGE, &err), 0);
    x[0] += 3;
    assert_int_equal(vae_encode(v, after, x, EDGE, EDGE, &err), 0);
    assert_true(before[EDGE / 8 * (EDGE / 8) - 1] != after[EDGE / 8 * (EDGE / 8) - 1]);
    vae_destroy(v);
}

static void sizes_test(void **state)
{
    static float x[3 * 8 * 12], z[64];
    struct vae *v = NULL;
    struct err err = {0};
    (void)state;
    assert_int_equal(vae_source_random(&v, &dcae, VAE_ENCODER, &err), 0);
    assert_int_equal(vae_encode(v, z, x, 8, 12, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err.text, "multiples of 8"));
    vae_destroy(v);
}

static void names_test(void **state)
{
    char names[VAE_NAME_PARTS][VAE_NAME];
    (void)state;
    assert_int_equal(vae_names_diffusers(names, "decoder.stages.3.op_list.12.context_module.main.qkv.conv.weight"), 3);
    assert_string_equal(names[2], "decoder.up_blocks.3.12.attn.to_v.weight");
    assert_int_equal(vae_names_diffusers(names, "encoder.stages.0.op_list.1.main.conv2.norm.bias"), 1);
    assert_string_equal(names[0], "encoder.down_blocks.0.1.norm.bias");
    assert_int_equal(vae_names_diffusers(names, "encoder.stages.0.op_list.1.main.conv9.weight"), 0);
    assert_int_equal(vae_names_diffusers(names, "encoder.stages.0.weight"), 0);
    assert_int_equal(vae_names_diffusers(names, "nothing"), 0);
}

static char path[256];

static const char *file_named(const char *end)
{
    snprintf(path, sizeof(path), "%s/jobctl-test-vae-%d%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid(),
             end);
    return path;
}

static void check_round(const char *end)
{
    float x[2 * 3 * 5];
    const struct latent z = {2, 3, 5, x};
    struct latent back;
    struct err err = {0};
    fill(x, 30, 3);
    assert_int_equal(latent_file_write(&z, file_named(end), &err), 0);
    assert_int_equal(latent_file_read(&back, path, &err), 0);
    assert_true(back.channels == 2 && back.height == 3 && back.width == 5);
    assert_memory_equal(back.x, x, sizeof(x));
    free(back.x);
    unlink(path);
}

static void expect_unread(const void *bytes, size_t n, const char *words)
{
    struct latent z;
    struct err err = {0};
    FILE *f = fopen(file_named(".npy"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    assert_int_equal(latent_file_read(&z, path, &err), -1);
    assert_null(z.x);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    unlink(path);
}

#define NPY "\x93NUMPY\1\0"

static void latents_test(void **state)
{
    const struct latent z = {1, 1, 1, (float[]){0}};
    struct err err = {0};
    (void)state;
    check_round(".npy");
    check_round(".safetensors");
    assert_int_equal(latent_file_write(&z, file_named(".png"), &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    expect_unread("hello", 5, "neither .npy nor safetensors");
    expect_unread(NPY "\xff\0{", 11, "truncated");
    expect_unread(NPY "\x46\0{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }        \n12345678", 88,
                  "float32");
    expect_unread(NPY "\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 1), }        \n12345678", 87,
                  "its shape needs 8");
    expect_unread(NPY "\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1, 1), }        \n12345678", 88,
                  "shape of a latent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_test), cmocka_unit_test(memory_test),
        cmocka_unit_test(global_test), cmocka_unit_test(sizes_test),
        cmocka_unit_test(names_test), cmocka_unit_test(latents_test),
    };
    return cmocka_run_group_tests_name("vae", tests, NULL, NULL);
}
