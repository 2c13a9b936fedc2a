/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - see exact.h
 *
 * Rounding is done in double: x 2^e + 1.5 2^52 has the nearest integer to x 2^e in its
 * low bits (ties to even) as long as that is below 2^51; what is larger shows in the
 * maxima, and the sum is thrown away.  Elementwise, so threads change nothing.
 */
#include "engine/exact.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/err.h"
#include "engine/layout.h"
#include "kernels/team.h"

enum { STEP = 16, UNIT = 4096 };
#define MAGIC 0x1.8p52

struct exact {
    const struct layout *layout;
    size_t               floats;
    int                  tensors;
    int64_t             *sum;      /* [floats], and the loss behind them */
    float               *most;     /* [tensors], and the loss behind them */
    int32_t             *exponent; /* [tensors], and the loss's */
};

int exact_create(struct exact **out, const struct layout *l, struct err *err)
{
    struct exact *e = calloc(1, sizeof(*e));
    if (!e)
        return err_set(err, ERR_MEMORY, "no memory for reproducible sums");
    e->layout = l;
    e->floats = layout_floats(l);
    e->tensors = layout_len(l);
    e->sum = calloc(e->floats + 1, sizeof(*e->sum));
    e->most = calloc((size_t)e->tensors + 1, sizeof(*e->most));
    e->exponent = calloc((size_t)e->tensors + 1, sizeof(*e->exponent));
    if (!e->sum || !e->most || !e->exponent) {
        exact_destroy(e);
        return err_set(err, ERR_MEMORY, "no memory for %.1f GiB of reproducible sums",
                       (double)layout_floats(l) * sizeof(*e->sum) / 0x1p30);
    }
    for (int i = 0; i <= e->tensors; i++)
        e->exponent[i] = EXACT_FIRST;
    *out = e;
    return 0;
}

void exact_destroy(struct exact *e)
{
    if (!e)
        return;
    free(e->sum);
    free(e->most);
    free(e->exponent);
    free(e);
}

int32_t *exact_exponents(struct exact *e, size_t *n)
{
    *n = (size_t)e->tensors + 1;
    return e->exponent;
}

void exact_begin(struct exact *e)
{
    memset(e->sum, 0, (e->floats + 1) * sizeof(*e->sum));
    memset(e->most, 0, ((size_t)e->tensors + 1) * sizeof(*e->most));
}

/* Unsigned inside: a number that does not fit wraps around, and `most` tells of it. */
static int64_t fixed(double x)
{
    const double magic = MAGIC;
    double shifted = x + magic;
    uint64_t bits, zero;
    memcpy(&bits, &shifted, sizeof(bits));
    memcpy(&zero, &magic, sizeof(zero));
    return (int64_t)(bits - zero);
}

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* --- adding ------------------------------------------------------------------------------ */

struct adding {
    int64_t     *sum;
    const float *grad;
    double       scale;
    uint32_t    *most; /* a float without sign as its bits, which have its order, NaN last */
};

static uint32_t add_some(int64_t *sum, const float *grad, size_t n, double scale)
{
    uint32_t most[STEP] = {0}, all = 0;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        uint32_t bits[STEP];
        double x[STEP];
        memcpy(bits, grad + i, sizeof(bits));
        for (int k = 0; k < STEP; k++)
            x[k] = (double)grad[i + (size_t)k] * scale;
        for (int k = 0; k < STEP; k++)
            sum[i + (size_t)k] = wrap_add(sum[i + (size_t)k], fixed(x[k]));
        for (int k = 0; k < STEP; k++) {
            int32_t a = (int32_t)(bits[k] & 0x7FFFFFFF), b = (int32_t)most[k];
            most[k] = (uint32_t)(a > b ? a : b);
        }
    }
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &grad[i], sizeof(bits));
        sum[i] = wrap_add(sum[i], fixed((double)grad[i] * scale));
        most[0] = (bits & 0x7FFFFFFF) > most[0] ? bits & 0x7FFFFFFF : most[0];
    }
    for (int k = 0; k < STEP; k++)
        all = most[k] > all ? most[k] : all;
    return all;
}

static void add_range(const void *arg, size_t from, size_t to)
{
    const struct adding *a = arg;
    uint32_t most = add_some(a->sum + from, a->grad + from, to - from, a->scale);
    uint32_t before = __atomic_load_n(a->most, __ATOMIC_RELAXED);
    while (most > before &&
           !__atomic_compare_exchange_n(a->most, &before, most, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

void exact_add(struct exact *e, const float *grads, double loss)
{
    for (int i = 0; i < e->tensors; i++) {
        const struct tensor *t = layout_at(e->layout, i);
        uint32_t most;
        memcpy(&most, &e->most[i], sizeof(most));
        const struct adding a = {e->sum + t->offset, grads + t->offset, ldexp(1, e->exponent[i]),
                                 &most};
        team_range(t->count, UNIT, 4, add_range, &a);
        memcpy(&e->most[i], &most, sizeof(most));
    }
    float size = (float)fabs(loss);
    if (isnan(size) || size > e->most[e->tensors])
        e->most[e->tensors] = size;
    e->sum[e->floats] += fixed(ldexp(loss, e->exponent[e->tensors]));
}

int64_t *exact_sums(struct exact *e, size_t *n)
{
    *n = e->floats + 1;
    return e->sum;
}

float *exact_maxima(struct exact *e, size_t *n)
{
    *n = (size_t)e->tensors + 1;
    return e->most;
}

/* --- the result -------------------------------------------------------------------------- */

/* The power of two just above x > 0. */
static int magnitude(float x)
{
    int power;
    frexp((double)x, &power);
    return power;
}

static bool is_known(const struct exact *e, int i)
{
    return e->most[i] > 0 && isfinite(e->most[i]);
}

/* Do the numbers of this step fit their exponents? */
static bool fits(const struct exact *e)
{
    for (int i = 0; i <= e->tensors; i++) {
        int bits = is_known(e, i) ? magnitude(e->most[i]) + e->exponent[i] : EXACT_BITS;
        if (bits < EXACT_LEAST || bits > EXACT_MOST)
            return false;
    }
    return true;
}

static void learn(struct exact *e)
{
    for (int i = 0; i <= e->tensors; i++)
        if (is_known(e, i))
            e->exponent[i] = EXACT_BITS - magnitude(e->most[i]);
}

static double unit_of(const struct exact *e, int i)
{
    return isfinite(e->most[i]) ? ldexp(1, -e->exponent[i]) : (double)NAN;
}

struct result {
    float         *grad;
    const int64_t *sum;
    double         unit; /* NaN where the numbers were not finite */
};

static void result_range(const void *arg, size_t from, size_t to)
{
    const struct result *r = arg;
    for (size_t i = from; i < to; i++)
        r->grad[i] = (float)((double)r->sum[i] * r->unit);
}

int exact_end(struct exact *e, float *grads, double *loss)
{
    if (!fits(e)) {
        learn(e);
        return 0;
    }
    for (int i = 0; i < e->tensors; i++) {
        const struct tensor *t = layout_at(e->layout, i);
        const struct result r = {grads + t->offset, e->sum + t->offset, unit_of(e, i)};
        team_range(t->count, UNIT, 4, result_range, &r);
    }
    *loss = (double)e->sum[e->floats] * unit_of(e, e->tensors);
    learn(e);
    return 1;
}
