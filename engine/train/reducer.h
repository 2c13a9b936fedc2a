/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.h - number types for adding up gradients of micro-batches and ranks; one table is chosen per run
 *
 *   plain         floats: each backward pass adds to the same array
 *   fixed-point   reproducible: true: micro-batches are added as integers (fixed_point_sum.h)
 *
 * exchange.h sends them to the other ranks.  A step (train.c): begin(), add() after each micro-batch, finish(),
 * norm().  Then params_grads() has the gradients that this rank updates, and t->loss the mean loss of the batch.
 */
#ifndef ENGINE_TRAIN_REDUCER_H
#define ENGINE_TRAIN_REDUCER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/train/exchange.h"

/* This rank computes samples [from, to) of the global batch, `micro` at a time. `passes`: the most micro-batches
 * that any rank has. */
struct reducer_slice {
    int from, to, micro, passes;
};

struct train_source;

struct reducer {
    struct exchange_numbers numbers; /* type of the numbers that ranks add up */
    struct reducer_slice (*slice)(const struct train *t, const struct train_source *of);
    void (*begin)(struct train *t);
    void (*add)(struct train *t, double loss, int samples);
    /* During the last backward pass: gradients from `from` on are complete, so that other ranks can have them. NULL:
     * not before finish(). */
    void (*ready)(void *train, size_t from);
    /* 1: done. 0: the step must be computed again, from begin() on. -1: failed. */
    int (*finish)(struct train *t);
    /* The norm of the gradients of all ranks. */
    int (*norm)(struct train *t, double *norm);
};

/* reducer.c */
extern const struct reducer reducer_plain;

/* These do nothing without reproducible: true. */
extern const struct reducer reducer_fixed_point;
/* Call before the backend is opened: disables fast paths that are chosen by timing. */
void reducer_fixed_environment(const struct train *t);
int reducer_fixed_open(struct train *t);
/* The exponents to save with a step; NULL and *n = 0 if not reproducible. */
int32_t *reducer_fixed_exponents(const struct train *t, size_t *n);
/* A checkpoint's notes: exponents and the kind of kernels; and back. */
json_t *reducer_fixed_notes(const struct train *t);
int reducer_fixed_resume(struct train *t, const char *dir);

#endif
