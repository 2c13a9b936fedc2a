/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_plan.h - gradients cut into buckets, and which of them may be handed over when
 *
 * Pure: no clock, no I/O.
 * The backward pass completes a model's gradients from its end: at any moment those from some number
 * on are complete.  So buckets are handed over from the end, each as soon as its first number is
 * complete, and are on their way to the other ranks while the pass goes on.
 *
 * Collectives need the same calls in the same order on all ranks.  Which buckets there are, and their
 * order, depends on sizes alone: ranks differ only in when they hand over how many at once, and one that
 * has no samples hands over all of them in the end.
 */
#ifndef ENGINE_DIST_BUCKET_PLAN_H
#define ENGINE_DIST_BUCKET_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct shard;

enum { BUCKET_BYTES = 4 << 20 };

/* A plain value; its owner makes a new one for each step. */
struct bucket_plan {
    size_t              numbers, most; /* cut into buckets of `most`, what is left over in front; or */
    const struct shard *units;         /*   a bucket per unit */
    int                 left;          /* buckets 0 to left - 1 are not handed over yet */
};

struct bucket {
    int    index;     /* counted from the front; the number of the unit */
    size_t from, to;  /* numbers */
};

/* Of `numbers`, each of so many bytes, in buckets of BUCKET_BYTES. */
struct bucket_plan bucket_plan_even(size_t numbers, size_t bytes_each);
struct bucket_plan bucket_plan_units(const struct shard *units);

/* The next bucket to hand over, where the numbers from `complete` on are; false: none for now. */
bool bucket_plan_next(struct bucket_plan *p, size_t complete, struct bucket *next);

#endif
