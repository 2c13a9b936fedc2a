/* SPDX-License-Identifier: Apache-2.0 */
/* lora.h - low-rank adapters of a SanaMS whose weights are frozen
 *
 * A layer with an adapter computes (W + s B A) x, where A [r, in] and B [out, r] are trained, W [out, in] is not, and
 * s = alpha / r (Hu et al. 2021; peft's tuners/lora/layer.py).  The authors' joint matrices have several adapters,
 * each on its rows: attn.qkv three, cross_attn.kv_linear two.
 *
 * To its users, a model with adapters consists only of adapters: model_layout() lists them under diffusers' names, a
 * unit per block, and weights, gradients, optimizer, checkpoints and exchanges use that layout. The frozen weights, the
 * "base", are kept separately as bf16 or fp32, without gradients.
 *
 * On the CPU, passes use merged weights: before a unit of the model is used, its base is written as fp32 to one buffer,
 * to which s B A is added.  That costs r products per weight, where the layer itself costs one per token; no activation
 * is needed twice, and a sum of bf16 and a small product is not rounded.  Gradients need no dW: with u = s x A^T and
 * v = s dy B, per micro-batch,
 *
 *     dB += dy^T u       dA += v^T x       dx is that of the merged layer.
 *
 * On a GPU, whose products take bf16, a merged weight would lose every change smaller than 1/256 of it. There, a layer
 * adds u B^T to the product with the frozen weight, and v A to its dx; a bf16 base is used in place.
 */
#ifndef ENGINE_MODEL_LORA_H
#define ENGINE_MODEL_LORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/contract/train_config.h"
#include "engine/model/model_weight.h"

struct err;
struct layout;
struct lora;
struct model;

/* One adapter. */
struct lora_adapter {
    int              block;
    enum lora_module module;
    int              tensor;       /* index in the base's layout */
    weight_at        weight;       /* its offset */
    int              row, out, in; /* rows [row, row + out) of that tensor; its columns */
    int              rank;
    double           alpha, scale;
    bool             is_conv;      /* A and B are 1x1 convolutions */
    int              a, b;         /* indexes in the adapters' layout */
};

/* The layout of a model whose base is declared. ERR_USAGE: not supported for this family, or impossible ranks. */
int lora_create(struct lora **out, struct model *m, struct err *err);
void lora_destroy(struct lora *l); /* accepts NULL */

const struct layout *lora_layout(const struct lora *l);
/* Moves the layout out of it, for a caller that needs nothing else. */
struct layout *lora_take_layout(struct lora *l);
int lora_len(const struct lora *l);
const struct lora_adapter *lora_at(const struct lora *l, int i);
/* The adapter whose A or B is tensor `i` of the layout. */
const struct lora_adapter *lora_of_tensor(const struct lora *l, int i);

/* Memory for weights, gradients if the model is trained, base and buffers. */
int lora_alloc(struct lora *l, struct model *m, struct err *err);
/* NULL if they belong to the caller (model_on_units()). */
float *lora_weights(const struct lora *l);
float *lora_grads(const struct lora *l);
void *lora_narrow(const struct lora *l); /* narrow copy of the weights; the weights themselves if narrow is fp32 */
void lora_place(struct lora *l, float *weights);

/* The base: numbers [from, from + n) of its block, in host memory. */
void lora_base_put(struct lora *l, size_t from, size_t n, const float *numbers);
void lora_base_get(const struct lora *l, size_t from, size_t n, float *numbers);
/* Uses the base of another model, which must outlive it. */
void lora_base_share(struct lora *l, const struct lora *with);

/* Call before a unit of the model is used: puts its weights into m->weights and m->narrow. */
void lora_enter(struct lora *l, struct model *m, int unit, bool backward);
/* Call after the unit's backward pass. */
void lora_leave(struct lora *l, struct model *m, int unit);
/* Adds the adapters of a layer with n outputs to its output y for the input x; does nothing if they are merged. */
void lora_forward(struct lora *l, weight_at weight, void *y, const void *x, int rows, int n);
/* Adds the gradients of the adapters of a layer with n outputs: rows of its input x and of the gradient dy of its
 * output; and to dx, narrow or fp32 (the other is NULL), what merged weights would have added. */
void lora_back(struct lora *l, weight_at weight, void *dx, float *wide_dx, const void *dy, const void *x, int rows,
               int n);
/* Adds s B A of one adapter to its rows of the tensor; B and A are in `weights`, in the adapters' layout. Host
 * memory only. */
void lora_merge(const struct lora *l, const struct lora_adapter *a, const float *weights, float *tensor);

#endif
