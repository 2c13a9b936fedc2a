/* SPDX-License-Identifier: Apache-2.0 */
/* python_random.c - see python_random.h */
#include "tests/verify/python_random.h"

enum { WORDS = 624, MIDDLE = 397 };

static void fill(uint32_t mt[WORDS], uint32_t seed)
{
    mt[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
}

/* init_by_array() of the authors' program, for one word. */
static void seed_by_word(uint32_t mt[WORDS], uint32_t word)
{
    uint32_t i = 1;
    fill(mt, 19650218u);
    for (int k = 0; k < WORDS; k++) {
        mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1664525u)) + word;
        if (++i == WORDS) {
            mt[0] = mt[WORDS - 1];
            i = 1;
        }
    }
    for (int k = 0; k < WORDS - 1; k++) {
        mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == WORDS) {
            mt[0] = mt[WORDS - 1];
            i = 1;
        }
    }
    mt[0] = 0x80000000u;
}

/* Output `i` of the first round, which needs words that are not replaced yet. */
static uint32_t output(const uint32_t mt[WORDS], int i)
{
    const uint32_t y = (mt[i] & 0x80000000u) | (mt[i + 1] & 0x7fffffffu);
    uint32_t x = mt[i + MIDDLE] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    return x ^ (x >> 18);
}

double python_random_first(uint32_t seed)
{
    uint32_t mt[WORDS];
    seed_by_word(mt, seed);
    const uint32_t a = output(mt, 0) >> 5, b = output(mt, 1) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}
