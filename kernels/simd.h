/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h - vectors of sixteen floats, and the math functions of -lm on them
 *
 * The compiler turns a v16 into one AVX-512 register, two of AVX2 or four of
 * SSE.  The lanes are fixed, so sums have one order for every register size.
 *
 * Accuracy, against double, over the range where the result is normal (measured
 * by tests/unit/kernels/test_pointwise.c): simd_exp 1 ulp, simd_sigmoid 2.2 ulp, simd_tanh 3 ulp.
 */
#ifndef KERNELS_SIMD_H
#define KERNELS_SIMD_H

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* All functions are inlined: no v16 crosses a call, whatever its ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum { LANES = 16 };

typedef float v16 __attribute__((vector_size(64)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef float v16_any __attribute__((vector_size(64), aligned(4), may_alias));

#define SIMD_FN static inline __attribute__((always_inline, unused))

/* One register of the instruction set. gcc cuts sums and products of a v16 into registers, but comparisons and
 * conversions into single numbers (20 times as slow), so these are written for a register and mapped. */
#if defined(__AVX512F__)
typedef v16 simd_reg;
typedef v16i simd_ireg;
#elif defined(__AVX2__)
typedef v8 simd_reg;
typedef v8i simd_ireg;
#else
typedef v4 simd_reg;
typedef v4i simd_ireg;
#endif

enum { SIMD_WIDTH = sizeof(simd_reg) / sizeof(float), SIMD_REGS = LANES / SIMD_WIDTH };

SIMD_FN simd_reg simd_part(v16 x, int i)
{
    simd_reg part;
    memcpy(&part, (const char *)&x + (size_t)i * sizeof(part), sizeof(part));
    return part;
}

/* y = fn of each register of one v16, or of several */
#define SIMD_MAP(y, fn, ...)                                                       \
    do {                                                                           \
        simd_reg parts_[SIMD_REGS];                                                \
        for (int i_ = 0; i_ < SIMD_REGS; i_++)                                     \
            parts_[i_] = fn(__VA_ARGS__);                                          \
        memcpy(&(y), parts_, sizeof(y));                                           \
    } while (0)

SIMD_FN v16 simd_load(const float *p)
{
    return *(const v16_any *)p;
}

SIMD_FN void simd_store(float *p, v16 x)
{
    *(v16_any *)p = x;
}

/* The first n < LANES floats; a load zeroes the other lanes, a store leaves their memory alone. */
#if defined(__AVX512F__)
SIMD_FN v16 simd_load_n(const float *p, size_t n)
{
    return (v16)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

SIMD_FN void simd_store_n(float *p, v16 x, size_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
}
#elif defined(__AVX2__)
/* By masks, not by memcpy(): faster, and gcc 11 and older miscompile a vector whose memory was
 * written by a memcpy() of n bytes. */
SIMD_FN __m256i simd_mask(size_t n, int from)
{
    const __m256i at = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), at);
}

SIMD_FN v16 simd_load_n(const float *p, size_t n)
{
    const __m256 half[2] = {_mm256_maskload_ps(p, simd_mask(n, 0)),
                            _mm256_maskload_ps(p + 8, simd_mask(n, 8))};
    v16 x;
    memcpy(&x, half, sizeof(x));
    return x;
}

SIMD_FN void simd_store_n(float *p, v16 x, size_t n)
{
    __m256 half[2];
    memcpy(half, &x, sizeof(half));
    _mm256_maskstore_ps(p, simd_mask(n, 0), half[0]);
    _mm256_maskstore_ps(p + 8, simd_mask(n, 8), half[1]);
}
#else
SIMD_FN v16 simd_load_n(const float *p, size_t n)
{
    v16 x = {0};
    memcpy(&x, p, n * sizeof(float));
    return x;
}

SIMD_FN void simd_store_n(float *p, v16 x, size_t n)
{
    memcpy(p, &x, n * sizeof(float));
}
#endif

SIMD_FN v16 simd_all(float f)
{
    return (v16){0} + f;
}

/* Halves are folded, so the order of the sum is the same for every register size. */
SIMD_FN float simd_sum(v16 x)
{
#if __has_builtin(__builtin_shufflevector) /* gcc 12, clang */
    v8 a = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    v4 b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#else
    v8 half[2];
    v4 quarter[2];
    memcpy(half, &x, sizeof(half));
    v8 a = half[0] + half[1];
    memcpy(quarter, &a, sizeof(quarter));
    v4 b = quarter[0] + quarter[1];
#endif
    return (b[0] + b[2]) + (b[1] + b[3]);
}

/* --- the lanes of a v16 as registers: gcc keeps a v16 that lives through a loop in memory, and not these ---- */

/* Register i of the sixteen columns from c on: beyond column `cols` zeros are read and nothing is written. */
#define SIMD_AT(c, i) ((c) + (i) * SIMD_WIDTH)

SIMD_FN simd_reg simd_reg_load(const float *p, int at, int cols)
{
    simd_reg x = {0};
    if (cols - at >= SIMD_WIDTH)
        memcpy(&x, p + at, sizeof(x));
    else if (cols > at)
#if defined(__AVX512F__)
        x = (simd_reg)simd_load_n(p + at, (size_t)(cols - at));
#elif defined(__AVX2__)
        x = (simd_reg)_mm256_maskload_ps(p + at, simd_mask((size_t)(cols - at), 0));
#else
        memcpy(&x, p + at, (size_t)(cols - at) * sizeof(*p));
#endif
    return x;
}

SIMD_FN void simd_reg_store(float *p, int at, int cols, simd_reg x)
{
    if (cols - at >= SIMD_WIDTH)
        memcpy(p + at, &x, sizeof(x));
    else if (cols > at)
        memcpy(p + at, &x, (size_t)(cols - at) * sizeof(*p));
}

/* For each register of a v16; unrolled, so that arrays of registers are in registers. */
#define SIMD_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < SIMD_REGS; i++)

/* Like simd_sum(), in the same order. */
SIMD_FN float simd_reg_sum(const simd_reg part[SIMD_REGS])
{
#if defined(__AVX512F__)
    return simd_sum(part[0]);
#else
    v4 quarter[2];
    simd_reg half = part[0] + part[SIMD_REGS / 2];
    memcpy(quarter, &half, sizeof(half));
    if (SIMD_REGS == 4) {
        half = part[1] + part[3];
        memcpy(&quarter[1], &half, sizeof(v4));
    }
    const v4 b = quarter[0] + quarter[1];
    return (b[0] + b[2]) + (b[1] + b[3]);
#endif
}

SIMD_FN simd_reg simd_reg_pick(simd_ireg take, simd_reg yes, simd_reg no)
{
    return (simd_reg)((take & (simd_ireg)yes) | (~take & (simd_ireg)no));
}

SIMD_FN simd_reg simd_reg_max(simd_reg a, simd_reg limit)
{
    return simd_reg_pick(a < limit, limit, a);
}

SIMD_FN simd_reg simd_reg_min(simd_reg a, simd_reg limit)
{
    return simd_reg_pick(a > limit, limit, a);
}

SIMD_FN simd_reg simd_reg_above(simd_reg x, simd_reg limit, simd_reg yes, simd_reg no)
{
    return simd_reg_pick(x > limit, yes, no);
}

/* The first n lanes of x, and `rest` in the others; n may be more than there are, or less than 0. */
SIMD_FN simd_reg simd_reg_first_or(int n, simd_reg x, simd_reg rest)
{
    simd_ireg at;
    const int32_t lanes[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    memcpy(&at, lanes, sizeof(at));
    return simd_reg_pick(at < n, x, rest);
}

SIMD_FN simd_reg simd_reg_first(int n, simd_reg x)
{
    return simd_reg_first_or(n, x, (simd_reg){0});
}

SIMD_FN float simd_reg_top(simd_reg x)
{
    float top = x[0];
    for (int i = 1; i < SIMD_WIDTH; i++)
        top = top < x[i] ? x[i] : top;
    return top;
}

/* A NaN stays NaN. */
SIMD_FN v16 simd_max(v16 a, v16 limit)
{
    v16 y;
    SIMD_MAP(y, simd_reg_max, simd_part(a, i_), simd_part(limit, i_));
    return y;
}

/* x > limit ? yes : no, lane by lane */
SIMD_FN v16 simd_above(v16 x, v16 limit, v16 yes, v16 no)
{
    v16 y;
    SIMD_MAP(y, simd_reg_above, simd_part(x, i_), simd_part(limit, i_), simd_part(yes, i_), simd_part(no, i_));
    return y;
}

/* The first n lanes of x, and `rest` in the others. */
SIMD_FN v16 simd_first(int n, v16 x, v16 rest)
{
    const v16 at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return n >= LANES ? x : simd_above(simd_all((float)n), at, x, rest);
}

SIMD_FN float simd_top(v16 x)
{
    float a[LANES];
    memcpy(a, &x, sizeof(a));
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] = a[i] < a[i + half] ? a[i + half] : a[i];
    return a[0];
}

/* Columns from c on of a row of `cols`: all lanes, or the remaining columns (other lanes zero). */
SIMD_FN v16 simd_load_at(const float *p, int c, int cols)
{
    return cols - c >= LANES ? simd_load(p + c) : simd_load_n(p + c, (size_t)(cols - c));
}

SIMD_FN void simd_store_at(float *p, int c, int cols, v16 x)
{
    if (cols - c >= LANES)
        simd_store(p + c, x);
    else
        simd_store_n(p + c, x, (size_t)(cols - c));
}

/* x[n] *= by */
SIMD_FN void simd_scale(float *x, float by, int n)
{
    for (int i = 0; i < n; i += LANES)
        simd_store_at(x, i, n, simd_load_at(x, i, n) * by);
}

/* e^x: x = n ln2 + r with |r| <= ln2/2, a polynomial in r, and n into the exponent.
 * Below -87.33 the result, no longer a normal float, is 0; above 88.37 it stays
 * at e^88.37. */
SIMD_FN simd_reg simd_reg_exp(simd_reg x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer */
    const simd_reg zero = {0}, lowest = zero - 87.33f, highest = zero + 88.37f;
    const simd_ireg under = x < lowest;
    x = simd_reg_min(simd_reg_max(x, lowest), highest);
    simd_reg n = x * 1.44269504f + magic;
    n = n - magic;
    simd_reg r = x - n * 0x1.62ep-1f;    /* upper bits of ln2: exact times n */
    r = r - n * 0x1.0bfbe8p-15f;         /* remaining bits of ln2 */
    simd_reg p = zero + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const simd_ireg e = __builtin_convertvector(n, simd_ireg);
    p = (simd_reg)((simd_ireg)p + (e << 23));
    return (simd_reg)(~under & (simd_ireg)p);
}

SIMD_FN simd_reg simd_reg_sigmoid(simd_reg x)
{
    return 1.0f / (1.0f + simd_reg_exp(-x));
}

/* Near 0 a polynomial, x + x^3 p(x^2), keeps the relative accuracy: gates start at 0. */
SIMD_FN simd_reg simd_reg_tanh(simd_reg x)
{
    const simd_reg z = x * x, zero = {0};
    simd_reg p = zero - 6.269119716e-3f;
    p = p * z + 2.111095905e-2f;
    p = p * z - 5.387394885e-2f;
    p = p * z + 1.333291537e-1f;
    p = p * z - 3.333333033e-1f;
    return simd_reg_pick(z < zero + 0.36f, x + x * z * p, 1.0f - 2.0f / (simd_reg_exp(2.0f * x) + 1.0f));
}

SIMD_FN v16 simd_exp(v16 x)
{
    v16 y;
    SIMD_MAP(y, simd_reg_exp, simd_part(x, i_));
    return y;
}

SIMD_FN v16 simd_sigmoid(v16 x)
{
    v16 y;
    SIMD_MAP(y, simd_reg_sigmoid, simd_part(x, i_));
    return y;
}

SIMD_FN v16 simd_tanh(v16 x)
{
    v16 y;
    SIMD_MAP(y, simd_reg_tanh, simd_part(x, i_));
    return y;
}

#endif
