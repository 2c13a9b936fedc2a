/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.h - rounds a float to bf16 on the host, bit for bit as a GPU does */
#ifndef KERNELS_BF16_H
#define KERNELS_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* To the nearest, ties to even; every NaN becomes 0x7fff (PTX ISA, "cvt": the canonical NaN of bf16). */
static inline uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

static inline void bf16_round(uint16_t *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = bf16_of(from[i]);
}

#endif
