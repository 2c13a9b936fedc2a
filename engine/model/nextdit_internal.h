/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_internal.h - inside of a Next-DiT, shared by nextdit*.c only
 *
 * Row counts: M = batch * tokens, T = rows of all captions.  C = hidden, G = kv_heads * (C / heads),
 * E = caption_channels, A = nextdit_cond(), F = mlp_hidden, S = nextdit_second(), O = numbers per token
 * that the last layer computes.
 */
#ifndef ENGINE_MODEL_NEXTDIT_INTERNAL_H
#define ENGINE_MODEL_NEXTDIT_INTERNAL_H

#include <jansson.h>

#include "engine/model/model_weight.h"

struct nextdit_block_weights {
    weight_at gate;                        /* attention.gate [heads] */
    weight_at wq, wk, wv, wk_y, wv_y, wo;  /* [C, C], [G, C] x 2, [G, E] x 2, [C, C] */
    weight_at q_norm, q_norm_b, k_norm, k_norm_b, ky_norm, ky_norm_b;
    weight_at w1, w2;                      /* w1, from row S on w3: [S + F, C]; [C, F] */
    weight_at norm1, norm2, ffn1, ffn2;    /* attention_norm1, ... [C] */
    weight_at ada, ada_b;                  /* adaLN_modulation.1 [4C, A] */
    weight_at y_norm;                      /* attention_y_norm [E] */
};

struct nextdit_top_weights {
    weight_at pad, x, x_b, t0, t0_b, t2, t2_b;
    weight_at cap_norm, cap_norm_b, cap, cap_b; /* cap_embedder.0, .1 */
    weight_at out, out_b, ada, ada_b;      /* final_layer.linear, .adaLN_modulation.1 */
};

/* One of q, k and the captions' k: as projected, normed, and the norm's statistics. */
struct nextdit_normed {
    void  *raw, *normed;                   /* the same array without qk_norm */
    float *stats;                          /* [rows, 2] */
};

/* Activations of one block. For inference all blocks share one set; with recompute
 * all but `x2`. */
struct nextdit_block_acts {
    float *in;                             /* [M, C]; `x2` of the block before is the same */
    float *mod;                            /* [B, 4, C]: see enum in nextdit_block.c */
    void  *h1, *yn;                        /* [M, C], [T, E] */
    float *h1_rstd, *y_rstd;               /* [M], [T] */
    struct nextdit_normed q, k, ky;        /* [M, C], [M, G], [T, G] */
    void  *v, *vy;                         /* [M, G], [T, G] */
    void  *self, *cross, *both, *attn_out; /* [M, C] */
    float *self_kept, *cross_kept;         /* see attend() */
    float *attn_rstd, *x1;                 /* [M], [M, C] */
    void  *h2, *u, *g, *mlp_out;           /* [M, C], [M, S + F], [M, F], [M, C] */
    float *h2_rstd, *mlp_rstd;             /* [M] */
    float *x2;
};

struct nextdit_top_acts {
    float *real, *imag;                    /* [tokens, C / heads / 2]: rotations of the grid */
    int    rows, cols;                     /* size of that grid */
    void  *tok;                            /* [M, channels p p] */
    float *x0;                             /* [M, C] */
    void  *emb, *e1s, *cs;                 /* [B, 256], [B, A] x 2 */
    float *e1, *t, *cap, *c;               /* [B, A] x 4: c = t + cap */
    float *pooled, *pooled_stats;          /* [B, E], [B, 2] */
    void  *y, *pooled_y, *pooled_n;        /* [T, E], [B, E] x 2: the captions; the mean, narrow, and normed */
    float *none, *scale, *stats;           /* [B, C] of zeroes, [B, C], [M, 2] */
    void  *h;                              /* [M, C] */
    float *out, *image;                    /* [M, O]; [B, O / p / p, H, W] */
};

/* Gradients of activations; one set for all blocks. */
struct nextdit_back_acts {
    float *dx, *dh, *dy, *dcs;             /* [M, C] x 2, [T, E], [B, A] */
    void  *dxn, *dhn, *dyn, *dcn, *de;     /* narrow copies; [B, A] */
    void  *a, *b, *c;                      /* [M, C] */
    void  *dk, *dv, *dky, *dvy;            /* [M, G] x 2, [T, G] x 2 */
    void  *dg, *du;                        /* [M, F], [M, S + F] */
    float *dmod, *dscale, *dnone, *dpool;  /* [B, 4, C], [B, C] x 2, [B, E] */
    void  *dmodn, *dscalen, *dpooln;
    void  *dout;                           /* [M, O] */
    float *dimage;                         /* [B, O / p / p, H, W] */
};

struct nextdit {
    struct nextdit_top_weights    w;
    struct nextdit_block_weights *bw;      /* [depth] */
    struct nextdit_top_acts       top;
    struct nextdit_block_acts    *ba;      /* [depth] */
    struct nextdit_back_acts      back;
    float                        *grid;    /* this process's memory: real, then imag, of the largest picture */
};

struct err;
struct arena;
struct model;
struct model_config;
struct model_start;
struct tensor;

/* Channels of the condition of a block; of keys and values; numbers per token at the end; row at which
 * w3 begins in the matrix of w1 and w3 (layout_pair_rows()). */
int nextdit_cond(const struct model_config *c);
int nextdit_groups(const struct model_config *c);
int nextdit_second(const struct model_config *c);
int nextdit_out_width(const struct model_config *c);

/* nextdit_config.c */
int nextdit_config_parse(struct model_config *cfg, const json_t *config, struct err *err);
int nextdit_config_check(const struct model_config *c, struct err *err);
double nextdit_flops(const struct model_config *c, int batch, int height, int width, int text);

/* nextdit_block.c. Backward starts and ends with the gradient of the residual stream in back.dx,
 * and adds to that of the condition, back.dcs. */
void nextdit_block_forward(struct model *m, int i);
void nextdit_block_backward(struct model *m, int i);

#endif
