/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_point_sum.h - a sum of gradients that does not depend on who adds what, and when
 *
 * Floating-point sums depend on their order.  Here each micro-batch's gradient is first
 * rounded to a multiple of 2^-e, and the multiples are added as int64: any order, any
 * grouping, any number of ranks gives the same bits.
 *
 * The exponent e is chosen per tensor so that its largest number of a micro-batch had
 * about EXACT_BITS bits in the step before; it is part of a run's state.  Where the numbers of
 * a step turn out to need another one (they outgrew it, or shrank below EXACT_LEAST
 * bits), exact_end() says so, and the step is taken again with the exponent that
 * fits: that too follows from the numbers alone.  A NaN or Inf makes the result NaN.
 *
 * A float has 24 bits; its rounding to 40 of the tensor's largest number loses what is
 * far below what the sum in floats would.
 *
 * Gradients and sums are kernel arrays (kernels.h), and CPU and GPU round alike (kernels/fixed.h);
 * maxima, squares and the loss are this process's memory.
 */
#ifndef ENGINE_OPTIM_FIXED_POINT_SUM_H
#define ENGINE_OPTIM_FIXED_POINT_SUM_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct layout;

enum {
    EXACT_BITS = 40,        /* that the largest number gets */
    EXACT_LEAST = 24,       /* and may fall to */
    EXACT_MOST = 50,        /* and may grow to */
    EXACT_ADDENDS = 2048,   /* micro-batches of a step, so that 63 bits hold the sum */
    EXACT_FIRST = 40        /* exponent of a tensor that nothing is known of */
};

struct exact;

/* `floats`: of the sums that it keeps, layout_floats() or a rank's packed memory (shard.h). */
int exact_create(struct exact **out, const struct layout *l, size_t floats, struct err *err);
void exact_destroy(struct exact *e);

/* One exponent per tensor of the layout, and one for the loss; to be saved, and set from what was
 * saved. */
int32_t *exact_exponents(struct exact *e, size_t *n);

void exact_begin(struct exact *e);
/* One micro-batch's gradients (a block of the layout) and its share of the loss. */
void exact_add(struct exact *e, const float *grads, double loss);

/* In parts, for ranks that share the sums: numbers [from, to) of the layout's block, which the
 * arrays begin with. Multiples are added to sum[]. */
void exact_round(struct exact *e, int64_t *sum, const float *grads, size_t from, size_t to);
void exact_add_loss(struct exact *e, double loss);

/* To be combined over ranks in between: the sums and that of the loss (add them as int64), and the
 * largest numbers of any micro-batch (take the maximum; a NaN is the largest). */
int64_t *exact_sums(struct exact *e, size_t *n);
int64_t *exact_loss(struct exact *e);
float *exact_maxima(struct exact *e, size_t *n);

/* 1: done, the sum is in grads and *loss, exponents are those for the next step.
 * 0: exponents have changed; begin this step again. */
int exact_end(struct exact *e, float *grads, double *loss);

/* The same in parts: whether it is done, and then the sums of numbers [from, to). */
int exact_settle(struct exact *e, double *loss);
void exact_result(const struct exact *e, float *grads, const int64_t *sum, size_t from, size_t to);

/* The norm of the result, the same whoever adds up the squares of which numbers: a sum per tensor of
 * the layout, to be added over ranks as int64. `addends`: micro-batches of the step. `from` is a
 * multiple of 16. After exact_settle(). */
int64_t *exact_squares(struct exact *e, size_t *n);
void exact_add_squares(struct exact *e, const float *grads, size_t from, size_t to, int addends);
double exact_norm(struct exact *e, int addends);

#endif
