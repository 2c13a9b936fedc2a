/* SPDX-License-Identifier: Apache-2.0 */
/* rng_ref.c - uniform and normal numbers; see rng.h, and rng_formula.h for the formulas */
#include "kernels/rng.h"

#include <string.h>

#include "kernels/rng_formula.h"
#include "kernels/thread_pool.h"

enum { WORDS = 64 }; /* drawn at a time: whole blocks, several in one vector */

struct rng rng_make(uint64_t seed, uint32_t epoch, uint64_t id, enum rng_purpose purpose)
{
    return (struct rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(epoch & 0xFFFFFF) | (uint32_t)purpose << 24, (uint32_t)id,
                    (uint32_t)(id >> 32)},
    };
}

/* Up to WORDS / 4 blocks. */
static void draw_blocks(const struct rng *r, uint64_t block, size_t blocks, uint32_t word[WORDS])
{
    for (size_t i = 0; i < blocks; i++)
        rng_philox(r, (uint32_t)(block + i), word + 4 * i);
}

void rng_bits(const struct rng *r, uint32_t *out, uint64_t first, size_t n)
{
    uint32_t word[WORDS];
    for (size_t skip = (size_t)(first & 3), take; n > 0; skip = 0) {
        take = WORDS - skip < n ? WORDS - skip : n;
        draw_blocks(r, first >> 2, (skip + take + 3) / 4, word);
        memcpy(out, word + skip, take * sizeof(*out));
        out += take;
        first += take;
        n -= take;
    }
}

struct draw_args {
    const struct rng *r;
    float            *out;
    uint64_t          first;
};

static void uniform_range(const void *arg, size_t from, size_t to)
{
    const struct draw_args *a = arg;
    uint32_t word[WORDS];
    for (size_t take; from < to; from += take) {
        const uint64_t first = a->first + from;
        const size_t skip = (size_t)(first & 3);
        take = WORDS - skip < to - from ? WORDS - skip : to - from;
        draw_blocks(a->r, first >> 2, (skip + take + 3) / 4, word);
        for (size_t i = 0; i < take; i++)
            a->out[from + i] = (float)(int32_t)(word[skip + i] >> 8) * 0x1p-24f;
    }
}

void rng_uniform(const struct rng *r, float *out, uint64_t first, size_t n)
{
    const struct draw_args a = {r, out, first};
    thread_pool_range(n, WORDS, 4, uniform_range, &a);
}

double rng_normal_at(const struct rng *r, uint64_t i)
{
    uint32_t bits[2];
    rng_bits(r, bits, 2 * i, 2);
    return rng_box_muller(bits[0], bits[1]);
}

static void normal_range(const void *arg, size_t from, size_t to)
{
    const struct draw_args *a = arg;
    uint32_t word[WORDS];
    for (size_t take; from < to; from += take) {
        take = WORDS / 2 < to - from ? WORDS / 2 : to - from;
        rng_bits(a->r, word, 2 * (a->first + from), 2 * take);
        for (size_t i = 0; i < take; i++)
            a->out[from + i] = (float)rng_box_muller(word[2 * i], word[2 * i + 1]);
    }
}

void rng_normal(const struct rng *r, float *out, uint64_t first, size_t n)
{
    const struct draw_args a = {r, out, first};
    thread_pool_range(n, WORDS, 32, normal_range, &a);
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
