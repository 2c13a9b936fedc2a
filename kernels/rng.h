/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - counter-based random numbers: Philox4x32-10, keyed by purpose
 *
 * The i-th number of a stream is a pure function of (seed, epoch, id, purpose, i).
 * Ranks, threads and call order do not matter: any number of workers draws
 * the same numbers, and a resumed run needs no saved state.  The bits are the same on
 * every machine: only integer arithmetic and IEEE double in a fixed order, no libm.
 */
#ifndef KERNELS_RNG_H
#define KERNELS_RNG_H

#include <stddef.h>
#include <stdint.h>

enum rng_purpose {
    RNG_WEIGHTS,    /* id = tensor */
    RNG_SHUFFLE,    /* id = bucket */
    RNG_NOISE,      /* id = sample, here and below */
    RNG_TIMESTEP,
    RNG_DROPOUT,    /* caption dropout */
    RNG_CAPTION,    /* choice of caption, crop, ... */
    RNG_SAMPLING,   /* start noise of sampled images */
    RNG_TEST,
    RNG_BUCKETS,    /* id = 0 */
    RNG_SYNTHETIC,  /* id = sample; epoch: part */
    RNG_POSTERIOR   /* of an autoencoder that gives a mean and a deviation */
};

struct rng {
    uint32_t key[2];
    uint32_t counter[3]; /* the fourth word of the counter counts blocks of four numbers */
};

/* `epoch` is below 2^24; streams with different arguments never overlap. */
struct rng rng_make(uint64_t seed, uint32_t epoch, uint64_t id, enum rng_purpose purpose);

/* Numbers first, first + 1, ... first + n - 1 of the stream (i < 2^34). */
void rng_bits(const struct rng *r, uint32_t *out, uint64_t first, size_t n);
void rng_uniform(const struct rng *r, float *out, uint64_t first, size_t n); /* [0, 1), 24 bits */
/* Standard normal; number i uses bits 2i and 2i + 1. */
void rng_normal(const struct rng *r, float *out, uint64_t first, size_t n);
/* The same for `batch` streams, n numbers each, one after the other. */
void rng_normals(float *out, const struct rng *stream, uint64_t first, int batch, size_t n);
double rng_normal_at(const struct rng *r, uint64_t i);  /* one number, in double */
double rng_uniform_at(const struct rng *r, uint64_t i); /* one number, 53 bits of 2i and 2i + 1 */

/* Uniform in 0..bound-1; the bias is negligible (64 bits times bound). */
uint64_t rng_below(const struct rng *r, uint64_t i, uint64_t bound);

#endif
