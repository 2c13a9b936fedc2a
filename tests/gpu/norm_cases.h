/* SPDX-License-Identifier: Apache-2.0 */
/* norm_cases.h - comparisons of layer norm, alone and with rotary positions; part of kernel_cases.h */
#ifndef TESTS_GPU_NORM_CASES_H
#define TESTS_GPU_NORM_CASES_H

/* rows, cols, more numbers between rows of y, x and dx, whether x is far from zero */
static void layer_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"y", N(z[0]) * N(z[1] + z[2]), NARROW};
    w[1] = (struct want){"stats", 2 * N(z[0]), 0};
    w[2] = (struct want){"x", N(z[0]) * N(z[1] + z[3]), NARROW | (z[5] ? FAR : 0)};
    w[3] = (struct want){"w", N(z[1]), 0};
    w[4] = (struct want){"b", N(z[1]), 0};
    w[5] = (struct want){"dx", N(z[0]) * N(z[1] + z[4]), NARROW};
    w[6] = (struct want){"dw", N(z[1]), 0};
    w[7] = (struct want){"db", N(z[1]), 0};
    w[8] = (struct want){"dy", N(z[0]) * N(z[1] + z[2]), NARROW};
}

static void layer_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int ldy = z[1] + z[2], ldx = z[1] + z[3], lddx = z[1] + z[4];
    k->layer_norm(a[0], ldy, a[1], a[2], ldx, a[3], a[4], z[0], z[1], EPS);
    k->layer_norm_back(a[5], lddx, a[6], a[7], a[8], ldy, a[2], ldx, a[1], a[3], z[0], z[1]);
    k->layer_norm_back(a[8], ldy, a[6], a[7], a[8], ldy, a[2], ldx, a[1], a[3], z[0], z[1]); /* in place */
}

/* batch, tokens, heads, dim, more numbers between rows of y, x and dx */
static void qk_norm_arrays(struct want *w, const int *z)
{
    const size_t rows = N(z[0] * z[1]), C = N(z[2] * z[3]);
    w[0] = (struct want){"y", rows * (C + N(z[4])), NARROW};
    w[1] = (struct want){"stats", 2 * rows, 0};
    w[2] = (struct want){"x", rows * (C + N(z[5])), NARROW};
    w[3] = (struct want){"w", C, 0};
    w[4] = (struct want){"b", C, 0};
    w[5] = (struct want){"dx", rows * (C + N(z[6])), NARROW};
    w[6] = (struct want){"dw", C, 0};
    w[7] = (struct want){"db", C, 0};
    w[8] = (struct want){"dy", w[0].n, NARROW};
    w[9] = (struct want){"real", N(z[1] * z[3] / 2), 0};
    w[10] = (struct want){"imag", N(z[1] * z[3] / 2), 0};
}

static void qk_norm_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const int C = z[2] * z[3], ldy = C + z[4], ldx = C + z[5], lddx = C + z[6];
    const struct kern_rope r = {a[9], a[10], {z[0], z[1], z[2], z[3]}};
    k->layer_norm_rope(a[0], ldy, a[1], a[2], ldx, a[3], a[4], r, EPS);
    k->layer_norm_rope_back(a[5], lddx, a[6], a[7], a[8], ldy, a[2], ldx, a[1], a[3], r);
    k->layer_norm_rope_back(a[8], ldy, a[6], a[7], a[8], ldy, a[2], ldx, a[1], a[3], r); /* in place */
}

#endif
