/* SPDX-License-Identifier: Apache-2.0 */
/* rng_formula.h - Philox and Box-Muller, once for CPU and GPU: the same bits
 *
 * Philox: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
 * Normals: Box-Muller, z = sqrt(-2 ln u) cos(2 pi v), one z per pair so that
 * number i is independent of its neighbours.  ln and cos are polynomials in double, accurate to
 * about 1e-15: far more than a float holds.
 *
 * Each operation is rounded separately, as IEEE 754 requires. nvcc would fuse a product and a sum into one fma, so
 * these are functions; it never does that to a division, which is correctly rounded in double whatever its options.
 */
#ifndef KERNELS_RNG_FORMULA_H
#define KERNELS_RNG_FORMULA_H

#include <stdint.h>
#include <string.h>

#include "kernels/rng.h"

#if defined(__CUDACC__) || defined(CUDA_ON_CPU)
#define RNG_FN __device__ static inline
#define RNG_TIMES(a, b) __dmul_rn(a, b)
#define RNG_PLUS(a, b)  __dadd_rn(a, b)
#define RNG_MINUS(a, b) __dsub_rn(a, b)
#define RNG_ROOT(a)     __dsqrt_rn(a)
#else
#define RNG_FN static inline __attribute__((unused))
#define RNG_TIMES(a, b) ((a) * (b))
#define RNG_PLUS(a, b)  ((a) + (b))
#define RNG_MINUS(a, b) ((a) - (b))
#define RNG_ROOT(a)     __builtin_sqrt(a)
#endif

/* Four words of block `block`. */
RNG_FN void rng_philox(const struct rng *r, uint32_t block, uint32_t out[4])
{
    uint32_t c0 = block, c1 = r->counter[0], c2 = r->counter[1], c3 = r->counter[2];
    uint32_t k0 = r->key[0], k1 = r->key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)b;
        c2 = n2;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* ln x for 0 < x <= 1: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then
 * ln m = 2 atanh(s), s = (m - 1)/(m + 1), |s| < 0.1716. */
RNG_FN double rng_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000);
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m > 0x1.6a09e667f3bcdp0) {
        m = RNG_TIMES(m, 0.5);
        e += 1;
    }
    const double s = RNG_MINUS(m, 1.0) / RNG_PLUS(m, 1.0), z = RNG_TIMES(s, s);
    double p = 1.0 / 21;
    for (int k = 19; k >= 1; k -= 2)
        p = RNG_PLUS(RNG_TIMES(p, z), 1.0 / k);
    return RNG_PLUS(RNG_TIMES((double)e, 0x1.62e42fefa39efp-1), RNG_TIMES(RNG_TIMES(2.0, s), p));
}

/* cos(2 pi v), v in [0, 1): fold to |a| <= pi/4 and take the cosine or, in odd quadrants, the sine series. */
RNG_FN double rng_cos(double v)
{
    const double q = RNG_TIMES(v, 4.0);
    const int quadrant = (int)RNG_PLUS(q, 0.5); /* nearest multiple of a quarter turn */
    const int odd = quadrant & 1;
    const double a = RNG_TIMES(RNG_MINUS(q, (double)quadrant), 0x1.921fb54442d18p0), z = RNG_TIMES(a, a);
    double y = 1.0;
    for (int k = 16; k >= 2; k -= 2)
        y = RNG_MINUS(1.0, RNG_TIMES(y, z) / (odd ? (double)((k + 1) * k) : (double)(k * (k - 1))));
    if (odd)
        y = RNG_TIMES(y, a);
    return (quadrant + 1) & 2 ? -y : y;
}

/* A standard normal number from two words of a stream. */
RNG_FN double rng_box_muller(uint32_t first, uint32_t second)
{
    const double u = RNG_TIMES(RNG_PLUS((double)first, 1.0), 0x1p-32), v = RNG_TIMES((double)second, 0x1p-32);
    return RNG_TIMES(RNG_ROOT(RNG_TIMES(-2.0, rng_log(u))), rng_cos(v));
}

#endif
