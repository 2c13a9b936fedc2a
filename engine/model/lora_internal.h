/* SPDX-License-Identifier: Apache-2.0 */
/* lora_internal.h - struct lora, for lora*.c only */
#ifndef ENGINE_MODEL_LORA_INTERNAL_H
#define ENGINE_MODEL_LORA_INTERNAL_H

#include "engine/model/lora.h"

struct kern_ops;

struct lora {
    const struct kern_ops *ops;
    struct layout       *layout;
    struct lora_adapter *adapter;  /* by block */
    int                  len, blocks;
    int                 *first;    /* [blocks + 1]: the adapters of each block */
    int                 *own;      /* [blocks]: the block's unit of `layout`, or -1 */
    bool                 merges;   /* passes use merged weights; see lora.h */
    float               *weights, *grads;
    void                *narrow;   /* the weights, narrow; they themselves where that is fp32 */
    bool                 borrowed; /* the weights are in the caller's memory */
    /* the base: one of both */
    uint16_t            *half;     /* bf16 */
    float               *wide;
    bool                 shared;   /* it is another model's */
    size_t               floats;
    float               *scaled;   /* [out, r], in host memory */
    /* kernel arrays; of narrow numbers those without a type */
    float               *unit;     /* weights of the current unit, merged if passes use merged ones */
    void                *unit_narrow; /* where `unit` is not what products take, and no bf16 base either */
    void                *dy;       /* [rows, out]: some columns of a layer's gradient */
    void                *u, *v;    /* [rows, r] */
    /* the current unit: its first number in the arrays is `now_from` of the layout */
    int                  block;    /* or -1: one without adapters */
    const float         *now;
    const void          *now_narrow;
    float               *now_grads;
    size_t               now_from;
};

#endif
