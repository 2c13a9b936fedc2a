/* SPDX-License-Identifier: Apache-2.0 */
/* lora_base.c - the frozen weights, as bf16 or fp32; see lora.h */
#include <math.h>
#include <string.h>

#include "engine/model/lora_internal.h"
#include "engine/model/model_internal.h"
#include "kernels/thread_pool.h"

/* To the nearest, ties to even; NaN stays one. */
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

void lora_base_put(struct lora *l, size_t from, size_t n, const float *numbers)
{
    if (l->wide)
        memcpy(l->wide + from, numbers, n * sizeof(*numbers));
    for (size_t i = 0; l->half && i < n; i++)
        l->half[from + i] = half_of(numbers[i]);
}

struct widening {
    const uint16_t *from;
    float          *to;
};

static void widen(const void *arg, size_t from, size_t to)
{
    const struct widening *w = arg;
    for (size_t i = from; i < to; i++)
        w->to[i] = float_of(w->from[i]);
}

void lora_base_get(const struct lora *l, size_t from, size_t n, float *numbers)
{
    if (l->wide) {
        l->ops->copy(numbers, l->wide + from, n);
        return;
    }
    const struct widening w = {l->half + from, numbers};
    thread_pool_range(n, 64, 2, widen, &w);
}

void lora_base_share(struct lora *l, const struct lora *with)
{
    if (!l->shared) {
        l->ops->release(l->half);
        l->ops->release(l->wide);
    }
    l->shared = true;
    l->half = with->half;
    l->wide = with->wide;
}
