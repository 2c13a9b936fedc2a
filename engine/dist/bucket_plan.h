/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_plan.h - gradients cut into buckets, and the order in which buckets are reduced
 *
 * Pure: no clock, no I/O.
 * The backward pass completes a model's gradients from the end: at any moment all numbers from some
 * position on are complete.  So buckets are reduced from the end, each as soon as its first number
 * is complete, while the backward pass continues.
 *
 * Collectives need the same calls in the same order on all ranks.  The buckets and their order depend
 * on sizes alone; only the times of submission differ between ranks.  A rank without samples submits
 * all buckets at the end.
 */
#ifndef ENGINE_DIST_BUCKET_PLAN_H
#define ENGINE_DIST_BUCKET_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct shard;

/* The smallest size of a bucket, and the largest. */
enum { BUCKET_BYTES = 4 << 20, BUCKET_BYTES_MOST = 32 << 20 };

/* A plain value; the owner makes a new one for each step. */
struct bucket_plan {
    size_t              numbers, most; /* buckets of `most` numbers, the remainder at the front; or */
    const struct shard *units;         /*   one bucket per unit */
    int                 left;          /* buckets 0 to left - 1 are not submitted yet */
};

struct bucket {
    int    index;     /* index from the front, or the unit */
    size_t from, to;  /* numbers */
};

/* The bucket size for gradients of this many bytes: doubled until there are at most 64 buckets. More calls cost
 * their latency; with fewer buckets, the last one, which nothing hides, takes longer. */
size_t bucket_plan_bytes(size_t bytes);
/* Buckets of that size for `numbers` of the given size in bytes. */
struct bucket_plan bucket_plan_even(size_t numbers, size_t bytes_each);
struct bucket_plan bucket_plan_units(const struct shard *units);

/* The next bucket to submit, if the numbers from `complete` on are complete; false: none for
 * now. */
bool bucket_plan_next(struct bucket_plan *p, size_t complete, struct bucket *next);

#endif
