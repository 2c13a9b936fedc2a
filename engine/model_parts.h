/* SPDX-License-Identifier: Apache-2.0 */
/* model_parts.h - the inside of a model, shared by model*.c only
 *
 * Weights are known by their offset in the block of weights; the gradient of a
 * weight has the same offset in the block of gradients.  Activations are
 * pointers into one block of memory, carved once.  Row counts: M = batch *
 * tokens, T = batch * text.  C = hidden, F = mlp_hidden.
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
    float *in;                             /* [M, C] = `x3` of the block before */
    float *mod;                            /* [B, 6, C] shift1 scale1 gate1 shift2 scale2 gate2 */
    float *stats1, *h1;                    /* [M, 2], [M, C] */
    float *qkv;                            /* [M, 3C]; q and k after ReLU unless normed */
    float *qk, *q_rstd, *k_rstd;           /* [M, 2C], [M], [M]: with qk_norm */
    struct kern_lin_attn lin;
    float *attn, *attn_out, *x1;           /* [M, C]: before proj, after, after the residual */
    float *cq, *cqn, *cq_rstd;             /* [M, C], normed if cross_norm */
    float *ckv, *ckn, *ck_rstd;            /* [T, 2C], [T, C], [T] */
    float *prob;                           /* [B, heads, N, L] */
    float *cross, *cross_out, *x2;
    float *stats2, *h2;
    float *u, *s, *d;                      /* [M, 2F]: before SiLU, after, after depthwise */
    float *g, *mlp_out, *x3;               /* [M, F], [M, C], [M, C] */
};

struct top_acts {
    float *tok, *x0;                       /* [M, channels p p], [M, C] */
    float *emb, *e1, *e1s, *t, *ts, *t0;   /* [B, 256], [B, C] x 4, [B, 6C] */
    float *y1, *y1g, *y2, *y, *y_rstd;     /* [T, C] x 4, [T] */
    float *mod, *stats, *h, *out;          /* [B, 2, C], [M, 2], [M, C], [M, p p channels] */
};

/* Gradients on their way back; one set for all blocks. */
struct back_acts {
    float *dx, *a, *b;                     /* [M, C] */
    float *dqkv;                           /* [M, 3C] */
    float *dkv, *dy, *ya;                  /* [T, 2C], [T, C], [T, C] */
    float *work;                           /* [B, heads, N, L] */
    float *du, *dd, *dg;                   /* [M, 2F] x 2, [M, F] */
    float *dmod, *dt0, *dt, *ta;           /* [B, 6, C], [B, 6C], [B, C], [B, C] */
    float *dout;                           /* [M, p p channels] */
};

/* Kernel arrays for inputs that come from this process's memory; NULL on the CPU. */
struct model_stage {
    float *x, *timestep, *y, *mask, *out;
};

struct model {
    struct model_config    cfg;
    struct model_limits    max;
    bool                   train;
    const struct kern_ops *ops;
    struct layout         *layout;
    float                 *weights, *grads, *acts; /* kernel arrays */
    float                 *freqs;                  /* likewise: timestep_freqs */
    float                 *here_weights, *here_grads; /* views; the same on the CPU */
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
    /* sizes of the batch in hand */
    int batch, height, width, text, tokens;
};

static inline __attribute__((unused)) float *model_w(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->weights + at;
}

static inline __attribute__((unused)) float *model_g(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->grads + at;
}

/* model_layout.c: the table of tensors, with the authors' names */
int model_declare(struct model *m, struct err *err);
/* model_view.c: views of kernel arrays in this process's memory */
int model_make_views(struct model *m, struct err *err);
void model_free_views(struct model *m);
/* A view of `count` numbers of a kernel array, valid until the next call. */
const float *model_see(struct model *m, const float *from, int64_t count, struct err *err);
/* model_acts.c: where every activation lives */
int model_carve(struct model *m, struct err *err);

/* model_block.c */
void block_forward(struct model *m, int i, const float *y, const float *mask);
void block_backward(struct model *m, int i, const float *y);

#endif
