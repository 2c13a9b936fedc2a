/* SPDX-License-Identifier: Apache-2.0 */
/* tile.h - tile sizes of CUDA kernels, as pure functions that the host can test at every shape */
#ifndef KERNELS_TILE_H
#define KERNELS_TILE_H

#include <stddef.h>

#ifdef __CUDACC__
#define TILE_FN __host__ __device__ static inline
#else
#define TILE_FN static inline __attribute__((unused))
#endif

/* Row where the caption of a sample begins; for b = batch, the end of the last one. */
TILE_FN int text_first(const int *first, int most, int b)
{
    return first ? first[b] : b * most;
}

/* The gated convolution goes down an image some rows a step. For a slice of the channels of each half, shared memory
 * has the rows of s of the last three steps, and for the backward pass the rows of the gradient of d of the last two;
 * besides, the slice's weights and biases. */
enum {
    GLUMBCONV_STEP = 4,   /* rows */
    GLUMBCONV_STEPS = 3,  /* of s */
    MIX_BACK_STEPS = 5,   /* of s and of the gradient of d */
    GLUMBCONV_SLICE = 16, /* channels, if they fit; not fewer than GLUMBCONV_LEAST */
    GLUMBCONV_LEAST = 4,
    GLUMBCONV_SUMS = 10,  /* per channel: nine weights, the bias */
    GLUMBCONV_KEPT = 2 * GLUMBCONV_SUMS,
    /* on tensor cores */
    GLUMBCONV_MMA_TILE = 16,                     /* columns of a tile */
    GLUMBCONV_MMA_STEP = 8,                      /* rows */
    GLUMBCONV_MMA_ROWS = GLUMBCONV_MMA_STEP + 2, /* of a ring */
    GLUMBCONV_MMA_SLOTS = 10,                    /* of 16 bytes, for each of 5 x 4 times as many weights */
    GLUMBCONV_MMA_WEIGHTS = 5 * 4 * GLUMBCONV_MMA_SLOTS * 4, /* words */
    GLUMBCONV_MMA_KEPT = GLUMBCONV_MMA_WEIGHTS + 2 * GLUMBCONV_SLICE * (1 + GLUMBCONV_SUMS) /* biases; sums */
};

/* Pixels from a row to the next: a zero on each side, and an even number. */
TILE_FN int glumbconv_pitch(int width)
{
    return (width + 3) & ~1;
}

/* Bytes of shared memory; `number`: bytes of a number of s. */
TILE_FN size_t glumbconv_bytes(int channels, int width, int steps, size_t number)
{
    return (size_t)channels * ((size_t)steps * GLUMBCONV_STEP * 2 * (size_t)glumbconv_pitch(width) * number +
                               GLUMBCONV_KEPT * sizeof(float));
}

/* The same on tensor cores: whole tiles between the zeros; one ring forward, two back, of a slice of bf16. */
TILE_FN int glumbconv_mma_pitch(int width)
{
    return (width + GLUMBCONV_MMA_TILE - 1) / GLUMBCONV_MMA_TILE * GLUMBCONV_MMA_TILE + 2;
}

TILE_FN size_t glumbconv_mma_bytes(int width, int rings)
{
    return (size_t)rings * GLUMBCONV_MMA_ROWS * 2 * (size_t)glumbconv_mma_pitch(width) * GLUMBCONV_SLICE * 2 +
           GLUMBCONV_MMA_KEPT * sizeof(float);
}

/* The channels of a slice that fits into `room` bytes, a power of two; 0: none does. */
TILE_FN int glumbconv_slice(int width, int steps, size_t number, size_t room)
{
    int channels = GLUMBCONV_SLICE;
    while (channels >= GLUMBCONV_LEAST && glumbconv_bytes(channels, width, steps, number) > room)
        channels /= 2;
    return channels < GLUMBCONV_LEAST ? 0 : channels;
}

#endif
