/* SPDX-License-Identifier: Apache-2.0 */
/* flow_cases.h - the cases of check_kernels for rectified flow and its noise; part of kernel_cases.h */
#ifndef TESTS_GPU_FLOW_CASES_H
#define TESTS_GPU_FLOW_CASES_H

#include "kernels/kernels.h"
#include "kernels/rng.h"
#include "tests/gpu/kernel_want.h"

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

/* Of the first 1.5e9 numbers of a stream those that lie, as doubles, within a unit of the middle between two floats:
 * a wrong last bit, which other numbers round away, shows. */
static const uint32_t middle[] = {70197333, 624590616, 903010252, 1120567651, 1288778450, 1409457671, 1476723385};
enum { MIDDLES = sizeof(middle) / sizeof(middle[0]) };

/* batch, numbers of a row, a third of the first number's place, numbers in the middle; any bits are a stream */
static void draw_arrays(struct want *w, const int *z)
{
    w[0] = (struct want){"drawn", N(z[0]) * N(z[1]), BITS};
    w[1] = (struct want){"streams", N(z[0]) * (sizeof(struct rng) / sizeof(float)), BITS};
    w[2] = (struct want){"in the middle", N(z[3]), BITS};
}

static void draw_run(const struct kern_ops *k, float *const *a, const int *z)
{
    const struct rng searched = rng_make(1, 0, 0, RNG_TEST);
    struct rng *stream = (struct rng *)(void *)a[1];
    k->draw_normal(a[0], stream, 3 * (uint64_t)z[2], z[0], (size_t)z[1]);
    if (z[3])
        k->upload(stream, &searched, sizeof(searched));
    for (int i = 0; i < z[3]; i++)
        k->draw_normal(a[2] + i, stream, middle[i], 1, 1);
}

#define FLOW_TESTS                                                                                                   \
    {"flow sum_squares", flow_arrays, flow_run, {{1, 1}, {3, 7}, {2, 5000}, {5, 300}, {2, 150001}}, {8, 32768}},    \
    {"draw_normal", draw_arrays, draw_run,                                                                           \
     {{1, 1, 0}, {1, 1, 1, MIDDLES}, {2, 2, 1}, {3, 7, 0}, {2, 5000, 3}, {5, 301, 2147483001}, {2, 40001, 1}},       \
     {8, 32768, 0}},

#endif
