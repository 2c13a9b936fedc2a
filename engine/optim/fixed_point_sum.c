/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_point_sum.c - see fixed_point_sum.h; the arithmetic is that of kernels/fixed.h */
#include "engine/optim/fixed_point_sum.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "kernels/fixed.h"
#include "kernels/kernels.h"

struct fixed_point_sum {
    const struct kern_ops *ops;
    const struct layout   *layout;
    size_t                 floats;   /* numbers of sum */
    int                    tensors;
    int64_t               *sum;      /* [floats], a kernel array */
    int64_t                loss;
    float                 *most;     /* [tensors + 1]: largest numbers, the loss's last */
    int32_t               *exponent; /* [tensors + 1], the loss's last */
    double                *unit;     /* [tensors + 1], of the settled step; NaN: not finite */
    int64_t               *squares;  /* [tensors] */
    /* Where kernels write most and squares; on the CPU the same arrays, else copied on demand. */
    float                 *kernel_most;
    int64_t               *kernel_squares;
    bool                   most_here, squares_here;
};

static int alloc_all(struct fixed_point_sum *e, struct err *err)
{
    const size_t n = (size_t)e->tensors + 1, bytes = n * sizeof(int64_t);
    const bool host = e->ops->host;
    if (!(e->sum = backend_alloc(e->ops, e->floats * sizeof(*e->sum), USE_GRADIENTS, err)) ||
        !(e->kernel_most = backend_alloc(e->ops, bytes, USE_GRADIENTS, err)) ||
        !(e->kernel_squares = backend_alloc(e->ops, bytes, USE_GRADIENTS, err)))
        return -1;
    e->most = host ? e->kernel_most : calloc(1, bytes);
    e->squares = host ? e->kernel_squares : calloc(1, bytes);
    e->exponent = calloc(n, sizeof(*e->exponent));
    e->unit = calloc(n, sizeof(*e->unit));
    return e->most && e->squares && e->exponent && e->unit
               ? 0 : err_set(err, ERR_MEMORY, "no memory for reproducible sums");
}

int fixed_point_sum_create(struct fixed_point_sum **out, const struct layout *l, size_t floats, struct err *err)
{
    struct fixed_point_sum *e = calloc(1, sizeof(*e));
    if (!e)
        return err_set(err, ERR_MEMORY, "no memory for reproducible sums");
    e->ops = backend_ops();
    e->layout = l;
    e->floats = floats;
    e->tensors = layout_len(l);
    if (alloc_all(e, err) < 0) {
        fixed_point_sum_destroy(e);
        return -1;
    }
    for (int i = 0; i <= e->tensors; i++)
        e->exponent[i] = FIXED_POINT_SUM_FIRST;
    *out = e;
    return 0;
}

void fixed_point_sum_destroy(struct fixed_point_sum *e)
{
    if (!e)
        return;
    if (!e->ops->host) {
        free(e->most);
        free(e->squares);
    }
    e->ops->release(e->sum);
    e->ops->release(e->kernel_most);
    e->ops->release(e->kernel_squares);
    free(e->exponent);
    free(e->unit);
    free(e);
}

int32_t *fixed_point_sum_exponents(struct fixed_point_sum *e, size_t *n)
{
    *n = (size_t)e->tensors + 1;
    return e->exponent;
}

/* Zeroes integers as pairs of floats. */
static void zero_integers(const struct fixed_point_sum *e, int64_t *x, size_t n)
{
    e->ops->zero((float *)(void *)x, 2 * n);
}

void fixed_point_sum_begin(struct fixed_point_sum *e)
{
    zero_integers(e, e->sum, e->floats);
    e->ops->zero(e->kernel_most, (size_t)e->tensors + 1);
    e->most[e->tensors] = 0;
    e->loss = 0;
    e->most_here = e->ops->host;
}

/* --- adding ------------------------------------------------------------------------------ */

/* Narrows [from, to) of the block to tensor t; false if they do not overlap. */
static bool clip_to(const struct tensor *t, size_t *from, size_t *to)
{
    *from = t->offset > *from ? t->offset : *from;
    *to = t->offset + t->count < *to ? t->offset + t->count : *to;
    return *from < *to;
}

void fixed_point_sum_round(struct fixed_point_sum *e, int64_t *sum, const float *grads, size_t from, size_t to)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        if (clip_to(layout_at(e->layout, i), &lo, &hi))
            e->ops->fixed_add(sum + (lo - from), &e->kernel_most[i], grads + (lo - from),
                              ldexp(1, e->exponent[i]), hi - lo);
    }
}

void fixed_point_sum_add_loss(struct fixed_point_sum *e, double loss)
{
    float size = (float)fabs(loss);
    if (isnan(size) || size > e->most[e->tensors])
        e->most[e->tensors] = size;
    e->loss = fixed_plus(e->loss, fixed_of(ldexp(loss, e->exponent[e->tensors])));
}

void fixed_point_sum_add(struct fixed_point_sum *e, const float *grads, double loss)
{
    fixed_point_sum_round(e, e->sum, grads, 0, e->floats);
    fixed_point_sum_add_loss(e, loss);
}

int64_t *fixed_point_sum_sums(struct fixed_point_sum *e, size_t *n)
{
    *n = e->floats;
    return e->sum;
}

int64_t *fixed_point_sum_loss(struct fixed_point_sum *e)
{
    return &e->loss;
}

float *fixed_point_sum_maxima(struct fixed_point_sum *e, size_t *n)
{
    *n = (size_t)e->tensors + 1;
    if (!e->most_here)
        e->ops->download(e->most, e->kernel_most, (size_t)e->tensors * sizeof(*e->most));
    e->most_here = true;
    return e->most;
}

/* --- the result -------------------------------------------------------------------------- */

/* The exponent of the smallest power of two above x > 0. */
static int magnitude(float x)
{
    int power;
    frexp((double)x, &power);
    return power;
}

static bool is_known(const struct fixed_point_sum *e, int i)
{
    return e->most[i] > 0 && isfinite(e->most[i]);
}

/* Do the numbers of this step fit their exponents? */
static bool fits(const struct fixed_point_sum *e)
{
    for (int i = 0; i <= e->tensors; i++) {
        int bits = is_known(e, i) ? magnitude(e->most[i]) + e->exponent[i] : FIXED_POINT_SUM_BITS;
        if (bits < FIXED_POINT_SUM_LEAST || bits > FIXED_POINT_SUM_MOST)
            return false;
    }
    return true;
}

static void learn(struct fixed_point_sum *e)
{
    for (int i = 0; i <= e->tensors; i++)
        if (is_known(e, i))
            e->exponent[i] = FIXED_POINT_SUM_BITS - magnitude(e->most[i]);
}

static double unit_of(const struct fixed_point_sum *e, int i)
{
    return isfinite(e->most[i]) ? ldexp(1, -e->exponent[i]) : (double)NAN;
}

int fixed_point_sum_settle(struct fixed_point_sum *e, double *loss)
{
    size_t n;
    fixed_point_sum_maxima(e, &n);
    if (!fits(e)) {
        learn(e);
        return 0;
    }
    for (int i = 0; i <= e->tensors; i++)
        e->unit[i] = unit_of(e, i);
    *loss = (double)e->loss * e->unit[e->tensors];
    zero_integers(e, e->kernel_squares, (size_t)e->tensors);
    e->squares_here = e->ops->host;
    learn(e);
    return 1;
}

void fixed_point_sum_result(const struct fixed_point_sum *e, float *grads, const int64_t *sum, size_t from, size_t to)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        if (clip_to(layout_at(e->layout, i), &lo, &hi))
            e->ops->fixed_result(grads + (lo - from), sum + (lo - from), e->unit[i], hi - lo);
    }
}

/* --- the norm ---------------------------------------------------------------------------- */

/* Squares are added in groups (fixed.h) in double, and groups as integers. The
 * scale that keeps the sum below 62 bits follows from the largest number of a micro-batch. */
static int square_exponent(const struct fixed_point_sum *e, int i, int addends)
{
    int most, bits = 4, many;
    frexp((double)addends, &many);
    if (!is_known(e, i))
        return 0;
    most = magnitude(e->most[i]);
    for (size_t groups = layout_at(e->layout, i)->count / FIXED_GROUP; groups; groups /= 2)
        bits++;
    return 61 - bits - 2 * (most + many);
}

int64_t *fixed_point_sum_squares(struct fixed_point_sum *e, size_t *n)
{
    *n = (size_t)e->tensors;
    if (!e->squares_here)
        e->ops->download(e->squares, e->kernel_squares, *n * sizeof(*e->squares));
    e->squares_here = true;
    return e->squares;
}

void fixed_point_sum_add_squares(struct fixed_point_sum *e, const float *grads, size_t from, size_t to, int addends)
{
    for (int i = 0; i < e->tensors; i++) {
        size_t lo = from, hi = to;
        if (is_known(e, i) && clip_to(layout_at(e->layout, i), &lo, &hi))
            e->ops->fixed_squares(&e->kernel_squares[i], grads + (lo - from),
                                  ldexp(1, square_exponent(e, i, addends)), hi - lo);
    }
}

double fixed_point_sum_norm(struct fixed_point_sum *e, int addends)
{
    double total = 0;
    size_t n;
    fixed_point_sum_squares(e, &n);
    for (int i = 0; i < e->tensors; i++) {
        if (!isfinite(e->most[i]))
            return (double)NAN;
        total += ldexp((double)e->squares[i], -square_exponent(e, i, addends));
    }
    return sqrt(total);
}
