/* SPDX-License-Identifier: Apache-2.0 */
/* lora_base.c - the frozen weights, as bf16 or fp32; see lora.h */
#include "engine/model/lora_internal.h"
#include "engine/model/model_internal.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"

enum { PIECE = 16384 };

static void put_half(struct lora *l, size_t from, size_t n, const float *numbers)
{
    uint16_t half[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        bf16_round(half, numbers + at, some);
        l->ops->upload(l->half + from + at, half, some * sizeof(*half));
    }
}

void lora_base_put(struct lora *l, size_t from, size_t n, const float *numbers)
{
    if (l->wide)
        l->ops->upload(l->wide + from, numbers, n * sizeof(*numbers));
    else
        put_half(l, from, n, numbers);
}

void lora_base_get(const struct lora *l, size_t from, size_t n, float *numbers)
{
    uint16_t half[PIECE];
    if (l->wide) {
        l->ops->download(numbers, l->wide + from, n * sizeof(*numbers));
        return;
    }
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        l->ops->download(half, l->half + from + at, some * sizeof(*half));
        kern_cpu()->widen_bf16(numbers + at, half, some);
    }
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
