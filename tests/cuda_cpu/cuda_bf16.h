/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_bf16.h - a stand-in: the upper half of a float, rounded to nearest, ties to even */
#ifndef CUDA_CPU_BF16_H
#define CUDA_CPU_BF16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    const uint32_t u = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    if (isnan(f))
        return {0x7fff};
    u += 0x7fff + (u >> 16 & 1);
    return {(uint16_t)(u >> 16)};
}

#endif
