/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - random numbers without a state: Philox4x32-10, keyed by what they are for
 *
 * The i-th number of a stream is a pure function of (seed, epoch, id, purpose, i):
 * no rank, no thread, no order of calls is in it, so any number of workers draws
 * the same, and a resumed run needs nothing saved.  The same bits on every
 * machine: only integer arithmetic and IEEE double in a fixed order, no libm.
 */
#ifndef KERNELS_RNG_H
#define KERNELS_RNG_H

#include <stddef.h>
#include <stdint.h>

enum rng_purpose {
    RNG_WEIGHTS,    /* id = tensor */
    RNG_SHUFFLE,    /* id = bucket */
    RNG_NOISE,      /* id = sample, from here on */
    RNG_TIMESTEP,
    RNG_DROPOUT,    /* caption dropout */
    RNG_CAPTION,    /* which caption, crop, ... */
    RNG_SAMPLING,   /* start noise of pictures drawn from captions */
    RNG_TEST,
    RNG_BUCKETS,    /* id = 0 */
    RNG_SYNTHETIC   /* id = sample; epoch: part */
};

struct rng {
    uint32_t key[2];
    uint32_t counter[3]; /* the fourth word counts blocks of four numbers */
};

/* `epoch` below 2^24; streams of different arguments never meet. */
struct rng rng_make(uint64_t seed, uint32_t epoch, uint64_t id, enum rng_purpose purpose);

/* Numbers first, first + 1, ... first + n - 1 of the stream (i < 2^34). */
void rng_bits(const struct rng *r, uint32_t *out, uint64_t first, size_t n);
void rng_uniform(const struct rng *r, float *out, uint64_t first, size_t n); /* [0, 1), 24 bits */
/* Standard normal; number i uses bits 2i and 2i + 1. */
void rng_normal(const struct rng *r, float *out, uint64_t first, size_t n);
double rng_normal_at(const struct rng *r, uint64_t i);  /* one, in double */
double rng_uniform_at(const struct rng *r, uint64_t i); /* one, 53 bits of 2i and 2i + 1 */

/* Uniform in 0..bound-1 without bias worth the name (64 bits times bound). */
uint64_t rng_below(const struct rng *r, uint64_t i, uint64_t bound);

#endif
