/* SPDX-License-Identifier: Apache-2.0 */
/* check_kernels.c - every CUDA kernel against its CPU twin, at odd sizes
 *
 *   check_kernels PLUGIN fp32|bf16           compare; a line per kernel, exit 1 on any difference
 *   check_kernels PLUGIN fp32|bf16 --time    time them at the sizes of Sana-1600M, 1024 px
 *   check_kernels PLUGIN fp32|bf16 --only T  compare the kernels of one test, whose name begins with T
 *   check_kernels --judge                    is each fault found that is planted into the CPU's results?
 *
 * Exit 67, in silence, where there is no driver or no GPU.  After a fault of the
 * device no kernel of this process can run any more: the program starts itself
 * again for those that are left.
 *
 * Both sides get the same random arrays, run one kernel, and every array is
 * compared: outputs, and inputs that must not change.  fp32 differs by the order
 * of sums only: relative L2 below 1e-5.  In bf16 narrow arrays are rounded
 * beforehand for both sides, so that the same bound holds for fp32 results; a
 * narrow result, or one of something that a kernel rounded on its way (LOOSE),
 * may be off by half a unit of bf16, 4e-3.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

/* Bounds: of an array's relative L2, and of each of its numbers. */
#define ALL_FP32 1e-5
#define ONE_FP32 2e-4
#define ALL_BF16 4e-3
#define ONE_BF16 3e-2

enum { ARRAYS = 14, DIMS = 6, SIZES = 8, NO_DEVICE = 67 };
enum {
    NARROW = 1,  /* kernels.h: fp32 or bf16 */
    LOOSE = 2,   /* comes from a number that a kernel rounded in between */
    ABOVE = 4,   /* 0.5 to 1.5 */
    RELU = 8,    /* half of it zero, none below */
    MASK = 16,   /* 1 or 0, the first of 64 always 1 */
    DOUBLES = 32,
    TIMES = 64,  /* 0 to 999 */
    OWN = 128,   /* each table's own affair: not compared */
    FIRST = 256, /* where captions begin (kern_text): integers ... */
    BITS = 512,  /* the same to the last bit */
    MOST = 1024  /* ... times the tokens that one has at most */
};

struct want {
    const char *what;
    size_t      n; /* floats; 0: the array is NULL */
    int         flags;
};

struct test {
    const char *name;
    void (*arrays)(struct want *w, const int *z);
    void (*run)(const struct kern_ops *k, float *const *a, const int *z);
    int sizes[SIZES][DIMS]; /* until a row of zeros */
    int large[DIMS];        /* Sana-1600M, 8 samples of 1024 tokens */
};

#define N(...) ((size_t)1 * __VA_ARGS__)

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

static void map_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"silu", "silu_back", "gelu", "gelu_back", "add", "add",
                                        "x", "narrow", "narrow", "copy", "zero", "round"};
    for (int i = 0; i < 12; i++)
        w[i] = (struct want){names[i], N(z[0]),
                             i < 4 || i == 7 || i == 8 || i == 11 ? NARROW : 0};
}

static void map_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const size_t n = (size_t)z[0];
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

static void norm_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]), m = N(z[0] * 3 * z[2]), rows = N(z[0] * z[1]);
    w[0] = (struct want){"h", n, NARROW};
    w[1] = (struct want){"stats", 2 * rows, 0};
    w[2] = (struct want){"x", n, 0};
    w[3] = (struct want){"mod", m, 0};
    w[4] = (struct want){"dx", n, 0};
    w[5] = (struct want){"dmod", m, 0};
    w[6] = (struct want){"dh", n, NARROW};
}

static void norm_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2], ld = 3 * C;
    k->norm_mod(a[0], a[1], a[2], a[3], a[3] + C, ld, z[0], z[1], C, 1e-6f);
    k->norm_mod_back(a[4], a[5], a[5] + C, a[6], a[2], a[1], a[3] + C, ld, z[0], z[1], C);
}

/* The same, and whether there is a gate. */
static void gate_norm_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]), m = N(z[0] * 3 * z[2]), rows = N(z[0] * z[1]);
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
}

static void gate_norm_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2], ld = 3 * C;
    const float *gate = z[3] ? a[4] + 2 * C : NULL;
    k->gate_norm(a[0], a[1], a[2], a[3], gate, ld, a[5], a[4], a[4] + C, ld, z[0], z[1], C, 1e-6f);
    k->gate_norm_back(a[6], a[7], a[8] + 2 * C, a[8], a[8] + C, a[9], a[0], a[2], a[4] + C, ld,
                      gate, ld, a[5], z[0], z[1], C);
    k->gate_norm(a[3], a[1], a[2], a[3], gate, ld, a[5], a[4], a[4] + C, ld, z[0], z[1], C, 1e-6f);
    k->gate_norm_back(a[10], a[9], a[11] + 2 * C, a[11], a[11] + C, a[9], a[3], a[2], a[4] + C, ld,
                      gate, ld, a[5], z[0], z[1], C); /* x is y, da is dh */
}

/* rows, cols, more numbers between rows */
static void rms_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"y", N(z[0] * (z[1] + z[2])), NARROW};
    w[1] = (struct want){"rstd", N(z[0]), 0};
    w[2] = (struct want){"x", N(z[0] * (z[1] + 2 * z[2])), NARROW};
    w[3] = (struct want){"w", N(z[1]), 0};
    w[4] = (struct want){"dx", N(z[0] * (z[1] + 2 * z[2])), NARROW};
    w[5] = (struct want){"dw", N(z[1]), 0};
    w[6] = (struct want){"dy", N(z[0] * (z[1] + z[2])), NARROW};
}

static void rms_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int ldy = z[1] + z[2], ldx = z[1] + 2 * z[2];
    k->rms_norm(a[0], ldy, a[1], a[2], ldx, a[3], z[0], z[1], 1e-5f);
    k->rms_norm_back(a[4], ldx, a[5], a[6], ldy, a[2], ldx, a[1], a[3], z[0], z[1]);
    k->rms_norm_back(a[6], ldy, a[5], a[6], ldy, a[2], ldx, a[1], a[3], z[0], z[1]);
}

/* batch, tokens, heads, dim */
static void lin_arrays(struct want *w, const int *z)
{
    const size_t rows = N(z[0] * z[1]), C = N(z[2] * z[3]);
    w[0] = (struct want){"out", rows * C, NARROW};
    w[1] = (struct want){"vk", N(z[0] * z[2]) * N((z[3] + 1) * z[3]), 0};
    w[2] = (struct want){"den", rows * N(z[2]), OWN};
    w[3] = (struct want){"qk", rows * 2 * C, NARROW | OWN};
    w[4] = (struct want){"v", rows * C, NARROW};
    w[5] = (struct want){"dqkv", rows * 3 * C, NARROW};
    w[6] = (struct want){"dout", rows * C, NARROW | OWN};
}

static void *skip(const struct kern_ops *k, void *narrow, int n)
{
    return (char *)narrow + (size_t)n * k->narrow;
}

static void lin_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const struct kern_lin_attn keep = {a[1], a[2]};
    const int C = z[2] * z[3];
    void *key = skip(k, a[3], C);
    k->lin_attn(a[0], C, keep, a[3], key, 2 * C, a[4], C, s);
    k->lin_attn_back(a[5], skip(k, a[5], C), skip(k, a[5], 2 * C), 3 * C, a[6], C, a[0], keep, a[3],
                     key, 2 * C, a[4], C, s);
}

/* batch, tokens, heads, dim, text, packed */
static void cross_arrays(struct want *w, const int *z)
{
    const size_t M = N(z[0] * z[1]), T = N(z[0] * z[4]), C = N(z[2] * z[3]);
    const size_t kept = N(z[0] * z[2]) * N(z[1] * (z[4] > 2 ? z[4] : 2));
    w[0] = (struct want){"out", M * C, NARROW};
    w[1] = (struct want){"kept", kept, OWN};
    w[2] = (struct want){"q", M * C, NARROW};
    w[3] = (struct want){"kv", T * 2 * C, NARROW};
    w[4] = (struct want){"mask", T, MASK};
    w[5] = (struct want){"dq", M * C, NARROW};
    w[6] = (struct want){"dkv", T * 2 * C, NARROW};
    w[7] = (struct want){"work", kept, OWN};
    w[8] = (struct want){"dout", M * C, NARROW};
    w[9] = (struct want){"first", z[5] ? N(z[0]) + 1 : 0, FIRST | OWN | z[4] * MOST};
}

static void cross_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_heads s = {z[0], z[1], z[2], z[3]};
    const int C = z[2] * z[3];
    const struct kern_text t = {a[4], (const int *)(const void *)a[9], z[4]};
    void *v = skip(k, a[3], C);
    k->cross_attn(a[0], a[1], a[2], a[3], 2 * C, v, 2 * C, t, s);
    k->cross_attn_back(a[5], a[6], skip(k, a[6], C), 2 * C, a[7], a[8], a[1], a[2], a[3], 2 * C,
                       v, 2 * C, t, s);
}

/* batch, height, width, channels of a half */
static void mix_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1] * z[2]) * N(z[3]);
    w[0] = (struct want){"g", n, NARROW};
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

static void flow_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0] * z[1]);
    w[0] = (struct want){"x_t", n, 0};
    w[1] = (struct want){"x0", n, 0};
    w[2] = (struct want){"noise", n, 0};
    w[3] = (struct want){"alpha", N(z[0]), 0};
    w[4] = (struct want){"sigma", N(z[0]), 0};
    w[5] = (struct want){"per_sample", N(z[0] * 2), DOUBLES};
    w[6] = (struct want){"dout", n, 0};
    w[7] = (struct want){"out", n, 0};
    w[8] = (struct want){"squares", 2, DOUBLES};
}

static void flow_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const size_t n = (size_t)z[1];
    k->flow_noise(a[0], a[1], a[2], a[3], a[4], z[0], n);
    k->flow_loss((double *)(void *)a[5], a[6], a[7], a[1], a[2], 0.7, z[0], n);
    const double squares = k->sum_squares(a[2], n * (size_t)z[0]);
    k->upload(a[8], &squares, sizeof(squares));
}

static void adamw_arrays(struct want *w, const int *z)
{
    static const char *const names[] = {"p", "m", "v", "g", "ema", "also"};
    for (int i = 0; i < 6; i++)
        w[i] = (struct want){names[i], N(z[0]), i == 2 ? ABOVE : i == 5 ? NARROW : 0};
}

static void adamw_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct kern_adamw c = {0.9f, 0.1f, 0.999f, 0.001f, 1e-8f, 0.999f, 0.01f, 3.2f, 0.5f};
    k->ema(a[4], a[0], 0.99f, 0.01f, (size_t)z[0]);
    k->adamw(a[0], a[5], a[1], a[2], a[3], c, (size_t)z[0]);
}

/* rows, cols, factored */
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
    const struct kern_came c = {0.9f,    0.1f,  0.999f, 0.001f, 0.9999f, 0.0001f,
                                1e-30f, 1e-16f, 0.01f,  0.999f, 0.8f,    0.5f};
    const struct kern_came_state s = {z[2] ? z[0] : 0, z[1], a[1], a[2], a[5], a[7], a[6], a[8],
                                      a[4]};
    k->came(a[0], a[9], s, a[3], c, N(z[0] * z[1]));
}

/* Integers are two floats each; what of them is larger than 2^51 wraps around on both sides. */
static void fixed_arrays(struct want *w, const int *z)
{
    const size_t n = N(z[0]);
    w[0] = (struct want){"sum", 2 * n, BITS};
    w[1] = (struct want){"most", 2, BITS};
    w[2] = (struct want){"x", n, BITS}; /* with an infinity, a NaN or a giant on both sides */
    w[3] = (struct want){"joined", 2 * n, BITS};
    w[4] = (struct want){"result", n, BITS};
    w[5] = (struct want){"squares", 2, BITS};
    w[6] = (struct want){"sum of NaN", 2 * n, OWN | BITS};
}

static void fixed_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const size_t n = (size_t)z[0];
    const float odd = z[1] == 1 ? INFINITY : z[1] == 2 ? NAN : 0x1p60f;
    int64_t *sum = (int64_t *)(void *)a[0], *joined = (int64_t *)(void *)a[3];
    k->zero(a[1], 2); /* a maximum of sizes: a negative number in it has no meaning, and each side its own way */
    k->fixed_add(sum, a[1], a[2], 0x1p40, n);
    k->fixed_add(sum, a[1], a[2], 0x1p9, n); /* fractions */
    k->fixed_join(joined, sum, n);
    k->fixed_result(a[4], joined, 0x1p-40, n);
    k->fixed_squares((int64_t *)(void *)a[5], a[2], 0x1p11, n);
    k->upload(a[2] + n / 2, &odd, sizeof(odd));
    k->fixed_add((int64_t *)(void *)a[6], a[1] + 1, a[2], 0x1p40, n); /* told by the largest alone */
}

static const struct test tests[] = {
    {"linear", linear_arrays, linear_run,
     {{1, 1, 1, 1}, {1, 7, 3, 0}, {5, 17, 31, 1}, {33, 64, 47, 1}, {7, 96, 200, 0},
      {130, 31, 65, 1}, {4, 256, 130, 1}}, {8192, 2240, 11200, 1}},
    {"linear_back", linear_back_arrays, linear_back_run,
     {{1, 1, 1, 7}, {3, 7, 5, 2}, {5, 17, 31, 4}, {33, 64, 47, 7}, {7, 96, 200, 3},
      {130, 31, 65, 6}, {300, 24, 10, 0}}, {8192, 2240, 11200, 6}},
    {"patch", patch_arrays, patch_run,
     {{1, 1, 1, 1, 1}, {2, 4, 6, 3, 2}, {3, 3, 9, 5, 3}, {2, 5, 7, 32, 1}}, {8, 32, 32, 32, 1}},
    {"silu gelu add", map_arrays, map_run, {{1}, {2}, {31}, {1000}, {4097}}, {8192 * 2240}},
    {"time_embed", time_arrays, time_run, {{1, 1}, {3, 7}, {2, 128}}, {8, 128}},
    {"mod_add", mod_arrays, mod_run, {{1, 1, 1, 1}, {3, 2, 7, 0}, {2, 6, 130, 1}},
     {8, 6, 2240, 1}},
    {"gate", gate_arrays, gate_run,
     {{1, 1, 1, 3}, {2, 3, 5, 1}, {3, 33, 40, 4}, {2, 70, 65, 3}, {1, 2, 5000, 0}},
     {8, 1024, 2240, 0}},
    {"norm_mod", norm_arrays, norm_run,
     {{1, 1, 2}, {2, 3, 5}, {3, 33, 16}, {1, 40, 130}, {2, 70, 300}, {1, 2, 4100}},
     {8, 1024, 2240}},
    {"gate_norm", gate_norm_arrays, gate_norm_run,
     {{1, 1, 2, 1}, {2, 3, 5, 0}, {3, 33, 16, 1}, {1, 40, 130, 0}, {2, 70, 300, 1}, {2, 34, 24, 0},
      {1, 2, 4096, 1}, {1, 2, 4100, 1}}, {8, 1024, 2240, 1}},
    {"rms_norm", rms_arrays, rms_run,
     {{1, 2, 1}, {6, 5, 3}, {99, 16, 4}, {40, 130, 5}, {200, 300, 8}}, {8192, 2240, 0}},
    {"lin_attn", lin_arrays, lin_run,
     {{1, 2, 1, 1}, {2, 5, 3, 4}, {1, 33, 2, 32}, {2, 70, 1, 33}, {1, 9, 1, 100},
      {1, 3, 1, 128}, {2, 200, 3, 32}, {1, 128, 1, 32}},
     {8, 1024, 70, 32}},
    {"cross_attn", cross_arrays, cross_run,
     {{1, 1, 1, 1, 1}, {2, 3, 2, 4, 5}, {2, 33, 2, 8, 33}, {1, 20, 3, 7, 70}, {2, 40, 1, 112, 130},
      {3, 16, 1, 72, 12},
      {3, 18, 2, 8, 33, 1}, {5, 40, 1, 112, 130, 1}}, {8, 1024, 20, 112, 300}},
    {"mix", mix_arrays, mix_run,
     {{1, 1, 1, 1}, {2, 1, 5, 3}, {2, 3, 4, 36}, {1, 50, 20, 33}, {2, 8, 8, 64}, {1, 7, 5, 40}},
     {8, 32, 32, 5600}},
    {"flow sum_squares", flow_arrays, flow_run, {{1, 1}, {3, 7}, {2, 5000}, {5, 300}}, {8, 32768}},
    {"adamw ema", adamw_arrays, adamw_run, {{1}, {33}, {4097}}, {1 << 26}},
    {"fixed", fixed_arrays, fixed_run, {{1}, {15, 1}, {33, 2}, {4099, 1}, {300000}}, {1 << 26}},
    {"came", came_arrays, came_run,
     {{2, 2, 1}, {3, 7, 1}, {1, 33, 0}, {40, 65, 1}, {130, 9, 1}, {5, 9, 0}}, {11200, 2240, 1}},
};

/* --- running ------------------------------------------------------------------------------ */

struct side {
    const struct kern_ops *k;
    float                 *a[ARRAYS];
    void                  *base[ARRAYS]; /* the allocation of each */
};

static float to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, sizeof(u));
    return x;
}

/* One caption as long as can be, and shorter ones, down to a token. */
static void fill_first(int *first, const struct want *w)
{
    const int most = w->flags / MOST;
    first[0] = 0;
    for (size_t b = 0; b + 1 < w->n; b++)
        first[b + 1] = first[b] + (b == 1 ? most : 1 + (int)b * 37 % most);
}

static void fill(float *p, const struct want *w, int bf16, uint64_t id)
{
    const struct rng r = rng_make(5, 0, id, RNG_TEST);
    rng_uniform(&r, p, 0, w->n);
    if (w->flags & FIRST)
        return fill_first((int *)(void *)p, w);
    for (size_t i = 0; i < w->n; i++) {
        const float x = 2 * p[i] - 1;
        p[i] = w->flags & ABOVE   ? p[i] + 0.5f
               : w->flags & RELU  ? (x > 0 ? x : 0)
               : w->flags & MASK  ? (float)(i % 64 == 0 || x > 0)
               : w->flags & TIMES ? 999 * p[i]
                                  : x;
        if (bf16 && w->flags & NARROW)
            p[i] = to_bf16(p[i]);
    }
}

/* A narrow array of n numbers here, into one of the table, and back. */
static void put(const struct side *s, void *to, const float *from, const struct want *w)
{
    if (!(w->flags & NARROW) || s->k->narrow == sizeof(float)) {
        s->k->upload(to, from, w->n * sizeof(float));
        return;
    }
    uint16_t *half = malloc(w->n * sizeof(*half));
    if (!half)
        abort();
    for (size_t i = 0; i < w->n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof(bits));
        half[i] = (uint16_t)(bits >> 16);
    }
    s->k->upload(to, half, w->n * sizeof(*half));
    free(half);
}

static void get(const struct side *s, float *to, const void *from, const struct want *w)
{
    if (!(w->flags & NARROW) || s->k->narrow == sizeof(float)) {
        s->k->download(to, from, w->n * sizeof(float));
        return;
    }
    uint16_t *half = malloc(w->n * sizeof(*half));
    if (!half)
        abort();
    s->k->download(half, from, w->n * sizeof(*half));
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;
        memcpy(&to[i], &bits, sizeof(bits));
    }
    free(half);
}

/* With CHECK_KERNELS_SHIFT set, arrays on the GPU begin one number past their allocation: as aligned as a
 * number, and no more. */
static size_t offset_of(const struct side *s, const struct want *w, size_t size)
{
    const bool shifts = !s->k->host && !(w->flags & (DOUBLES | BITS | FIRST)) && getenv("CHECK_KERNELS_SHIFT");
    return shifts ? size : 0;
}

static int setup(struct side *s, const struct want *w, int bf16, uint64_t id)
{
    for (int i = 0; i < ARRAYS; i++) {
        s->a[i] = NULL;
        s->base[i] = NULL;
        if (!w[i].n)
            continue;
        float *here = malloc(w[i].n * sizeof(float));
        const size_t size = w[i].flags & NARROW ? s->k->narrow : sizeof(float), off = offset_of(s, &w[i], size);
        s->base[i] = s->k->alloc(w[i].n * size + off);
        s->a[i] = (float *)(void *)((char *)s->base[i] + off);
        if (!here || !s->base[i]) {
            fprintf(stderr, "check_kernels: out of memory\n");
            return -1;
        }
        fill(here, &w[i], bf16, id + (uint64_t)i);
        put(s, s->a[i], here, &w[i]);
        free(here);
    }
    return 0;
}

static void release(struct side *s)
{
    for (int i = 0; i < ARRAYS; i++)
        s->k->release(s->base[i]);
}

/* One array of a kernel against that of its twin. */
struct apart {
    double all; /* L2 of the differences over that of the array */
    double one; /* the largest difference, over its number and the root of the mean square together */
};

static double number_of(const float *p, const struct want *w, size_t i)
{
    return w->flags & DOUBLES ? ((const double *)(const void *)p)[i] : p[i];
}

/* The larger one; NaN once there is one, where fmax() would forget it. */
static double worse(double most, double x)
{
    return isnan(most) || x <= most ? most : x;
}

static struct apart difference(const float *ours, const float *want, const struct want *w)
{
    double sum = 0, all = 0, most = 0;
    const size_t n = w->flags & DOUBLES ? w->n / 2 : w->n;
    for (size_t i = 0; i < n; i++)
        all += number_of(want, w, i) * number_of(want, w, i);
    const double rms = fmax(sqrt(all / (double)n), 1e-20);
    for (size_t i = 0; i < n; i++) {
        const double y = number_of(want, w, i), d = number_of(ours, w, i) - y;
        sum += d * d;
        most = worse(most, fabs(d) / (fabs(y) + rms));
    }
    return (struct apart){sqrt(sum) / fmax(sqrt(all), 1e-20), most};
}

struct score {
    double worst;       /* as a share of its bound; NaN: beyond every bound */
    double error;
    int    arrays;      /* that were compared */
    char   where[64];
};

/* The share of the bound that the worse of both measures takes; above 1, or NaN, is a failure. */
static double share_of(const float *ours, const float *want, const struct want *w, int bf16, double *error)
{
    const bool rounded = bf16 && w->flags & (LOOSE | NARROW);
    if (w->flags & BITS) {
        *error = memcmp(ours, want, w->n * sizeof(float)) != 0;
        return *error != 0 ? INFINITY : 0;
    }
    const struct apart e = difference(ours, want, w);
    const double all = e.all / (rounded ? ALL_BF16 : ALL_FP32), one = e.one / (rounded ? ONE_BF16 : ONE_FP32);
    *error = all >= one ? e.all : e.one;
    return worse(all, one);
}

static void compare_array(struct score *s, const float *ours, const float *want, const struct want *w,
                          int bf16, const int *z)
{
    double error;
    const double share = share_of(ours, want, w, bf16, &error);
    s->arrays++;
    if (isnan(s->worst) || share <= s->worst)
        return;
    s->worst = share;
    s->error = error;
    snprintf(s->where, sizeof(s->where), "%s at %d %d %d %d %d", w->what, z[0], z[1], z[2], z[3], z[4]);
}

static void compare(struct score *s, const struct side *cuda, const struct side *cpu,
                    const struct want *w, int bf16, const int *z)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (!w[i].n || w[i].flags & OWN)
            continue;
        float *here = malloc(w[i].n * sizeof(float));
        if (!here)
            abort();
        get(cuda, here, cuda->a[i], &w[i]);
        compare_array(s, here, cpu->a[i], &w[i], bf16, z);
        free(here);
    }
}

static bool passes(const struct score *s)
{
    return s->arrays > 0 && s->worst <= 1;
}

static int check(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    struct score score = {-1, 0, 0, ""};
    char why[256];
    int sizes = 0;
    for (; sizes < SIZES && t->sizes[sizes][0]; sizes++) {
        if (t->run == lin_run && t->sizes[sizes][3] > cuda->lin_attn_dim)
            continue; /* heads that a GPU of little shared memory has no room for */
        struct want w[ARRAYS] = {{0}};
        struct side sides[2] = {{.k = cuda}, {.k = kern_cpu()}};
        t->arrays(w, t->sizes[sizes]);
        for (int i = 0; i < 2; i++) {
            if (setup(&sides[i], w, bf16, (uint64_t)(100 * sizes)) < 0)
                return 1;
            t->run(sides[i].k, sides[i].a, t->sizes[sizes]);
        }
        if (cuda->state(why, sizeof(why)) != KERN_OK) {
            printf("FAILED %-16s %s\n", t->name, why);
            return 1;
        }
        compare(&score, &sides[0], &sides[1], w, bf16, t->sizes[sizes]);
        release(&sides[0]);
        release(&sides[1]);
    }
    const int bad = !passes(&score);
    printf("%s %-16s %d sizes; worst %.1e (%.0f %% of the bound): %s\n", bad ? "FAILED" : "ok    ",
           t->name, sizes, score.error, 100 * score.worst, score.where);
    return bad;
}

/* --- the judge judged --------------------------------------------------------------------- */

enum { NO_PLANT, PLANT_NAN, PLANT_INF, PLANT_WRONG, PLANTS };

/* Into one number of an array; what is compared bit by bit gets one other bit. */
static void plant(float *p, const struct want *w, int what, size_t at)
{
    if (w->flags & BITS) {
        ((unsigned char *)p)[at * sizeof(float)] ^= 1;
        return;
    }
    const double odd[PLANTS] = {0, (double)NAN, (double)INFINITY, number_of(p, w, at) + 0.5};
    if (w->flags & DOUBLES)
        ((double *)(void *)p)[at] = odd[what];
    else
        p[at] = (float)odd[what];
}

/* Whether a score over all arrays, with something planted into array i, passes or fails as it should. */
static bool judged(const struct side *cpu, const struct want *w, int bf16, const int *z, int i, int what)
{
    struct score s = {-1, 0, 0, ""};
    for (int k = 0; k < ARRAYS; k++) {
        const size_t n = w[k].flags & DOUBLES ? w[k].n / 2 : w[k].n;
        if (!n || w[k].flags & OWN)
            continue;
        float *copy = malloc(w[k].n * sizeof(*copy));
        if (!copy)
            abort();
        memcpy(copy, cpu->a[k], w[k].n * sizeof(*copy));
        if (k == i && what != NO_PLANT)
            plant(copy, &w[k], what, what == PLANT_WRONG ? n - 1 : n / 2);
        compare_array(&s, copy, cpu->a[k], &w[k], bf16, z);
        free(copy);
    }
    if (passes(&s) == (what == NO_PLANT))
        return true;
    printf("FAILED judge: %s of %s, fault %d, %s: %g of the bound\n", w[i].what, i ? "its test" : "the first array",
           what, bf16 ? "bf16" : "fp32", s.worst);
    return false;
}

/* A NaN, an infinity and a wrong number in each array of each test at each size, found by the comparison;
 * and nothing where nothing is planted. The CPU's arrays stand for both sides. */
static int judge(const struct test *t, long *planted)
{
    int bad = 0;
    for (int n = 0; n < SIZES && t->sizes[n][0]; n++) {
        struct want w[ARRAYS] = {{0}};
        struct side cpu = {.k = kern_cpu()};
        t->arrays(w, t->sizes[n]);
        if (setup(&cpu, w, 0, (uint64_t)(100 * n)) < 0)
            return 1;
        t->run(cpu.k, cpu.a, t->sizes[n]);
        for (int i = 0; i < ARRAYS; i++)
            for (int k = 0; k < 2 * PLANTS && w[i].n && !(w[i].flags & OWN); k++, ++*planted)
                bad += !judged(&cpu, w, k / PLANTS, t->sizes[n], i, k % PLANTS);
        release(&cpu);
    }
    return bad;
}

static int judge_all(void)
{
    long planted = 0;
    int bad = 0;
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        bad += judge(&tests[i], &planted);
    printf("the judge was shown %ld arrays, three of four with a fault: %d judged wrongly\n", planted, bad);
    return bad || !planted;
}

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

/* The best of five turns of four calls, and the bytes of all arrays over that time. */
static int measure(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    enum { TURNS = 5, CALLS = 4 };
    struct want w[ARRAYS] = {{0}};
    struct side s = {.k = cuda};
    char why[256];
    double best = INFINITY, bytes = 0;
    t->arrays(w, t->large);
    if (setup(&s, w, bf16, 1) < 0)
        return 1;
    for (int i = 0; i < ARRAYS; i++)
        bytes += 4.0 * (double)w[i].n;
    for (int i = 0; i <= TURNS; i++) {
        const double start = now_ms();
        for (int j = 0; j < CALLS; j++)
            t->run(cuda, s.a, t->large);
        if (cuda->state(why, sizeof(why)) != KERN_OK) {
            printf("FAILED %-16s %s\n", t->name, why);
            return 1;
        }
        if (i > 0) /* the first turn warms up */
            best = fmin(best, (now_ms() - start) / CALLS);
    }
    printf("%-16s %9.3f ms  %8.1f GB/s over its arrays", t->name, best, bytes / best * 1e-6);
    if (strncmp(t->name, "linear", 6) == 0)
        printf("  %7.1f TFLOP/s", 2.0 * t->large[0] * t->large[1] * t->large[2] *
                                      (t->name[6] ? 2 : 1) / best * 1e-9);
    printf("\n");
    release(&s);
    return 0;
}

/* Ends the program when there is nothing to check on, or no way to. */
static const struct kern_ops *open_plugin(const char *path, int bf16)
{
    struct kern_cuda c = {.ops_size = KERN_CUDA_SIZE,
                          .precision = bf16 ? KERN_BF16 : KERN_FP32};
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "kern_cuda_open") : NULL;
    kern_cuda_open_fn door = NULL;
    memcpy(&door, &symbol, sizeof(door));
    if (!door) {
        fprintf(stderr, "check_kernels: %s\n", dlerror());
        exit(1);
    }
    const int r = door(&c);
    if (r == KERN_CUDA_NO_DRIVER || r == KERN_CUDA_NO_DEVICE)
        exit(NO_DEVICE);
    if (r != KERN_CUDA_READY) {
        fprintf(stderr, "check_kernels: %s\n", c.why);
        exit(1);
    }
    printf("%s, %s\n", c.name, c.ops->name);
    return c.ops;
}

/* 0: all its kernels are right. 2: there is no such test. */
static int check_one(const char *name, const struct kern_ops *cuda, int bf16)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strncmp(tests[i].name, name, strlen(name)) == 0)
            return check(&tests[i], cuda, bf16);
    return 2;
}

/* Goes on with test `next` in a new process, if the device is lost to this one. */
static void leave_if_lost(char **argv, const struct kern_ops *cuda, int timed, int next, int failed)
{
    char why[256], from[16], bad[16];
    if (cuda->state(why, sizeof(why)) != KERN_FAULT)
        return;
    snprintf(from, sizeof(from), "%d", next);
    snprintf(bad, sizeof(bad), "%d", failed);
    char way[] = "--time", plain[] = "--check";
    char *const args[] = {argv[0], argv[1], argv[2], timed ? way : plain, from, bad, NULL};
    execv(argv[0], args);
    perror("check_kernels: cannot start again");
}

int main(int argc, char **argv)
{
    const int bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0;
    const int timed = argc > 3 && strcmp(argv[3], "--time") == 0;
    int failed = argc > 5 ? atoi(argv[5]) : 0;
    if (argc == 2 && strcmp(argv[1], "--judge") == 0)
        return judge_all();
    if (argc < 3) {
        fprintf(stderr, "usage: check_kernels PLUGIN fp32|bf16 [--time | --only TEST], or check_kernels --judge\n");
        return 2;
    }
    const struct kern_ops *cuda = open_plugin(argv[1], bf16);
    const size_t count = sizeof(tests) / sizeof(tests[0]);
    if (argc == 5 && strcmp(argv[3], "--only") == 0)
        return check_one(argv[4], cuda, bf16);
    for (size_t i = argc > 4 ? (size_t)atoi(argv[4]) : 0; i < count; i++) {
        failed += timed ? measure(&tests[i], cuda, bf16) : check(&tests[i], cuda, bf16);
        fflush(stdout);
        leave_if_lost(argv, cuda, timed, (int)i + 1, failed);
    }
    if (!timed)
        printf("check_kernels: %d passed, %d failed\n",
               (int)count - failed, failed);
    return failed ? 1 : 0;
}
