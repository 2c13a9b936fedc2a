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
    float               *weights, *grads;
    bool                 borrowed; /* the weights are in the caller's memory */
    /* the base: one of both */
    uint16_t            *half;     /* bf16 */
    float               *wide;
    bool                 shared;   /* it is another model's */
    size_t               floats;
    /* kernel arrays */
    float               *unit;     /* weights of the current unit, merged */
    float               *scaled;   /* [out, r] */
    float               *dy;       /* [rows, out]: some columns of a layer's gradient */
    float               *u, *v;    /* [rows, r] */
    /* the current unit: its first number in the arrays is `now_from` of the layout */
    int                  block;    /* or -1: one without adapters */
    const float         *now;
    float               *now_grads;
    size_t               now_from;
};

/* Weights of A and B, and their gradients, of an adapter of the current unit. */
const float *lora_now(const struct lora *l, int tensor);
float *lora_now_grads(const struct lora *l, int tensor);

#endif
