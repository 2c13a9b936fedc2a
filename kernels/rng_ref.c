/* SPDX-License-Identifier: Apache-2.0 */
/* rng_ref.c - Philox, uniform and normal numbers; see rng.h
 *
 * Philox: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
 * Normals: Box-Muller, z = sqrt(-2 ln u) cos(2 pi v), one z per pair so that
 * number i is independent of its neighbours.  ln and cos are polynomials in double, accurate to
 * about 1e-15: far more than a float holds.
 */
#include "kernels/rng.h"

#include <string.h>

#include "kernels/thread_pool.h"

struct rng rng_make(uint64_t seed, uint32_t epoch, uint64_t id, enum rng_purpose purpose)
{
    return (struct rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(epoch & 0xFFFFFF) | (uint32_t)purpose << 24, (uint32_t)id,
                    (uint32_t)(id >> 32)},
    };
}

/* Four words of block `block`. */
static void philox(const struct rng *r, uint32_t block, uint32_t out[4])
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

void rng_bits(const struct rng *r, uint32_t *out, uint64_t first, size_t n)
{
    uint32_t word[4];
    while (n > 0) {
        size_t skip = (size_t)(first & 3), take = 4 - skip < n ? 4 - skip : n;
        philox(r, (uint32_t)(first >> 2), word);
        memcpy(out, word + skip, take * sizeof(*out));
        out += take;
        first += take;
        n -= take;
    }
}

void rng_uniform(const struct rng *r, float *out, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        rng_bits(r, &bits, first + i, 1);
        out[i] = (float)(bits >> 8) * 0x1p-24f;
    }
}

/* ln x for 0 < x <= 1: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then
 * ln m = 2 atanh(s), s = (m - 1)/(m + 1), |s| < 0.1716. */
static double log_unit(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int64_t e = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000);
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        e += 1;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 21;
    for (int k = 19; k >= 1; k -= 2)
        p = p * z + 1.0 / k;
    return (double)e * 0x1.62e42fefa39efp-1 + 2.0 * s * p;
}

/* cos(2 pi v), v in [0, 1): fold to |a| <= pi/4 and take the cosine or sine series. */
static double cos_turn(double v)
{
    double q = v * 4.0;
    int quadrant = (int)(q + 0.5);             /* nearest multiple of a quarter turn */
    double a = (q - (double)quadrant) * 0x1.921fb54442d18p0, z = a * a;
    double c = 1.0, s = 1.0;
    for (int k = 16; k >= 2; k -= 2)
        c = 1.0 - c * z / (double)(k * (k - 1));
    for (int k = 17; k >= 3; k -= 2)
        s = 1.0 - s * z / (double)(k * (k - 1));
    s *= a;
    switch (quadrant & 3) {
    case 0:
        return c;
    case 1:
        return -s;
    case 2:
        return -c;
    default:
        return s;
    }
}


double rng_normal_at(const struct rng *r, uint64_t i)
{
    uint32_t bits[2];
    rng_bits(r, bits, 2 * i, 2);
    double u = ((double)bits[0] + 1.0) * 0x1p-32, v = (double)bits[1] * 0x1p-32;
    return __builtin_sqrt(-2.0 * log_unit(u)) * cos_turn(v);
}

struct normal_args {
    const struct rng *r;
    float            *out;
    uint64_t          first;
};

static void normal_range(const void *arg, size_t from, size_t to)
{
    const struct normal_args *a = arg;
    for (size_t i = from; i < to; i++)
        a->out[i] = (float)rng_normal_at(a->r, a->first + i);
}

void rng_normal(const struct rng *r, float *out, uint64_t first, size_t n)
{
    const struct normal_args a = {r, out, first};
    thread_pool_range(n, 16, 32, normal_range, &a);
}

double rng_uniform_at(const struct rng *r, uint64_t i)
{
    uint32_t bits[2];
    rng_bits(r, bits, 2 * i, 2);
    return ((double)(bits[0] >> 5) * 0x1p26 + (double)(bits[1] >> 6)) * 0x1p-53;
}

uint64_t rng_below(const struct rng *r, uint64_t i, uint64_t bound)
{
    uint32_t bits[2];
    rng_bits(r, bits, 2 * i, 2);
    uint64_t x = (uint64_t)bits[0] << 32 | bits[1];
    return (uint64_t)((unsigned __int128)x * bound >> 64);
}
