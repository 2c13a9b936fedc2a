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
    size_t               floats;   /* of sum */
    int                  tensors;
    int64_t             *sum;      /* [floats], and the loss behind them */
    float               *most;     /* [tensors], and the loss behind them */
    int32_t             *exponent; /* [tensors], and the loss's */
    double              *unit;     /* [tensors + 1], of the step that has settled; NaN: not finite */
    int64_t             *squares;  /* [tensors] */
};

int exact_create(struct exact **out, const struct layout *l, size_t floats, struct err *err)
{
    struct exact *e = calloc(1, sizeof(*e));
    if (!e)
        return err_set(err, ERR_MEMORY, "no memory for reproducible sums");
    e->layout = l;
    e->floats = floats;
    e->tensors = layout_len(l);
    e->sum = calloc(e->floats + 1, sizeof(*e->sum));
    e->most = calloc((size_t)e->tensors + 1, sizeof(*e->most));
    e->exponent = calloc((size_t)e->tensors + 1, sizeof(*e->exponent));
    e->unit = calloc((size_t)e->tensors + 1, sizeof(*e->unit));
    e->squares = calloc((size_t)e->tensors + 1, sizeof(*e->squares));
    if (!e->sum || !e->most || !e->exponent || !e->unit || !e->squares) {
        exact_destroy(e);
        return err_set(err, ERR_MEMORY, "no memory for %.1f GiB of reproducible sums",
                       (double)floats * sizeof(*e->sum) / 0x1p30);
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
    free(e->unit);
    free(e->squares);
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

/* Where numbers [from, to) of the block and tensor t meet. */
static bool meet(const struct tensor *t, size_t *from, size_t *to)
{
    *from = t->offset > *from ? t->offset : *from;
    *to = t->offset + t->count < *to ? t->offset + t->count : *to;
    return *from < *to;
}

void exact_round(struct exact *e, int64_t *sum, const float *grads, size_t from, size_t to)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        uint32_t most;
        if (!meet(layout_at(e->layout, i), &lo, &hi))
            continue;
        memcpy(&most, &e->most[i], sizeof(most));
        const struct adding a = {sum + (lo - from), grads + (lo - from), ldexp(1, e->exponent[i]),
                                 &most};
        team_range(hi - lo, UNIT, 4, add_range, &a);
        memcpy(&e->most[i], &most, sizeof(most));
    }
}

void exact_add_loss(struct exact *e, double loss)
{
    float size = (float)fabs(loss);
    if (isnan(size) || size > e->most[e->tensors])
        e->most[e->tensors] = size;
    e->sum[e->floats] += fixed(ldexp(loss, e->exponent[e->tensors]));
}

void exact_add(struct exact *e, const float *grads, double loss)
{
    exact_round(e, e->sum, grads, 0, e->floats);
    exact_add_loss(e, loss);
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

int exact_settle(struct exact *e, double *loss)
{
    if (!fits(e)) {
        learn(e);
        return 0;
    }
    for (int i = 0; i <= e->tensors; i++)
        e->unit[i] = unit_of(e, i);
    *loss = (double)e->sum[e->floats] * e->unit[e->tensors];
    memset(e->squares, 0, (size_t)e->tensors * sizeof(*e->squares));
    learn(e);
    return 1;
}

void exact_result(const struct exact *e, float *grads, const int64_t *sum, size_t from, size_t to)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        if (!meet(layout_at(e->layout, i), &lo, &hi))
            continue;
        const struct result r = {grads + (lo - from), sum + (lo - from), e->unit[i]};
        team_range(hi - lo, UNIT, 4, result_range, &r);
    }
}

int exact_end(struct exact *e, float *grads, double *loss)
{
    if (!exact_settle(e, loss))
        return 0;
    exact_result(e, grads, e->sum, 0, e->floats);
    return 1;
}

/* --- the norm ---------------------------------------------------------------------------- */

/* Squares are added in groups of STEP in double, which no cut divides, and groups as integers. The
 * largest number of a micro-batch is known, so the scale that 62 bits allow follows. */
static int square_exponent(const struct exact *e, int i, int addends)
{
    int most, bits = 4, many;
    frexp((double)addends, &many);
    if (!is_known(e, i))
        return 0;
    most = magnitude(e->most[i]);
    for (size_t groups = layout_at(e->layout, i)->count / STEP; groups; groups /= 2)
        bits++;
    return 61 - bits - 2 * (most + many);
}

struct squaring {
    const float *grad;
    size_t       n;
    double       scale;
    int64_t     *sum;
};

static void square_range(const void *arg, size_t from, size_t to)
{
    const struct squaring *a = arg;
    int64_t all = 0;
    for (size_t i = from; i < to; i += STEP) {
        double group = 0;
        size_t end = i + STEP < to ? i + STEP : to;
        for (size_t k = i; k < end; k++)
            group += (double)a->grad[k] * (double)a->grad[k];
        all += llrint(group * a->scale);
    }
    __atomic_fetch_add(a->sum, all, __ATOMIC_RELAXED);
}

int64_t *exact_squares(struct exact *e, size_t *n)
{
    *n = (size_t)e->tensors;
    return e->squares;
}

void exact_add_squares(struct exact *e, const float *grads, size_t from, size_t to, int addends)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        if (!is_known(e, i) || !meet(layout_at(e->layout, i), &lo, &hi))
            continue;
        const struct squaring a = {grads + (lo - from), hi - lo,
                                   ldexp(1, square_exponent(e, i, addends)), &e->squares[i]};
        team_range(hi - lo, UNIT, 4, square_range, &a);
    }
}

double exact_norm(const struct exact *e, int addends)
{
    double total = 0;
    for (int i = 0; i < e->tensors; i++) {
        if (!isfinite(e->most[i]))
            return (double)NAN;
        total += ldexp((double)e->squares[i], -square_exponent(e, i, addends));
    }
    return sqrt(total);
}
