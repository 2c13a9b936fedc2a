/* SPDX-License-Identifier: Apache-2.0 */
/* rng_ref.c - uniform and normal numbers; see rng.h, and rng_formula.h for the formulas */
#include "kernels/rng.h"

#include <string.h>

#include "kernels/rng_formula.h"
#include "kernels/thread_pool.h"

struct rng rng_make(uint64_t seed, uint32_t epoch, uint64_t id, enum rng_purpose purpose)
{
    return (struct rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(epoch & 0xFFFFFF) | (uint32_t)purpose << 24, (uint32_t)id,
                    (uint32_t)(id >> 32)},
    };
}

void rng_bits(const struct rng *r, uint32_t *out, uint64_t first, size_t n)
{
    uint32_t word[4];
    while (n > 0) {
        size_t skip = (size_t)(first & 3), take = 4 - skip < n ? 4 - skip : n;
        rng_philox(r, (uint32_t)(first >> 2), word);
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

double rng_normal_at(const struct rng *r, uint64_t i)
{
    uint32_t bits[2];
    rng_bits(r, bits, 2 * i, 2);
    return rng_box_muller(bits[0], bits[1]);
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

void rng_normals(float *out, const struct rng *stream, uint64_t first, int batch, size_t n)
{
    for (int b = 0; b < batch; b++)
        rng_normal(&stream[b], out + (size_t)b * n, first, n);
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
