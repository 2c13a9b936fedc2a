/* SPDX-License-Identifier: Apache-2.0 */
/* model_parts.h - the inside of a model, shared by model*.c only
 *
 * Weights are known by their offset in the block of weights; the gradient of a
 * weight has the same offset in the block of gradients.  Activations are
 * pointers into one block of memory, carved once.  Row counts: M = batch *
 * tokens, T = rows of all captions.  C = hidden, F = mlp_hidden.
 *
 * Narrow arrays (kernels.h) are `void *`.  What is needed in both kinds has a twin
 * ending in `n`; where narrow is fp32 the twin is the array itself, or NULL if it
 * is only ever reached through model_narrow().
 */
#ifndef ENGINE_MODEL_PARTS_H
#define ENGINE_MODEL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/model.h"
#include "kernels/kernels.h"

enum { NO_WEIGHT = -1 };
typedef ptrdiff_t weight_at; /* offset in floats, or NO_WEIGHT */

struct block_weights {
    weight_at table;                       /* scale_shift_table [6, C] */
    weight_at qkv, proj, proj_b, q_norm, k_norm;
    weight_at cross_q, cross_q_b, cross_kv, cross_kv_b, cross_proj, cross_proj_b;
    weight_at cross_q_norm, cross_k_norm;
    weight_at inv, inv_b, depth, depth_b, point;
};

struct top_weights {
    weight_at x, x_b, t0, t0_b, t2, t2_b, tb, tb_b, y1, y1_b, y2, y2_b, y_norm;
    weight_at table, out, out_b;
    weight_at null_caption;                /* y_embedder.y_embedding [L, D] */
};

/* What one block computes. In a model that only infers, all blocks share one; in one that
 * recomputes, all but `x3`. */
struct block_acts {
    float *in;                             /* [M, C]; `x3` of the block before is the same */
    float *mod;                            /* [B, 6, C] shift1 scale1 gate1 shift2 scale2 gate2 */
    float *stats1;                         /* [M, 2] */
    void  *h1, *qkv;                       /* [M, C], [M, 3C] */
    void  *qk;                             /* [M, 2C]: with qk_norm */
    float *q_rstd, *k_rstd;                /* [M]: likewise */
    struct kern_lin_attn lin;
    void  *attn, *attn_out;                /* [M, C]: before proj, after */
    float *x1;                             /* [M, C] */
    void  *x1n;
    void  *cq, *cqn;                       /* [M, C], normed if cross_norm */
    void  *ckv, *ckn;                      /* [T, 2C], [T, C] */
    float *cq_rstd, *ck_rstd;              /* [M], [T] */
    float *prob;                           /* what cross_attn() keeps */
    void  *cross, *cross_out;              /* [M, C] */
    float *x2, *stats2;                    /* [M, C], [M, 2] */
    void  *h2, *u;                         /* [M, C], [M, 2F] */
    struct kern_mix mix;
    void  *g, *mlp_out;                    /* [M, F], [M, C] */
    float *x3;                             /* written by who comes next: see model_block.c */
};

struct top_acts {
    void  *tok;                            /* [M, channels p p] */
    float *x0;                             /* [M, C] */
    void  *emb, *e1s, *ts;                 /* [B, 256], [B, C] x 2 */
    float *e1, *t, *t0;                    /* [B, C] x 2, [B, 6C] */
    void  *yn;                             /* [T, D]: the captions */
    void  *y1, *y1g, *y2, *y;              /* [T, C] */
    float *y_rstd, *mod, *stats;           /* [T], [B, 2, C], [M, 2] */
    void  *h;                              /* [M, C] */
    float *out;                            /* [M, p p channels] */
};

/* Gradients on their way back; one set for all blocks. */
struct back_acts {
    float *dx;                             /* [M, C]: of the residual stream, all the way */
    void  *dxn, *a, *b;                    /* [M, C] */
    void  *dqkv, *dkv;                     /* [M, 3C], [T, 2C] */
    float *dy;                             /* [T, C]: the sum of all blocks */
    void  *dyn, *ya;                       /* [T, C] */
    float *work;                           /* as large as `prob` */
    void  *du, *dd, *dg;                   /* [M, 2F] x 2, [M, F] */
    float *dmod[2];                        /* [B, 6, C]: of this block and of the one before */
    float *dtop;                           /* [B, 2, C]: of the final layer's modulation */
    float *dt0, *dt;                       /* [B, 6C], [B, C] */
    void  *dt0n, *dtn, *ta;                /* [B, 6C], [B, C], [B, C] */
    void  *dout;                           /* [M, p p channels] */
};

/* Kernel arrays for inputs that come from this process's memory; NULL on the CPU. */
struct model_stage {
    float *x, *timestep, *y, *mask, *out;
    int   *first;
};

struct model {
    struct model_config    cfg;
    struct model_limits    max;
    bool                   train;
    const struct kern_ops *ops;
    struct layout         *layout;
    float                 *weights, *grads, *acts; /* kernel arrays */
    void                  *narrow;                 /* the weights, narrow; may be the weights */
    float                 *freqs;                  /* likewise: timestep_freqs */
    float                 *here_weights, *here_grads; /* views; the same on the CPU */
    bool                   guest;          /* the weights are in somebody else's memory */
    float                 *here_act;               /* the activation last asked for */
    struct model_stage     stage;
    float                 *back_acts;              /* kernel array: struct back_acts */
    size_t                 acts_floats, back_floats;
    struct top_weights     w;
    struct block_weights  *bw;             /* [depth] */
    struct top_acts        top;
    struct block_acts     *ba;             /* [depth] */
    struct back_acts       back;
    model_ready_fn         on_ready;
    void                  *on_ready_arg;
    struct model_units     units;
    size_t                 unit_from;      /* number of the layout that weights[0], grads[0] are */
    /* sizes of the batch in hand */
    int batch, height, width, text, tokens, rows;
    const int *first; /* of the captions' rows, a kernel array, or NULL */
};

static inline __attribute__((unused)) float *model_w(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->weights + ((size_t)at - m->unit_from);
}

/* A matrix as products take it. */
static inline __attribute__((unused)) const void *model_wn(const struct model *m, weight_at at)
{
    return (const char *)m->narrow + ((size_t)at - m->unit_from) * m->ops->narrow;
}

/* The numbers from the i-th on of a narrow array. */
static inline __attribute__((unused)) void *model_skip(const struct model *m, void *p, int i)
{
    return (char *)p + (size_t)i * m->ops->narrow;
}

/* x as a narrow array: itself, or rounded into `to`. */
static inline __attribute__((unused)) const void *model_narrow(const struct model *m, void *to,
                                                               const float *x, size_t n)
{
    if (m->ops->narrow == sizeof(*x))
        return x;
    m->ops->round(to, x, n);
    return to;
}

static inline __attribute__((unused)) float *model_g(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->grads + ((size_t)at - m->unit_from);
}

/* model_layout.c: the table of tensors, with the authors' names */
int model_declare(struct model *m, struct err *err);
/* model_view.c: views of kernel arrays in this process's memory */
int model_make_views(struct model *m, struct err *err);
void model_free_views(struct model *m);
/* A view of `count` numbers of a kernel array, valid until the next call. */
const float *model_see(struct model *m, const float *from, int64_t count, struct err *err);
const float *model_see_narrow(struct model *m, const void *from, int64_t count, struct err *err);
/* model_acts.c: where every activation lives */
int model_carve(struct model *m, struct err *err);

/* model_block.c: y is narrow. After the last block block_leave() sums the stream up and norms it
 * with `mod`, shift and scale of C each, for the final layer. */
void block_forward(struct model *m, int i, const void *y, const float *mask);
void block_leave(struct model *m, void *h, float *stats, const float *mod, int ld);
/* Begins with the gradient of h in back.a, and ends where block_backward() of the last begins. */
void block_leave_back(struct model *m, float *dmod, const float *stats, const float *mod, int ld);
void block_backward(struct model *m, int i, const void *y, const float *mask);
/* With max.recompute, before block_backward() of all blocks but the last: forward once more, and
 * from back.dx to the gradient of what it made of its MLP. */
void block_again(struct model *m, int i, const void *y, const float *mask);

#endif
