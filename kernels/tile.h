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

/* The part of an image that a block holds in shared memory: `rows` rows of results (the whole image
 * if it fits), and a slice of each half of the channels. rows == 0: not even one row fits. */
struct glumbconv_tile {
    int channels, rows;
};

/* Bytes of one tile: rows * planes + halo rows of both slices. */
TILE_FN size_t glumbconv_bytes(struct glumbconv_tile z, int width, int planes, int halo,
                               size_t number)
{
    return ((size_t)z.rows * (size_t)planes + (size_t)halo) * (size_t)width * 2 *
           (size_t)z.channels * number;
}

/* The widest slice of at most `channels` (a power of two, halved down to 4) that leaves room for
 * the image or for eight of its rows. */
TILE_FN struct glumbconv_tile glumbconv_tile(int height, int width, int channels, int planes,
                                             int halo,
                                             size_t number, size_t room)
{
    struct glumbconv_tile z = {channels, 0};
    for (;; z.channels /= 2) {
        const size_t row = (size_t)width * 2 * (size_t)z.channels * number;
        const size_t have = room / row;
        const size_t most = have > (size_t)halo ? (have - (size_t)halo) / (size_t)planes : 0;
        z.rows = most < (size_t)height ? (int)most : height;
        if (z.rows == height || z.rows >= 8 || z.channels <= 4)
            break;
    }
    if (z.rows > 0) { /* bands of nearly equal height */
        const int bands = (height + z.rows - 1) / z.rows;
        z.rows = (height + bands - 1) / bands;
    }
    return z;
}

/* glumbconv_back(): planes of s and of the gradient of d, with halos of four and two rows; beside
 * them ten sums per channel and warp. */
enum { MIX_BACK_SLICE = 16, MIX_BACK_HALO = 6, MIX_WARPS = 16, GLUMBCONV_SUMS = 10 };
#define GLUMBCONV_SCRATCH (sizeof(float) * MIX_WARPS * GLUMBCONV_SUMS * MIX_BACK_SLICE)

TILE_FN struct glumbconv_tile glumbconv_back_tile(int height, int width, size_t number, size_t room)
{
    return glumbconv_tile(height, width, MIX_BACK_SLICE, 2, MIX_BACK_HALO, number,
                          room - GLUMBCONV_SCRATCH);
}

/* Shared memory that every GPU from sm_75 on grants a block. */
#define TILE_SMEM ((size_t)64 << 10)

#endif
