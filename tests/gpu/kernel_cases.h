/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cases.h - the cases of check_kernels: for each kernel its arrays, its call and its sizes */
#ifndef TESTS_GPU_KERNEL_CASES_H
#define TESTS_GPU_KERNEL_CASES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "tests/gpu/kernel_want.h"

#define N(...) ((size_t)1 * __VA_ARGS__)

/* Added to means of squares: so large that it counts among numbers of about 1. */
#define EPS 0.02f

static void linear_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"y", N(z[0] * z[2]), NARROW};
    w[1] = (struct want){"x", N(z[0] * z[1]), NARROW};
    w[2] = (struct want){"w", N(z[2] * z[1]), NARROW};
    w[3] = (struct want){"b", z[3] ? N(z[2]) : 0, NARROW};
    w[4] = (struct want){"wide y", N(z[0] * z[2]), 0};
    w[5] = (struct want){"wide b", z[3] ? N(z[2]) : 0, 0};
}

static void linear_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->linear(a[0], a[1], a[2], a[3], z[0], z[1], z[2]);
    k->linear_wide(a[4], a[1], a[2], a[5], z[0], z[1], z[2]);
}

/* z[3]: 1 the wide dx is added to, 2 there are dx, 4 there is db */
static void linear_back_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"dx", z[3] & 2 ? N(z[0] * z[1]) : 0, NARROW};
    w[1] = (struct want){"dw", N(z[2] * z[1]), 0};
    w[2] = (struct want){"db", z[3] & 4 ? N(z[2]) : 0, 0};
    w[3] = (struct want){"dy", N(z[0] * z[2]), NARROW};
    w[4] = (struct want){"x", N(z[0] * z[1]), NARROW};
    w[5] = (struct want){"w", N(z[2] * z[1]), NARROW};
    w[6] = (struct want){"wide dx", z[3] & 2 ? N(z[0] * z[1]) : 0, 0};
}

static void linear_back_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->linear_back(a[0], a[1], a[2], a[3], a[4], a[5], z[0], z[1], z[2]);
    k->linear_back_wide(a[6], z[3] & 1, a[1], a[2], a[3], a[4], a[5], z[0], z[1], z[2]);
}

/* rows, inputs, outputs, columns more in a row; the integers hold no half that is a NaN of bf16 */
static void adapter_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"x", "dx", "scaled", "dx alone", "dy", "columns", "y", "from", "w"};
    for (int i = 0; i < 9; i++)
        w[i] = (struct want){names[i], i < 4 ? N(z[0] * z[1]) : i < 6 ? N(z[0] * z[2]) : N(z[0]) * N(z[2] + z[3]),
                             NARROW};
    w[8].n = N(z[2] * z[1]);
    w[9] = (struct want){"widened", 2 * N(z[0]), BITS};
    w[10] = (struct want){"half", N(z[0]), FIRST | OWN | MOST};
    w[11] = (struct want){"dense y", N(z[0] * z[2]), NARROW};
}

static void adapter_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->linear_add(a[6], z[2] + z[3], a[0], a[8], z[0], z[1], z[2]);
    k->linear_add(a[11], z[2], a[0], a[8], z[0], z[1], z[2]); /* the same product into other rows */
    k->linear_back_add(a[1], a[4], a[8], z[0], z[1], z[2]);
    k->columns(a[5], a[7], z[2] + z[3], z[0], z[2]);
    k->scale(a[2], a[0], 0.75f, N(z[0] * z[1]));
    k->linear_back(a[3], NULL, NULL, a[4], NULL, a[8], z[0], z[1], z[2]); /* of frozen weights */
    k->widen_bf16(a[9], a[10], 2 * N(z[0]));
}

static struct kern_image image_of(const int *z)
{
    return (struct kern_image){z[0], z[1], z[2], z[3]};
}

static void patch_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"tok", "tok", "img", "img", "tok"};
    for (int i = 0; i < 5; i++)
        w[i] = (struct want){names[i], N(z[0] * z[1] * z[2] * z[3]), i < 2 ? NARROW : 0};
}

static void patch_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->patch_embed(a[0], a[3], image_of(z), z[4]);
    k->patchify(a[1], a[3], image_of(z), z[4]);
    k->unpatchify(a[2], a[4], image_of(z), z[4]);
}

/* Numbers of an array without rows: z[0], or as many times z[1]. */
static size_t many(const int *z)
{
    return N(z[0]) * (size_t)(z[1] ? z[1] : 1);
}

static void map_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"silu", "silu_back", "gelu", "gelu_back", "add", "add",
                                        "x", "narrow", "narrow", "copy", "zero", "round"};
    for (int i = 0; i < 12; i++)
        w[i] = (struct want){names[i], many(z), i < 4 || i == 7 || i == 8 || i == 11 ? NARROW : LARGE};
}

static void map_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const size_t n = many(z);
    k->silu(a[0], a[6], n);
    k->silu_back(a[1], a[7], a[6], n);
    k->gelu(a[2], a[7], n);
    k->gelu_back(a[3], a[8], a[7], n);
    k->add(a[4], a[6], a[7], n);
    k->add(a[5], a[5], a[7], n); /* in place */
    k->copy(a[9], a[6], n / 2);
    k->zero(a[10], n / 3);
    k->round(a[11], a[6], n);
    k->silu_back(a[8], a[8], a[6], n); /* in place */
}

static void time_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"emb", N(z[0] * 2 * z[1]), NARROW};
    w[1] = (struct want){"t", N(z[0]), TIMES};
    w[2] = (struct want){"freqs", N(z[1]), ABOVE};
}

static void time_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->time_embed(a[0], a[1], a[2], z[0], z[1]);
}

/* batch, rows, cols, row */
static void mod_arrays(struct want *w, const int *z)
{
    const size_t ld = N(z[1] * z[2]) + 2;
    w[0] = (struct want){"mod", N(z[0] * z[1] * z[2]), 0};
    w[1] = (struct want){"table", N(z[1] * z[2]), 0};
    w[2] = (struct want){"t", N(z[0]) * ld, 0};
    w[3] = (struct want){"dtable", N(z[1] * z[2]), 0};
    w[4] = (struct want){"dt", N(z[0]) * ld, 0};
    w[5] = (struct want){"dmod", N(z[0] * z[1] * z[2]), 0};
}

static void mod_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int ld = z[1] * z[2] + 2, row = z[3] ? z[2] : 0;
    k->mod_add(a[0], a[1], a[2], ld, row, z[0], z[1], z[2]);
    k->mod_add_back(a[3], a[4], ld, row, a[5], z[0], z[1], z[2]);
}

/* batch, tokens, cols, more numbers in a row of modulation */
static void gate_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]), g = N(z[0]) * (N(z[2]) + N(z[3]));
    w[0] = (struct want){"y", n, 0};
    w[1] = (struct want){"x", n, 0};
    w[2] = (struct want){"gate", g, 0};
    w[3] = (struct want){"a", n, NARROW};
    w[4] = (struct want){"da", n, NARROW};
    w[5] = (struct want){"dgate", g, 0};
    w[6] = (struct want){"dy", n, 0};
    w[7] = (struct want){"also", n, NARROW};
}

static void gate_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int ld = z[2] + z[3];
    k->gate(a[0], a[7], a[1], a[2], ld, a[3], z[0], z[1], z[2]);
    k->gate_back(a[4], a[5], a[6], a[2], ld, a[3], z[0], z[1], z[2]);
}

/* batch, tokens, cols, more numbers in a row of modulation, whether x is far from zero */
static void norm_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]), m = N(z[0]) * N(3 * z[2] + z[3]), rows = N(z[0] * z[1]);
    w[0] = (struct want){"h", n, NARROW};
    w[1] = (struct want){"stats", 2 * rows, 0};
    w[2] = (struct want){"x", n, z[4] ? FAR : 0};
    w[3] = (struct want){"mod", m, 0};
    w[4] = (struct want){"dx", n, 0};
    w[5] = (struct want){"dmod", m, 0};
    w[6] = (struct want){"dh", n, NARROW};
}

static void norm_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2], ld = 3 * C + z[3];
    k->norm_mod(a[0], a[1], a[2], a[3], a[3] + C, ld, z[0], z[1], C, EPS);
    k->norm_mod_back(a[4], a[5], a[5] + C, a[6], a[2], a[1], a[3] + C, ld, z[0], z[1], C);
}

/* batch, tokens, cols, whether there is a gate, more numbers in a row of modulation, and of gates */
static void gate_norm_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]), m = N(z[0]) * N(2 * z[2] + z[4]), rows = N(z[0] * z[1]);
    w[0] = (struct want){"y", n, 0};
    w[1] = (struct want){"h", n, NARROW};
    w[2] = (struct want){"stats", 2 * rows, 0};
    w[3] = (struct want){"x", n, 0};
    w[4] = (struct want){"mod", m, 0};
    w[5] = (struct want){"a", n, NARROW};
    w[6] = (struct want){"dx", n, 0};
    w[7] = (struct want){"da", n, NARROW};
    w[8] = (struct want){"dmod", m, 0};
    w[9] = (struct want){"dh", n, NARROW};
    w[10] = (struct want){"dx of the second", n, 0};
    w[11] = (struct want){"dmod of the second", m, 0};
    for (int i = 12; i < 15; i++)
        w[i] = (struct want){i == 12 ? "gate" : "dgate", N(z[0]) * N(z[2] + z[5]), 0};
}

static void gate_norm_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2], ld = 2 * C + z[4], ldg = C + z[5];
    const float *gate = z[3] ? a[12] : NULL;
    k->gate_norm(a[0], a[1], a[2], a[3], gate, ldg, a[5], a[4], a[4] + C, ld, z[0], z[1], C, EPS);
    k->gate_norm_back(a[6], a[7], a[13], a[8], a[8] + C, a[9], a[0], a[2], a[4] + C, ld, gate, ldg, a[5], z[0], z[1],
                      C);
    k->gate_norm(a[3], a[1], a[2], a[3], gate, ldg, a[5], a[4], a[4] + C, ld, z[0], z[1], C, EPS);
    k->gate_norm_back(a[10], a[9], a[14], a[11], a[11] + C, a[9], a[3], a[2], a[4] + C, ld, gate, ldg, a[5], z[0],
                      z[1], C); /* x is y, da is dh */
}

/* rows, cols, more numbers between rows of y, x and dx */
static void rms_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"y", N(z[0]) * N(z[1] + z[2]), NARROW};
    w[1] = (struct want){"rstd", N(z[0]), 0};
    w[2] = (struct want){"x", N(z[0]) * N(z[1] + z[3]), NARROW};
    w[3] = (struct want){"w", N(z[1]), 0};
    w[4] = (struct want){"dx", N(z[0]) * N(z[1] + z[4]), NARROW};
    w[5] = (struct want){"dw", N(z[1]), 0};
    w[6] = (struct want){"dy", N(z[0]) * N(z[1] + z[2]), NARROW};
}

static void rms_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int ldy = z[1] + z[2], ldx = z[1] + z[3], lddx = z[1] + z[4];
    k->rms_norm(a[0], ldy, a[1], a[2], ldx, a[3], z[0], z[1], EPS);
    k->rms_norm_back(a[4], lddx, a[5], a[6], ldy, a[2], ldx, a[1], a[3], z[0], z[1]);
    k->rms_norm_back(a[6], ldy, a[5], a[6], ldy, a[2], ldx, a[1], a[3], z[0], z[1]);
}

/* batch, tokens, heads, dim, whether queries and keys are so small that what is added to the divisor counts, more
 * numbers between rows of out, of queries and keys, of v, and of gradients */
static void lin_arrays(struct want *w, const int *z)
{
    const size_t rows = N(z[0] * z[1]), C = N(z[2] * z[3]);
    w[0] = (struct want){"out", rows * (C + N(z[5])), NARROW};
    w[1] = (struct want){"vk", N(z[0] * z[2]) * N((z[3] + 1) * z[3]), 0};
    w[2] = (struct want){"den", rows * N(z[2]), OWN};
    w[3] = (struct want){"qk", rows * (2 * C + N(z[6])), NARROW | OWN | (z[4] ? SMALL : 0)};
    w[4] = (struct want){"v", rows * (C + N(z[7])), NARROW};
    w[5] = (struct want){"dqkv", rows * (3 * C + N(z[8])), NARROW};
    w[6] = (struct want){"dout", rows * (C + N(z[5])), NARROW | OWN};
}

static void *skip(const struct kern_ops *k, void *narrow, int n)
{
    return (char *)narrow + (size_t)n * k->narrow;
}

static void lin_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const struct kern_lin_attn keep = {a[1], a[2]};
    const int C = z[2] * z[3], ldo = C + z[5], ldqk = 2 * C + z[6], ldv = C + z[7], ldd = 3 * C + z[8];
    void *key = skip(k, a[3], C);
    k->lin_attn(a[0], ldo, keep, a[3], key, ldqk, a[4], ldv, s);
    k->lin_attn_back(a[5], skip(k, a[5], C), skip(k, a[5], 2 * C), ldd, a[6], ldo, a[0], keep, a[3], key, ldqk, a[4],
                     ldv, s);
}

/* batch, tokens, heads, dim, text, whether captions are packed, how (1: each first token that is masked, 2: queries
 * so large that exponentials of scores overflow), more numbers between rows of k, of v, and of their gradients */
static void cross_arrays(struct want *w, const int *z)
{
    const size_t M = N(z[0] * z[1]), T = N(z[0] * z[4]), C = N(z[2] * z[3]);
    const size_t kept = N(z[0] * z[2]) * N(z[1] * (z[4] > 2 ? z[4] : 2));
    const int steep = z[6] == 2 ? STEEP : 0;
    w[0] = (struct want){"out", M * C, NARROW | LOOSE | steep};
    w[1] = (struct want){"kept", kept, OWN};
    w[2] = (struct want){"q", M * C, NARROW | (z[6] == 2 ? LARGE : 0)};
    w[3] = (struct want){"k", T * (C + N(z[7])), NARROW | (z[6] == 2 ? LARGE : 0)};
    w[4] = (struct want){"mask", T, MASK | (z[6] == 1 ? z[4] * MOST : 0)};
    w[5] = (struct want){"dq", M * C, NARROW | LOOSE | steep};
    w[6] = (struct want){"dkv", T * (2 * C + N(z[9])), NARROW | LOOSE | steep};
    w[7] = (struct want){"work", kept, OWN};
    w[8] = (struct want){"dout", M * C, NARROW};
    w[9] = (struct want){"first", z[5] ? N(z[0]) + 1 : 0, FIRST | OWN | z[4] * MOST};
    w[10] = (struct want){"v", T * (C + N(z[8])), NARROW};
}

static void cross_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const int C = z[2] * z[3], ldk = C + z[7], ldv = C + z[8], ldd = 2 * C + z[9];
    const struct kern_text t = {a[4], (const int *)(const void *)a[9], z[4]};
    k->cross_attn(a[0], a[1], a[2], a[3], ldk, a[10], ldv, t, s);
    k->cross_attn_back(a[5], a[6], skip(k, a[6], C), ldd, a[7], a[8], a[1], a[2], a[3], ldk, a[10], ldv, t, s);
}

/* batch, height, width, channels of a half */
static void mix_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]) * N(z[3]);
    w[0] = (struct want){"g", n, NARROW | LOOSE};
    w[1] = (struct want){"u", 2 * n, NARROW};
    w[2] = (struct want){"w", N(2 * z[3] * 9), 0};
    w[3] = (struct want){"b", N(2 * z[3]), 0};
    w[4] = (struct want){"du", 2 * n, NARROW | LOOSE};
    w[5] = (struct want){"dw", N(2 * z[3] * 9), LOOSE};
    w[6] = (struct want){"db", N(2 * z[3]), LOOSE};
    w[7] = (struct want){"dg", n, NARROW};
    w[8] = (struct want){"s", 2 * n, OWN};
    w[9] = (struct want){"d", 2 * n, OWN};
    w[10] = (struct want){"work", 2 * n, OWN};
}

static void mix_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_image s = {z[0], z[1], z[2], 2 * z[3]};
    const struct kern_glumbconv kept = {a[8], a[9]};
    k->glumbconv(a[0], kept, a[1], a[2], a[3], s);
    k->glumbconv_back(a[4], a[5], a[6], a[10], a[7], a[1], kept, a[2], a[3], s);
}

static void adamw_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"p", "m", "v", "g", "ema", "also"};
    for (int i = 0; i < 6; i++)
        w[i] = (struct want){names[i], many(z), i == 2 ? ABOVE : i == 5 ? NARROW : 0};
}

static void adamw_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_adamw c = {0.9f, 0.1f, 0.8f, 0.2f, EPS, 0.999f, 0.1f, 3.2f, 0.5f};
    k->ema(a[4], a[0], 0.9f, 0.1f, many(z));
    k->adamw(a[0], a[5], a[1], a[2], a[3], c, many(z));
}

/* rows, cols, factored, whether updates are so large that they are limited */
static void came_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"p", "m", "v", "g", "work", "row", "res_row", "col",
                                        "res_col"};
    for (int i = 0; i < 9; i++)
        w[i] = (struct want){names[i], i < 5 ? N(z[0] * z[1]) : i < 7 ? N(z[0]) : N(z[1]),
                             i == 2 || i > 4 ? ABOVE : 0};
    w[9] = (struct want){"also", N(z[0] * z[1]), NARROW};
}

static void came_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_came c = {0.9f, 0.1f, 0.8f, 0.2f, 0.7f, 0.3f, EPS, 3 * EPS, 0.01f, 0.999f, z[3] ? 0.1f : 0.8f,
                                0.5f};
    const struct kern_came_state s = {z[2] ? z[0] : 0, z[1], a[1], a[2], a[5], a[7], a[6], a[8],
                                      a[4]};
    k->came(a[0], a[9], s, a[3], c, N(z[0] * z[1]));
}

/* Integers are two floats each; what of them is larger than 2^51 wraps around on both sides. */
static void fixed_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0]) * (size_t)(z[2] ? z[2] : 1);
    w[0] = (struct want){"sum", 2 * n, BITS};
    w[1] = (struct want){"most", 3, BITS};
    w[2] = (struct want){"x", n, BITS}; /* with an infinity, a NaN or a giant on both sides */
    w[3] = (struct want){"joined", 2 * n, BITS};
    w[4] = (struct want){"result", n, BITS};
    w[5] = (struct want){"squares", 2, BITS};
    w[6] = (struct want){"sum of NaN", 2 * n, OWN | BITS};
}

static void fixed_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const size_t n = (size_t)z[0] * (size_t)(z[2] ? z[2] : 1);
    const float larger = 2, odd = z[1] == 1 ? INFINITY : z[1] == 2 ? NAN : 0x1p60f;
    int64_t *sum = (int64_t *)(void *)a[0], *joined = (int64_t *)(void *)a[3];
    k->zero(a[1], 3); /* a maximum of sizes: a negative number in it has no meaning, and each side its own way */
    k->fixed_add(sum, a[1], a[2], 0x1p40, n);
    k->upload(a[1] + 2, &larger, sizeof(larger));
    k->fixed_add(sum, a[1] + 2, a[2], 0x1p9, n); /* fractions; and the maximum stays */
    k->fixed_join(joined, sum, n);
    k->fixed_result(a[4], joined, 0x1p-40, n);
    k->fixed_squares((int64_t *)(void *)a[5], a[2], 0x1p20, n);
    k->upload(a[2] + n / 2, &odd, sizeof(odd));
    k->fixed_add((int64_t *)(void *)a[6], a[1] + 1, a[2], 0x1p40, n); /* told by the largest alone */
}

/* batch, tokens, heads, dim, keys of a caption or 0 for those of the picture, heads of keys, are queries so large that
 * the largest score of a row grows from tile to tile?, more numbers between rows of k, of v, and of their gradients */
static void attend_arrays(struct want *w, const int *z)
{
    const int keys = z[4] ? z[4] : z[1];
    const size_t M = N(z[0] * z[1]), T = N(z[0] * keys), C = N(z[2] * z[3]), G = N(z[5] * z[3]);
    w[0] = (struct want){"out", M * C, NARROW | LOOSE};
    w[1] = (struct want){"kept", M * N(z[2]), 0};
    w[2] = (struct want){"q", M * C, NARROW | (z[6] ? LARGE : 0)};
    w[3] = (struct want){"k", T * (G + N(z[7])), NARROW};
    w[4] = (struct want){"dq", M * C, NARROW | LOOSE};
    w[5] = (struct want){"dkv", T * (2 * G + N(z[9])), NARROW | LOOSE};
    w[6] = (struct want){"dout", M * C, NARROW};
    w[7] = (struct want){"first", z[4] ? N(z[0]) + 1 : 0, FIRST | OWN | z[4] * MOST};
    w[8] = (struct want){"v", T * (G + N(z[8])), NARROW};
}

static void attend_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const struct kern_keys t = {(const int *)(const void *)a[7], z[4] ? z[4] : z[1], z[5]};
    const int G = z[5] * z[3], ldk = G + z[7], ldv = G + z[8], ldd = 2 * G + z[9];
    k->attend(a[0], a[1], a[2], a[3], ldk, a[8], ldv, t, s);
    k->attend_back(a[4], a[5], skip(k, a[5], G), ldd, a[6], a[0], a[1], a[2], a[3], ldk, a[8], ldv, t, s);
}

/* batch, tokens, cols, more numbers in a row of modulation */
static void rmsmod_arrays(struct want *w, const int *z)
{
    const size_t rows = N(z[0] * z[1]), n = rows * N(z[2]), m = N(z[0]) * (2 * N(z[2]) + N(z[3]));
    w[0] = (struct want){"h", n, NARROW};
    w[1] = (struct want){"rstd of x", rows, 0};
    w[2] = (struct want){"x", n, 0};
    w[3] = (struct want){"w", N(z[2]), 0};
    w[4] = (struct want){"scale and gate", m, 0};
    w[5] = (struct want){"dx", n, 0};
    w[6] = (struct want){"dw", N(z[2]), 0};
    w[7] = (struct want){"dscale and dgate", m, 0};
    w[8] = (struct want){"dh", n, NARROW};
    w[9] = (struct want){"y", n, 0};
    w[10] = (struct want){"a", n, NARROW};
    w[11] = (struct want){"rstd of a", rows, 0};
    w[12] = (struct want){"da", n, NARROW};
    w[13] = (struct want){"dy", n, 0};
}

static void rmsmod_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2], ld = 2 * C + z[3];
    k->rms_mod(a[0], a[1], a[2], a[3], a[4], ld, z[0], z[1], C, EPS);
    k->rms_mod_back(a[5], a[6], a[7], a[8], a[2], a[1], a[3], a[4], ld, z[0], z[1], C);
    k->rms_gate(a[9], a[11], a[2], a[10], a[3], a[4] + C, ld, z[0], z[1], C, EPS);
    k->rms_gate_back(a[12], a[6], a[7] + C, a[13], a[10], a[11], a[3], a[4] + C, ld, z[0], z[1], C);
    k->rms_gate(a[2], a[11], a[2], a[10], a[3], a[4] + C, ld, z[0], z[1], C, EPS); /* in place */
}

/* batch, tokens, heads, dim, more numbers between rows */
static void rope_arrays(struct want *w, const int *z)
{
    const size_t M = N(z[0] * z[1]), C = N(z[2] * z[3]), pairs = N(z[1] * z[3] / 2);
    static const char *const names[] = {"y", "a", "c", "dc", "dy"};
    w[0] = (struct want){"x", M * (C + N(z[4])), NARROW};
    w[1] = (struct want){"x back", M * (C + N(z[4])), NARROW};
    w[2] = (struct want){"real", pairs, 0};
    w[3] = (struct want){"imag", pairs, 0};
    w[4] = (struct want){"gate", N(z[2]), 0};
    w[5] = (struct want){"dgate", N(z[2]), 0};
    for (int i = 0; i < 5; i++)
        w[6 + i] = (struct want){names[i], M * C, NARROW};
}

static void rope_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const int rows = z[0] * z[1], ld = z[2] * z[3] + z[4];
    k->rope(a[0], ld, a[2], a[3], false, s);
    k->rope(a[1], ld, a[2], a[3], true, s);
    k->head_gate(a[6], a[7], a[8], a[4], rows, z[2], z[3]);
    k->head_gate_back(a[9], a[5], a[10], a[8], a[4], rows, z[2], z[3]);
    k->head_gate_back(a[8], a[5], a[10], a[8], a[4], rows, z[2], z[3]); /* in place */
}

/* rows, cols, columns between the halves */
static void swiglu_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0]) * N(z[1]), both = N(z[0]) * N(2 * z[1] + z[2]);
    w[0] = (struct want){"y", n, NARROW};
    w[1] = (struct want){"u", both, NARROW};
    w[2] = (struct want){"du", both, NARROW};
    w[3] = (struct want){"dy", n, NARROW};
}

static void swiglu_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->swiglu(a[0], a[1], z[0], z[1], z[1] + z[2]);
    k->swiglu_back(a[2], a[3], a[1], z[0], z[1], z[1] + z[2]);
    k->swiglu_back(a[1], a[3], a[1], z[0], z[1], z[1] + z[2]); /* in place */
}

/* batch, cols and the most rows of a caption; whether they are packed */
static void pool_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"mean", N(z[0] * z[1]), 0};
    w[1] = (struct want){"x", N(z[0] * z[1]) * N(z[2]), 0};
    w[2] = (struct want){"first", z[3] ? N(z[0]) + 1 : 0, FIRST | OWN | z[2] * MOST};
    w[3] = (struct want){"emb", 2 * N(z[0] * z[1]), NARROW};
    w[4] = (struct want){"t", N(z[0]), 0};
    w[5] = (struct want){"freqs", N(z[1]), ABOVE};
}

static void pool_run(const struct kern_ops *k, float *const *a, const int *z)
{
    k->pool(a[0], a[1], (const int *)(const void *)a[2], z[2], z[0], z[1]);
    k->time_embed_exact(a[3], a[4], a[5], z[0], z[1]);
}

#include "tests/gpu/encoder_cases.h"
#include "tests/gpu/flow_cases.h"
#include "tests/gpu/norm_cases.h"

static const struct test tests[] = {
    {"linear", linear_arrays, linear_run,
     {{1, 1, 1, 1}, {1, 7, 3, 0}, {5, 17, 31, 1}, {33, 64, 47, 1}, {7, 96, 200, 0},
      {130, 31, 65, 1}, {4, 256, 130, 1}}, {8192, 2240, 11200, 1}},
    {"linear_back", linear_back_arrays, linear_back_run,
     {{1, 1, 1, 7}, {3, 7, 5, 2}, {5, 17, 31, 4}, {33, 64, 47, 7}, {7, 96, 200, 3},
      {130, 31, 65, 6}, {300, 24, 10, 0}}, {8192, 2240, 11200, 6}},
    {"adapters", adapter_arrays, adapter_run,
     {{2, 1, 1, 0}, {5, 17, 31, 3}, {33, 64, 4, 64}, {130, 4, 65, 130}, {7, 96, 16, 1}}, {8192, 2240, 16, 4480}},
    {"patch", patch_arrays, patch_run,
     {{1, 1, 1, 1, 1}, {2, 4, 6, 3, 2}, {3, 3, 9, 5, 3}, {2, 5, 7, 32, 1}}, {8, 32, 32, 32, 1}},
    {"silu gelu add", map_arrays, map_run, {{1}, {2}, {31}, {1000}, {4097}}, {8192, 2240}},
    {"time_embed", time_arrays, time_run, {{1, 1}, {3, 7}, {2, 128}}, {8, 128}},
    {"mod_add", mod_arrays, mod_run, {{1, 1, 1, 1}, {3, 2, 7, 0}, {2, 6, 130, 1}},
     {8, 6, 2240, 1}},
    {"gate", gate_arrays, gate_run,
     {{1, 1, 1, 3}, {2, 3, 5, 1}, {3, 33, 40, 4}, {2, 70, 65, 3}, {1, 2, 5000, 0}, {2, 3, 8, 2}},
     {8, 1024, 2240, 0}},
    {"norm_mod", norm_arrays, norm_run,
     {{1, 1, 2}, {2, 3, 5}, {3, 33, 16}, {1, 40, 130}, {2, 70, 300}, {1, 2, 4100}, {2, 3, 8, 2}, {1, 5, 96, 0, 1}},
     {8, 1024, 2240}},
    {"gate_norm", gate_norm_arrays, gate_norm_run,
     {{1, 1, 2, 1}, {2, 3, 5, 0}, {3, 33, 16, 1, 4}, {1, 40, 130, 0}, {2, 70, 300, 1, 300}, {2, 34, 24, 0},
      {1, 2, 4096, 1}, {1, 2, 4100, 1}, {2, 3, 8, 1, 2}, {2, 3, 8, 1, 0, 2}}, {8, 1024, 2240, 1, 2240, 4480}},
    {"rms_norm", rms_arrays, rms_run,
     {{1, 2, 1, 2, 2}, {6, 5, 3, 6, 6}, {99, 16, 4, 8, 12}, {40, 130, 5, 10, 0}, {200, 300, 8, 16, 16}, {3, 8, 2},
      {3, 8, 0, 2}, {3, 8, 0, 0, 2}}, {8192, 2240, 0}},
    {"lin_attn", lin_arrays, lin_run,
     {{1, 2, 1, 1}, {2, 5, 3, 4}, {1, 33, 2, 32}, {2, 70, 1, 33}, {1, 9, 1, 100},
      {1, 3, 1, 128}, {2, 200, 3, 32}, {1, 128, 1, 32}, {1, 9, 2, 32, 1}, {1, 3, 1, 32, 0, 2}, {1, 3, 1, 32, 0, 0, 2},
      {1, 3, 1, 32, 0, 0, 0, 2}, {1, 3, 1, 32, 0, 0, 0, 0, 2}},
     {8, 1024, 70, 32}},
    {"cross_attn", cross_arrays, cross_run,
     {{1, 1, 1, 1, 1}, {2, 3, 2, 4, 5}, {2, 33, 2, 8, 33}, {1, 20, 3, 7, 70}, {2, 40, 1, 112, 130},
      {3, 16, 1, 72, 12},
      {3, 18, 2, 8, 33, 1}, {5, 40, 1, 112, 130, 1, 0, 8, 16, 24}, {35, 3, 1, 8, 34, 0, 1}, {1, 5, 1, 72, 33, 0, 2},
      {1, 3, 2, 8, 5, 0, 0, 2}, {1, 3, 2, 8, 5, 0, 0, 0, 2}, {1, 3, 2, 8, 5, 0, 0, 0, 0, 2}},
     {8, 1024, 20, 112, 300, 0, 0, 2240, 2240}},
    {"attend", attend_arrays, attend_run,
     {{1, 1, 1, 4, 0, 1}, {2, 5, 4, 8, 0, 2}, {1, 70, 2, 72, 0, 1}, {2, 33, 4, 12, 7, 4}, {3, 40, 4, 16, 70, 1},
      {1, 130, 1, 128, 0, 1}, {2, 35, 6, 24, 0, 3, 0, 8, 16, 24}, {2, 20, 2, 6, 130, 1},
      {1, 300, 2, 72, 0, 1, 1}, {34, 3, 1, 8, 33, 1}, {2, 3, 2, 8, 5, 1, 0, 2}, {2, 3, 2, 8, 5, 1, 0, 0, 2},
      {2, 3, 2, 8, 5, 1, 0, 0, 0, 2}},
     {4, 4096, 32, 72, 0, 8, 0, 576, 576}},
    {"rms_mod rms_gate", rmsmod_arrays, rmsmod_run,
     {{1, 1, 2, 1}, {2, 3, 5, 0}, {3, 33, 16, 4}, {2, 140, 130, 2}, {1, 2, 1100, 0}, {2, 3, 8, 2}, {2, 3, 8, 4}},
     {4, 4096, 2304, 4608}},
    {"layer_norm", layer_arrays, layer_run,
     {{1, 2, 1, 2, 2}, {6, 5, 3, 6, 6}, {99, 16, 4, 8, 12}, {200, 130, 5, 10, 0}, {3, 1100, 8, 16, 16}, {3, 8, 2},
      {3, 8, 0, 2}, {3, 8, 0, 0, 2}, {3, 96, 0, 0, 0, 1}}, {16384, 2304, 0}},
    {"qk_norm", qk_norm_arrays, qk_norm_run,
     {{1, 1, 1, 2, 0}, {2, 5, 3, 4, 1, 2, 2}, {3, 11, 2, 72, 8, 16, 24}, {2, 9, 5, 6, 4, 8, 8}, {2, 5, 6, 10, 2, 4, 4},
      {1, 3, 33, 72, 0}, {1, 2, 8, 300, 0}, {2, 2050, 1, 4, 0}, {1, 3, 2, 8, 2}, {1, 3, 2, 8, 0, 2},
      {1, 3, 2, 8, 0, 0, 2}, {1, 3, 2, 6, 0}}, {4, 4096, 32, 72, 0}},
    {"rope head_gate", rope_arrays, rope_run,
     {{1, 1, 1, 2, 0}, {2, 5, 3, 4, 1}, {3, 33, 2, 72, 8}, {1, 200, 40, 6, 0}}, {4, 4096, 32, 72, 0}},
    {"swiglu", swiglu_arrays, swiglu_run,
     {{1, 1, 0}, {3, 33, 3}, {9, 40, 8}, {6, 36, 5}, {7, 1028, 0}, {20, 130, 15}, {2, 5, 12}, {3, 8, 2}},
     {16384, 8192, 0}},
    {"pool time_embed_exact", pool_arrays, pool_run,
     {{1, 1, 1, 0}, {3, 5, 4, 1}, {4, 130, 9, 1}, {2, 33, 3, 0}}, {4, 2304, 256, 1}},
    {"mix", mix_arrays, mix_run,
     {{1, 1, 1, 1}, {2, 1, 5, 3}, {2, 3, 4, 36}, {1, 50, 20, 36}, {2, 8, 8, 64}, {1, 7, 5, 40}, {2, 9, 32, 36},
      {1, 5, 71, 20}, {1, 1, 32, 4}},
     {8, 32, 32, 5600}},
    FLOW_TESTS
    {"adamw ema", adamw_arrays, adamw_run, {{1}, {33}, {4097}}, {1 << 13, 1 << 13}},
    {"fixed", fixed_arrays, fixed_run, {{1}, {15, 1}, {33, 2}, {4099, 1}, {300000}}, {1 << 13, 0, 1 << 13}},
    {"came", came_arrays, came_run,
     {{2, 2, 1}, {3, 7, 1}, {1, 33, 0}, {40, 65, 1}, {130, 9, 1, 1}, {5, 9, 0, 1}}, {11200, 2240, 1}},
    ENCODER_TESTS
};

#endif
