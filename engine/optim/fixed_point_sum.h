/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_point_sum.h - sums of gradients that do not depend on the order or grouping of additions
 *
 * Floating-point sums depend on the order of additions.  Here each micro-batch's gradient
 * is first rounded to a multiple of 2^-e, and the multiples are added as int64: any order,
 * grouping and number of ranks gives the same bits.
 *
 * The exponent e is chosen per tensor so that the largest number of a micro-batch had about
 * FIXED_POINT_SUM_BITS bits in the previous step; it is part of a run's state.  If the numbers of a
 * step do not fit (they outgrew it, or shrank below FIXED_POINT_SUM_LEAST bits),
 * fixed_point_sum_settle() returns 0 and the step is computed again with an exponent that fits,
 * which also follows from the numbers alone.  A NaN or Inf makes the result NaN.
 *
 * A float has 24 bits; rounding it to 40 bits of the tensor's largest number loses far less than
 * a sum in floats does.
 *
 * Gradients and sums are kernel arrays (kernels.h), and CPU and GPU round alike (kernels/fixed.h);
 * maxima, squares and the loss are in this process's memory.
 */
#ifndef ENGINE_OPTIM_FIXED_POINT_SUM_H
#define ENGINE_OPTIM_FIXED_POINT_SUM_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct layout;

enum {
    FIXED_POINT_SUM_BITS = 40, /* of the largest number */
    FIXED_POINT_SUM_LEAST = 24, /* fewer: a new exponent */
    FIXED_POINT_SUM_MOST = 50, /* more: a new exponent */
    FIXED_POINT_SUM_ADDENDS = 2048, /* micro-batches of a step, so that 63 bits hold the sum */
    FIXED_POINT_SUM_FIRST = 40 /* exponent before the first step */
};

struct fixed_point_sum;

/* `floats`: numbers of the sums, layout_floats() or those of a rank's packed memory (shard.h). */
int fixed_point_sum_create(struct fixed_point_sum **out, const struct layout *l, size_t floats, struct err *err);
void fixed_point_sum_destroy(struct fixed_point_sum *e);

/* The exponents of all tensors of the layout and, last, of the loss: saved with a step, and restored. */
int32_t *fixed_point_sum_exponents(struct fixed_point_sum *e, size_t *n);

void fixed_point_sum_begin(struct fixed_point_sum *e);
/* One micro-batch's gradients (a block of the layout) and its share of the loss. */
void fixed_point_sum_add(struct fixed_point_sum *e, const float *grads, double loss);

/* In parts, for ranks that share the sums: sum[] and grads[] are numbers [from, to) of the layout's block.
 * Multiples are added to sum[]. */
void fixed_point_sum_round(struct fixed_point_sum *e, int64_t *sum, const float *grads, size_t from, size_t to);
void fixed_point_sum_add_loss(struct fixed_point_sum *e, double loss);

/* Combine over ranks before settling: the sums and the loss (added as int64), and the
 * largest numbers of any micro-batch (their maximum; NaN is the largest). */
int64_t *fixed_point_sum_sums(struct fixed_point_sum *e, size_t *n);
int64_t *fixed_point_sum_loss(struct fixed_point_sum *e);
float *fixed_point_sum_maxima(struct fixed_point_sum *e, size_t *n);

/* 1: done, *loss is the sum, exponents are those for the next step.
 * 0: exponents have changed; begin this step again. */
int fixed_point_sum_settle(struct fixed_point_sum *e, double *loss);
/* After that: the result for numbers [from, to) of the layout's block. */
void fixed_point_sum_result(const struct fixed_point_sum *e, float *grads, const int64_t *sum, size_t from, size_t to);

/* The norm of the result, the same for any division among ranks: sums of squares per tensor of
 * the layout, to be added over ranks as int64. `addends`: micro-batches of the step. `from` is a
 * multiple of 16. After fixed_point_sum_settle(). */
int64_t *fixed_point_sum_squares(struct fixed_point_sum *e, size_t *n);
void fixed_point_sum_add_squares(struct fixed_point_sum *e, const float *grads, size_t from, size_t to, int addends);
double fixed_point_sum_norm(struct fixed_point_sum *e, int addends);

#endif
