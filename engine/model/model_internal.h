/* SPDX-License-Identifier: Apache-2.0 */
/* model_internal.h - inside of a model, shared by model*.c and by the model families
 *
 * Activations are pointers into one block of memory, carved once (arena.h).
 *
 * Narrow arrays (kernels.h) are `void *`.  An array needed in both types has a narrow
 * copy ending in `n`; if narrow is fp32 the copy is the array itself, or NULL if it
 * is only accessed through model_narrow().
 */
#ifndef ENGINE_MODEL_MODEL_INTERNAL_H
#define ENGINE_MODEL_MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

#include "engine/model/lora.h"
#include "engine/model/model.h"
#include "engine/model/model_weight.h"
#include "kernels/kernels.h"

/* Inside of a Next-DiT, shared by nextdit*.c only
 *
 * Row counts: M = batch * tokens, T = rows of all captions.  C = hidden, G = kv_heads * (C / heads),
 * E = caption_channels, A = nextdit_cond(), F = mlp_hidden, S = nextdit_second(), O = numbers per token
 * that the last layer computes.
 */
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

/* Inside of SanaMS, shared by sana*.c only
 *
 * Row counts: M = batch * tokens, T = rows of all captions.  C = hidden, F = mlp_hidden.
 */
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

/* Kernel arrays for inputs copied from host memory; NULL on the CPU. */
struct model_stage {
    float *x, *timestep, *y, *mask, *out;
    int   *first;
};

/* A family of models. Units of the layout: all before the blocks, each block, all after. */
struct model_net {
    /* Reads the authors' keys; checks the values. */
    int  (*config_parse)(struct model_config *c, const json_t *config, struct err *err);
    int  (*config_check)(const struct model_config *c, struct err *err);
    /* Checks what this device supports; allocates its own arrays; declares the tensors
     * (layout_builder.h). */
    int  (*check)(const struct model_config *c, const struct model_limits *max,
                  const struct kern_ops *ops, struct err *err);
    int  (*open)(struct model *m, struct err *err);
    void (*close)(struct model *m);
    int  (*declare)(struct model *m, struct err *err);
    /* Activations, and buffers of the backward pass. */
    void (*carve)(struct model *m, struct arena *k);
    void (*carve_back)(struct model *m, struct arena *k);
    /* After the sizes of the batch have changed, outside of recordings (graph.h); or NULL. */
    void (*resize)(struct model *m);
    /* The first weight of a unit. */
    weight_at (*unit_from)(const struct model *m, int unit);
    /* The passes, unit by unit, for the current sizes; with max.recompute, block_again() before block_backward() of
     * all blocks but the last. */
    void (*first_forward)(struct model *m, const struct model_input *in);
    void (*block_forward)(struct model *m, int i);
    void (*last_forward)(struct model *m, float *out);
    void (*last_backward)(struct model *m, const float *dout);
    void (*block_again)(struct model *m, int i);
    void (*block_backward)(struct model *m, int i);
    void (*first_backward)(struct model *m, const struct model_input *in, float *dy);
    /* See model_activation(). */
    const float *(*activation)(struct model *m, const char *name, int64_t *count, struct err *err);
    double (*flops)(const struct model_config *c, int batch, int height, int width, int text);
    /* Initialization of a tensor. */
    struct model_start (*start)(const struct model_config *c, const struct tensor *t);
};

enum model_draw { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL };

/* A constant; uniform from -value to value; normal with this standard deviation. */
struct model_start {
    enum model_draw draw;
    double          value;
};

struct model {
    struct model_config    cfg;
    struct model_limits    max;
    bool                   train;
    const struct kern_ops *ops;
    const struct model_net *net;
    struct layout         *layout;
    float                 *weights, *grads, *acts; /* kernel arrays */
    void                  *narrow;                 /* the weights, narrow; may be the weights */
    float                 *freqs;                  /* likewise: timestep_freqs */
    float                 *host_weights, *host_grads; /* views; the same on the CPU */
    bool                   borrowed;               /* the weights are in the caller's memory */
    float                 *host_act;               /* the activation that was read last */
    struct model_stage     stage;
    float                 *back_acts;              /* kernel array */
    size_t                 acts_floats, back_floats;
    model_ready_fn         on_ready;
    void                  *on_ready_arg;
    struct model_units     units;
    size_t                 unit_from;      /* layout offset of weights[0] and grads[0] */
    struct lora           *lora;           /* the trained adapters, or NULL: all weights are trained */
    /* sizes of the current batch */
    int batch, height, width, text, tokens, rows;
    const int *first; /* first rows of the captions, a kernel array, or NULL */
    const float *mask; /* of the captions, a kernel array */
    struct sana sana; /* state of its family */
    struct nextdit next;
};

static inline __attribute__((unused)) float *model_w(const struct model *m, weight_at at)
{
    return at == NO_WEIGHT ? NULL : m->weights + ((size_t)at - m->unit_from);
}

/* A matrix in the type that matrix products need. */
static inline __attribute__((unused)) const void *model_wn(const struct model *m, weight_at at)
{
    return (const char *)m->narrow + ((size_t)at - m->unit_from) * m->ops->narrow;
}

/* The numbers from the i-th on of a narrow array. */
static inline __attribute__((unused)) void *model_skip(const struct model *m, void *p, int i)
{
    return (char *)p + (size_t)i * m->ops->narrow;
}

/* Floats that a narrow array of n numbers takes, for zero(). */
static inline __attribute__((unused)) size_t model_narrow_floats(const struct model *m, size_t n)
{
    return (n * m->ops->narrow + sizeof(float) - 1) / sizeof(float);
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
    return at == NO_WEIGHT || !m->grads ? NULL : m->grads + ((size_t)at - m->unit_from);
}

/* sana.c, nextdit.c; that of a family */
extern const struct model_net sana_net, nextdit_net;
const struct model_net *model_net(enum model_family family);

/* linear() of kernels.h for a layer whose weights may have adapters. */
static inline __attribute__((unused)) void model_linear(struct model *m, void *y, weight_at w, weight_at b,
                                                        const void *x, int rows, int k, int n)
{
    m->ops->linear(y, x, model_wn(m, w), b == NO_WEIGHT ? NULL : model_wn(m, b), rows, k, n);
    if (m->lora)
        lora_forward(m->lora, w, y, x, rows, n);
}

/* linear_back() of kernels.h for a layer whose weights may be frozen, and have adapters. */
static inline __attribute__((unused)) void model_linear_back(struct model *m, void *dx, weight_at w, weight_at b,
                                                             const void *dy, const void *x, int rows, int k, int n)
{
    m->ops->linear_back(dx, model_g(m, w), model_g(m, b), dy, x, model_wn(m, w), rows, k, n);
    if (m->lora)
        lora_back(m->lora, w, dx, NULL, dy, x, rows, n);
}

/* linear_back_wide(), likewise. */
static inline __attribute__((unused)) void model_linear_back_wide(struct model *m, float *dx, int keep, weight_at w,
                                                                  weight_at b, const void *dy, const void *x, int rows,
                                                                  int k, int n)
{
    m->ops->linear_back_wide(dx, keep, model_g(m, w), model_g(m, b), dy, x, model_wn(m, w), rows, k, n);
    if (m->lora)
        lora_back(m->lora, w, NULL, dx, dy, x, rows, n);
}

enum { MODEL_FIRST_UNIT };
static inline int model_last_unit(const struct model *m)
{
    return m->cfg.depth + 1;
}

int model_carve(struct model *m, struct err *err);

/* model_view.c: host views of kernel arrays */
int model_make_views(struct model *m, struct err *err);
void model_free_views(struct model *m);
/* A view of `count` numbers of a kernel array, valid until the next call. */
const float *model_see(struct model *m, const float *from, int64_t count, struct err *err);
const float *model_see_narrow(struct model *m, const void *from, int64_t count, struct err *err);

/* Registers an array, fp32 or narrow, under a name; looks an array up by name, or NULL. */
struct model_named {
    const char  *name;
    const float *wide;
    const void  *narrow;
    int64_t      count;
};
const float *model_see_named(struct model *m, const struct model_named *rows, int count,
                             const char *name, int64_t *n, struct err *err);

/* Latent size of the current batch; numbers per patch; the most tokens of a batch, and rows of its
 * captions. */
struct kern_image model_image(const struct model *m);
int model_patch_width(const struct model *m);
size_t model_most_tokens(const struct model *m);
size_t model_most_rows(const struct model *m);

#endif
