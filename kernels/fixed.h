/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.h - numbers as fixed-point integers: sums independent of order, equal on CPU and GPU
 *
 * Rounding is done in double: x + 1.5 2^52 has the nearest integer to x in its low bits (ties to
 * even) as long as |x| is below 2^51; a larger value shows in the maximum (fixed_size()), and
 * the caller discards the sum.  A scale is a power of two, so that x * scale is exact and a fused
 * multiply-add gives the same bits as two operations.
 */
#ifndef KERNELS_FIXED_H
#define KERNELS_FIXED_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define FIXED_FN __host__ __device__ static inline
#else
#define FIXED_FN static inline __attribute__((unused))
#endif

enum { FIXED_GROUP = 16 }; /* squares are added in double in groups of this size, never split */

/* Unsigned inside: overflow wraps around. */
FIXED_FN int64_t fixed_of(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 2^52 */
    const double shifted = x + magic;
    uint64_t bits, zero;
    memcpy(&bits, &shifted, sizeof(bits));
    memcpy(&zero, &magic, sizeof(zero));
    return (int64_t)(bits - zero);
}

FIXED_FN int64_t fixed_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

FIXED_FN float fixed_back(int64_t sum, double unit)
{
    return (float)((double)sum * unit);
}

/* The bits of |x|: as integers they have the order of the floats, NaN last. */
FIXED_FN uint32_t fixed_size(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7FFFFFFFu;
}

#endif
