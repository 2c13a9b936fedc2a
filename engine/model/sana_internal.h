/* SPDX-License-Identifier: Apache-2.0 */
/* sana_internal.h - inside of SanaMS, shared by sana*.c only
 *
 * Row counts: M = batch * tokens, T = rows of all captions.  C = hidden, F = mlp_hidden.
 */
#ifndef ENGINE_MODEL_SANA_INTERNAL_H
#define ENGINE_MODEL_SANA_INTERNAL_H

#include <jansson.h>

#include "engine/model/model_weight.h"

struct sana_block_weights {
    weight_at table;                       /* scale_shift_table [6, C] */
    weight_at qkv, proj, proj_b, q_norm, k_norm;
    weight_at cross_q, cross_q_b, cross_kv, cross_kv_b, cross_proj, cross_proj_b;
    weight_at cross_q_norm, cross_k_norm;
    weight_at inv, inv_b, depth, depth_b, point;
};

struct sana_top_weights {
    weight_at x, x_b, t0, t0_b, t2, t2_b, tb, tb_b, y1, y1_b, y2, y2_b, y_norm;
    weight_at table, out, out_b;
    weight_at null_caption;                /* y_embedder.y_embedding [L, D] */
};

/* Activations of one block. For inference all blocks share one set; with recompute
 * all but `x3`. */
struct sana_block_acts {
    float *in;                             /* [M, C]; `x3` of the block before is the same */
    float *mod;                            /* [B, 6, C] shift1 scale1 gate1 shift2 scale2 gate2 */
    float *stats1;                         /* [M, 2] */
    void  *h1, *qkv;                       /* [M, C], [M, 3C] */
    void  *qk;                             /* [M, 2C]: only with qk_norm */
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
    struct kern_glumbconv glumbconv;
    void  *g, *mlp_out;                    /* [M, F], [M, C] */
    float *x3;                             /* written by the next block: see sana_block.c */
};

struct sana_top_acts {
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

/* Gradients of activations; one set for all blocks. */
struct sana_back_acts {
    float *dx;                             /* [M, C]: of the residual stream, throughout */
    void  *dxn, *a, *b;                    /* [M, C] */
    void  *dqkv, *dkv;                     /* [M, 3C], [T, 2C] */
    float *dy;                             /* [T, C]: the sum of all blocks */
    void  *dyn, *ya;                       /* [T, C] */
    float *work;                           /* the size of `prob` */
    void  *du, *dd, *dg;                   /* [M, 2F] x 2, [M, F] */
    float *dmod[2];                        /* [B, 6, C]: of this block and of the previous one */
    float *dtop;                           /* [B, 2, C]: of the final layer's modulation */
    float *dt0, *dt;                       /* [B, 6C], [B, C] */
    void  *dt0n, *dtn, *ta;                /* [B, 6C], [B, C], [B, C] */
    void  *dout;                           /* [M, p p channels] */
};

struct sana {
    struct sana_top_weights    w;
    struct sana_block_weights *bw;         /* [depth] */
    struct sana_top_acts       top;
    struct sana_block_acts    *ba;         /* [depth] */
    struct sana_back_acts      back;
};

struct err;
struct arena;
struct model;
struct model_config;
struct model_start;
struct tensor;

/* sana_config.c */
int sana_config_parse(struct model_config *cfg, const json_t *config, struct err *err);
int sana_config_check(const struct model_config *c, struct err *err);

/* sana_block.c. After the last block block_leave() completes the residual stream and
 * norms it with `mod`, shift and scale of C each, for the final layer. */
void block_forward(struct model *m, int i);
void block_leave(struct model *m, void *h, float *stats, const float *mod, int ld);
/* Starts with the gradient of h in back.a, and ends where block_backward() of the last block
 * starts. */
void block_leave_back(struct model *m, float *dmod, const float *stats, const float *mod, int ld);
void block_backward(struct model *m, int i);
/* With max.recompute, before block_backward() of all blocks but the last: runs forward again, and
 * turns back.dx into the gradient of the block's MLP output. */
void block_again(struct model *m, int i);

#endif
