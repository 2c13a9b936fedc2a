/* SPDX-License-Identifier: Apache-2.0 */
/* optim_internal.h - struct optim, for optim*.c only */
#ifndef ENGINE_OPTIM_OPTIM_INTERNAL_H
#define ENGINE_OPTIM_OPTIM_INTERNAL_H

#include "engine/optim/optim.h"

/* Adjacent trained numbers: `offset` in the layout, `held` in weights and gradients, `at` in blocks of state. */
struct range {
    size_t offset, held, at, count;
};

/* A kernel array and its view; on the CPU the same memory. borrowed: it is in an image of the caller. */
struct block {
    float *at, *here;
    size_t count;
    bool   borrowed;
};

/* The blocks of state; an image has them in this order. */
enum {
    MOMENTS,
    SQUARES, /* AdamW */
    AVERAGE, /* EMA of the weights */
    FACTORS, /* CAME: everything but moments */
    BLOCKS
};

struct optim {
    struct optim_config    cfg;
    const struct kern_ops *ops;
    const struct layout   *layout;
    struct optim_share     share;
    size_t                 floats;       /* numbers of a block of state */
    int64_t                count;
    struct block           block[BLOCKS];
    struct kern_came_state *came;        /* [layout_len], kernel arrays */
    struct range          *range;        /* adjacent trained tensors, merged */
    int                    ranges;
    struct optim_state    *state;
    int                    states;
};

/* The numbers of a tensor that are updated, possibly none; of a buffer: all. */
struct range optim_find(const struct optim *o, const struct tensor *t);

static inline size_t optim_padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Lays CAME's rows and columns out in one block, kernel arrays or views; `base` NULL: counts only. */
size_t optim_factors(const struct optim *o, struct kern_came_state *to, float *base, float *m);

/* The factor that clips gradients, and the kernels' arguments of an update. */
float optim_clip(const struct optim *o, double grad_norm);
struct kern_adamw optim_adamw_args(const struct optim *o, float clip, double lr);
struct kern_came optim_came_args(const struct optim *o, float clip, double lr);

#endif
