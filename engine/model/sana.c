/* SPDX-License-Identifier: Apache-2.0 */
/* sana.c - SanaMS, the network of Sana
 *
 * SanaMS (NVlabs/Sana): patch embedding, adaLN-single timestep, caption projection with RMSNorm,
 * depth x [ReLU linear attention, cross attention, Mix-FFN with depthwise 3x3] (sana_block.c), final layer.
 * Parameter names are the authors' state_dict names.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/arena.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/layout_builder.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

/* Row counts of the largest batch. */
struct sizes {
    size_t B, M, T, C, D, F, P, prob;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t B = (size_t)m->max.batch, M = model_most_tokens(m);
    return (struct sizes){
        .B = B, .M = M, .T = model_most_rows(m), .C = (size_t)c->hidden,
        .D = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .P = (size_t)model_patch_width(m),
        .prob = (size_t)c->heads * M * (m->ops->keeps ? (size_t)m->max.text : 2),
    };
}

static void cut_top(struct sana_top_acts *t, struct arena *k, struct sizes z, bool y_norm)
{
    t->tok = arena_narrow(k, z.M, z.P);
    t->x0 = arena_cut(k, z.M, z.C);
    t->emb = arena_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = arena_cut(k, z.B, z.C);
    t->e1s = arena_narrow(k, z.B, z.C);
    t->t = arena_cut(k, z.B, z.C);
    t->ts = arena_narrow(k, z.B, z.C);
    t->t0 = arena_cut(k, z.B, 6 * z.C);
    t->yn = arena_twin(k, NULL, z.T, z.D);
    t->y1 = arena_narrow(k, z.T, z.C);
    t->y1g = arena_narrow(k, z.T, z.C);
    t->y2 = arena_narrow(k, z.T, z.C);
    t->y = y_norm ? arena_narrow(k, z.T, z.C) : t->y2;
    t->y_rstd = arena_cut(k, z.T, 1);
    t->mod = arena_cut(k, z.B, 2 * z.C);
    t->stats = arena_cut(k, z.M, 2);
    t->h = arena_narrow(k, z.M, z.C);
    t->out = arena_cut(k, z.M, z.P);
}

static void cut_attention(struct sana_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    const size_t hd = (size_t)c->linear_head_dim;
    a->stats1 = arena_cut(k, z.M, 2);
    a->h1 = arena_narrow(k, z.M, z.C);
    a->qkv = arena_narrow(k, z.M, 3 * z.C);
    if (c->qk_norm) {
        a->qk = arena_narrow(k, z.M, 2 * z.C);
        a->q_rstd = arena_cut(k, z.M, 1);
        a->k_rstd = arena_cut(k, z.M, 1);
    }
    a->lin.vk = arena_cut(k, z.B * (z.C / hd), (hd + 1) * hd);
    a->lin.den = k->keeps ? arena_cut(k, z.M, z.C / hd) : NULL;
    a->attn = arena_narrow(k, z.M, z.C);
    a->attn_out = arena_narrow(k, z.M, z.C);
    a->x1 = arena_cut(k, z.M, z.C);
    a->x1n = arena_twin(k, a->x1, z.M, z.C);
    a->cq = arena_narrow(k, z.M, z.C);
    a->ckv = arena_narrow(k, z.T, 2 * z.C);
    if (c->cross_norm) {
        a->cqn = arena_narrow(k, z.M, z.C);
        a->cq_rstd = arena_cut(k, z.M, 1);
        a->ckn = arena_narrow(k, z.T, z.C);
        a->ck_rstd = arena_cut(k, z.T, 1);
    }
    a->prob = arena_cut(k, 1, z.prob);
    a->cross = arena_narrow(k, z.M, z.C);
    a->cross_out = arena_narrow(k, z.M, z.C);
}

/* All but the modulation and the output. */
static void cut_block(struct sana_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    cut_attention(a, k, z, c);
    a->x2 = arena_cut(k, z.M, z.C);
    a->stats2 = arena_cut(k, z.M, 2);
    a->h2 = arena_narrow(k, z.M, z.C);
    a->u = arena_narrow(k, z.M, 2 * z.F);
    if (k->keeps) {
        a->glumbconv.s = arena_narrow(k, z.M, 2 * z.F);
        a->glumbconv.d = arena_narrow(k, z.M, 2 * z.F);
    }
    a->g = arena_narrow(k, z.M, z.F);
    a->mlp_out = arena_narrow(k, z.M, z.C);
}

static void cut_back(struct sana_back_acts *b, struct arena *k, struct sizes z)
{
    b->dx = arena_cut(k, z.M, z.C);
    b->dxn = arena_twin(k, b->dx, z.M, z.C);
    b->a = arena_narrow(k, z.M, z.C);
    b->b = arena_narrow(k, z.M, z.C);
    b->dqkv = arena_narrow(k, z.M, 3 * z.C);
    b->dkv = arena_narrow(k, z.T, 2 * z.C);
    b->dy = arena_cut(k, z.T, z.C);
    b->dyn = arena_twin(k, b->dy, z.T, z.C);
    b->ya = arena_narrow(k, z.T, z.C);
    b->work = arena_cut(k, 1, z.prob);
    b->du = arena_narrow(k, z.M, 2 * z.F);
    b->dd = k->keeps ? arena_narrow(k, z.M, 2 * z.F) : NULL;
    b->dg = arena_narrow(k, z.M, z.F);
    b->dmod[0] = arena_cut(k, z.B, 6 * z.C);
    b->dmod[1] = arena_cut(k, z.B, 6 * z.C);
    b->dtop = arena_cut(k, z.B, 2 * z.C);
    b->dt0 = arena_cut(k, z.B, 6 * z.C);
    b->dt0n = arena_twin(k, b->dt0, z.B, 6 * z.C);
    b->dt = arena_cut(k, z.B, z.C);
    b->dtn = arena_twin(k, b->dt, z.B, z.C);
    b->ta = arena_narrow(k, z.B, z.C);
    b->dout = arena_narrow(k, z.M, z.P);
}

static void sana_carve(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct sana *s = &m->sana;
    cut_top(&s->top, k, z, m->cfg.y_norm);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct sana_block_acts *a = &s->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares)
            *a = s->ba[0];
        else
            cut_block(a, k, z, &m->cfg);
        a->mod = arena_cut(k, z.B, 6 * z.C); /* of two blocks at a time */
        if (i == 0 || m->train)
            a->x3 = arena_cut(k, z.M, z.C);
        /* Inference has one residual stream: earlier values are not needed. */
        a->in = !m->train ? a->x3 : i == 0 ? s->top.x0 : s->ba[i - 1].x3;
    }
    if (!m->train)
        s->top.x0 = s->ba[0].x3;
}

/* Memory of every activation. */
static void sana_carve_back(struct model *m, struct arena *k)
{
    cut_back(&m->sana.back, k, sizes_of(m));
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void declare_block(struct layout_builder *d, struct sana_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, F = c->mlp_hidden;
    w->table = layout_builder_param(d, "scale_shift_table", 6, C);
    w->qkv = layout_builder_param(d, "attn.qkv.weight", 3 * C, C);
    w->proj = layout_builder_param(d, "attn.proj.weight", C, C);
    w->proj_b = layout_builder_param(d, "attn.proj.bias", C, 0);
    w->q_norm = c->qk_norm ? layout_builder_param(d, "attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->k_norm = c->qk_norm ? layout_builder_param(d, "attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_q = layout_builder_param(d, "cross_attn.q_linear.weight", C, C);
    w->cross_q_b = layout_builder_param(d, "cross_attn.q_linear.bias", C, 0);
    w->cross_kv = layout_builder_param(d, "cross_attn.kv_linear.weight", 2 * C, C);
    w->cross_kv_b = layout_builder_param(d, "cross_attn.kv_linear.bias", 2 * C, 0);
    w->cross_proj = layout_builder_param(d, "cross_attn.proj.weight", C, C);
    w->cross_proj_b = layout_builder_param(d, "cross_attn.proj.bias", C, 0);
    w->cross_q_norm = c->cross_norm ? layout_builder_param(d, "cross_attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_k_norm = c->cross_norm ? layout_builder_param(d, "cross_attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->inv = layout_builder_conv(d, "mlp.inverted_conv.conv.weight", 2 * F, C, 1);
    w->inv_b = layout_builder_param(d, "mlp.inverted_conv.conv.bias", 2 * F, 0);
    w->depth = layout_builder_conv(d, "mlp.depth_conv.conv.weight", 2 * F, 1, 3);
    w->depth_b = layout_builder_param(d, "mlp.depth_conv.conv.bias", 2 * F, 0);
    w->point = layout_builder_conv(d, "mlp.point_conv.conv.weight", C, F, 1);
}

static int sana_declare(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const int C = c->hidden, patch = c->latent_channels * c->patch * c->patch;
    struct layout_builder d = {.layout = m->layout, .err = err};
    struct sana_top_weights *w = &m->sana.w;
    w->x = layout_builder_conv(&d, "x_embedder.proj.weight", C, c->latent_channels, c->patch);
    w->x_b = layout_builder_param(&d, "x_embedder.proj.bias", C, 0);
    w->t0 = layout_builder_param(&d, "t_embedder.mlp.0.weight", C, 2 * TIMESTEP_FREQS);
    w->t0_b = layout_builder_param(&d, "t_embedder.mlp.0.bias", C, 0);
    w->t2 = layout_builder_param(&d, "t_embedder.mlp.2.weight", C, C);
    w->t2_b = layout_builder_param(&d, "t_embedder.mlp.2.bias", C, 0);
    w->tb = layout_builder_param(&d, "t_block.1.weight", 6 * C, C);
    w->tb_b = layout_builder_param(&d, "t_block.1.bias", 6 * C, 0);
    w->y1 = layout_builder_param(&d, "y_embedder.y_proj.fc1.weight", C, c->caption_channels);
    w->y1_b = layout_builder_param(&d, "y_embedder.y_proj.fc1.bias", C, 0);
    w->y2 = layout_builder_param(&d, "y_embedder.y_proj.fc2.weight", C, C);
    w->y2_b = layout_builder_param(&d, "y_embedder.y_proj.fc2.bias", C, 0);
    w->y_norm = c->y_norm ? layout_builder_param(&d, "attention_y_norm.weight", C, 0) : NO_WEIGHT;
    for (int i = 0; i < c->depth; i++) {
        layout_builder_unit(&d, "blocks", i);
        declare_block(&d, &m->sana.bw[i], c);
    }
    layout_builder_unit(&d, NULL, 0);
    w->table = layout_builder_param(&d, "final_layer.scale_shift_table", 2, C);
    w->out = layout_builder_param(&d, "final_layer.linear.weight", patch, C);
    w->out_b = layout_builder_param(&d, "final_layer.linear.bias", patch, 0);
    w->null_caption = layout_builder_buffer(&d, "y_embedder.y_embedding", c->caption_len, c->caption_channels);
    return d.failed ? -1 : 0;
}

/* Initialization of tensors: the first row whose text is in the name. */
enum start { ZERO, ONE, Y_SCALE, NORMAL_002, XAVIER, FAN_IN, NORMAL_WIDTH };

static const struct {
    const char *part;
    enum start  start;
} starts[] = {
    {"attention_y_norm", Y_SCALE},        {"_norm.weight", ONE},
    {"scale_shift_table", NORMAL_WIDTH},  {"y_embedder.y_embedding", NORMAL_WIDTH},
    {"x_embedder.proj.bias", FAN_IN},     {"_conv.conv.", FAN_IN},
    {".bias", ZERO},                      {"t_embedder.mlp.", NORMAL_002},
    {"t_block.1.weight", NORMAL_002},     {"y_embedder.y_proj.", NORMAL_002},
    {".weight", XAVIER},
};

static enum start start_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (strstr(name, starts[i].part))
            return starts[i].start;
    return ZERO;
}

/* Fan-in of the layer that `t` belongs to. */
static double fan_in(const struct model_config *c, const struct tensor *t)
{
    if (strstr(t->name, "x_embedder"))
        return (double)c->latent_channels * c->patch * c->patch;
    if (strstr(t->name, "inverted_conv"))
        return c->hidden;
    if (strstr(t->name, "depth_conv"))
        return 9;
    if (strstr(t->name, "point_conv"))
        return c->mlp_hidden;
    return (double)(t->count / (size_t)t->dim[0]);
}

/* The table of tensors, with the authors' names and their initialization. */
static struct model_start sana_start(const struct model_config *c, const struct tensor *t)
{
    switch (start_of(t->name)) {
    case ONE:
        return (struct model_start){DRAW_CONSTANT, 1};
    case Y_SCALE:
        return (struct model_start){DRAW_CONSTANT, (double)c->y_norm_scale};
    case NORMAL_002:
        return (struct model_start){DRAW_NORMAL, 0.02};
    case NORMAL_WIDTH:
        return (struct model_start){DRAW_NORMAL, 1.0 / sqrt((double)t->dim[1])};
    case XAVIER:
        return (struct model_start){DRAW_UNIFORM, sqrt(6.0 / ((double)t->dim[0] + fan_in(c, t)))};
    case FAN_IN:
        return (struct model_start){DRAW_UNIFORM, 1.0 / sqrt(fan_in(c, t))};
    default:
        return (struct model_start){DRAW_CONSTANT, 0};
    }
}

enum { FINAL_ROWS = 2 }; /* shift and scale */

static int check(const struct model_config *c, const struct model_limits *max,
                 const struct kern_ops *ops, struct err *err)
{
    (void)max;
    if (c->linear_head_dim > ops->lin_attn_dim)
        return err_set(err, ERR_USAGE, "linear_head_dim is %d, and %s supports linear attention "
                       "with heads of at most %d channels", c->linear_head_dim, backend_device(),
                       ops->lin_attn_dim);
    if (c->hidden / c->heads > ops->cross_attn_dim)
        return err_set(err, ERR_USAGE, "num_heads is %d, so that heads of cross attention have %d "
                       "channels, and %s supports at most %d", c->heads,
                       c->hidden / c->heads, backend_device(), ops->cross_attn_dim);
    return 0;
}

static int open_blocks(struct model *m, struct err *err)
{
    struct sana *s = &m->sana;
    s->bw = calloc((size_t)m->cfg.depth, sizeof(*s->bw));
    s->ba = calloc((size_t)m->cfg.depth, sizeof(*s->ba));
    return s->bw && s->ba ? 0 : err_set(err, ERR_MEMORY, "no memory for a model of depth %d", m->cfg.depth);
}

static void close_blocks(struct model *m)
{
    free(m->sana.bw);
    free(m->sana.ba);
}

static weight_at unit_from(const struct model *m, int unit)
{
    return unit == MODEL_FIRST_UNIT       ? m->sana.w.x
           : unit == model_last_unit(m) ? m->sana.w.table
                                          : m->sana.bw[unit - 1].table;
}

static void timestep_forward(struct model *m, const float *timestep)
{
    const struct kern_ops *k = m->ops;
    struct sana_top_acts *a = &m->sana.top;
    const int B = m->batch, C = m->cfg.hidden;
    const size_t n = (size_t)B * (size_t)C;
    k->time_embed(a->emb, timestep, m->freqs, B, TIMESTEP_FREQS);
    k->linear_wide(a->e1, a->emb, model_wn(m, m->sana.w.t0), model_w(m, m->sana.w.t0_b), B, 2 * TIMESTEP_FREQS, C);
    k->silu(a->e1s, a->e1, n);
    k->linear_wide(a->t, a->e1s, model_wn(m, m->sana.w.t2), model_w(m, m->sana.w.t2_b), B, C, C);
    k->silu(a->ts, a->t, n);
    k->linear_wide(a->t0, a->ts, model_wn(m, m->sana.w.tb), model_w(m, m->sana.w.tb_b), B, C, 6 * C);
}

static const void *caption_narrow(struct model *m, const struct model_input *in)
{
    const size_t n = (size_t)m->rows * (size_t)m->cfg.caption_channels;
    return in->y_narrow ? in->y_narrow : model_narrow(m, m->sana.top.yn, in->y, n);
}

static void caption_forward(struct model *m, const struct model_input *in)
{
    const struct kern_ops *k = m->ops;
    struct sana_top_acts *a = &m->sana.top;
    const int T = m->rows, C = m->cfg.hidden, D = m->cfg.caption_channels;
    k->linear(a->y1, caption_narrow(m, in), model_wn(m, m->sana.w.y1), model_wn(m, m->sana.w.y1_b), T, D, C);
    k->gelu(a->y1g, a->y1, (size_t)T * (size_t)C);
    k->linear(a->y2, a->y1g, model_wn(m, m->sana.w.y2), model_wn(m, m->sana.w.y2_b), T, C, C);
    if (m->cfg.y_norm)
        k->rms_norm(a->y, C, a->y_rstd, a->y2, C, model_w(m, m->sana.w.y_norm), T, C, m->cfg.y_norm_eps);
}

static void first_forward(struct model *m, const struct model_input *in)
{
    const struct kern_ops *k = m->ops;
    struct sana_top_acts *a = &m->sana.top;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = model_patch_width(m);
    k->patch_embed(a->tok, in->x, model_image(m), m->cfg.patch);
    k->linear_wide(a->x0, a->tok, model_wn(m, m->sana.w.x), model_w(m, m->sana.w.x_b), M, P, C);
    timestep_forward(m, in->timestep);
    caption_forward(m, in);
}

static void last_forward(struct model *m, float *out)
{
    const struct kern_ops *k = m->ops;
    struct sana_top_acts *a = &m->sana.top;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = model_patch_width(m);
    /* The final layer is modulated by t itself: one row for shift and scale. */
    k->mod_add(a->mod, model_w(m, m->sana.w.table), a->t, C, 0, m->batch, FINAL_ROWS, C);
    block_leave(m, a->h, a->stats, a->mod, FINAL_ROWS * C);
    k->linear_wide(a->out, a->h, model_wn(m, m->sana.w.out), model_w(m, m->sana.w.out_b), M, C, P);
    k->unpatchify(out, a->out, model_image(m), m->cfg.patch);
}

static void last_backward(struct model *m, const float *dout)
{
    const struct kern_ops *k = m->ops;
    const struct sana_top_acts *a = &m->sana.top;
    struct sana_back_acts *d = &m->sana.back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = model_patch_width(m);
    k->patchify(d->dout, dout, model_image(m), m->cfg.patch);
    k->linear_back(d->a, model_g(m, m->sana.w.out), model_g(m, m->sana.w.out_b), d->dout, a->h,
                   model_wn(m, m->sana.w.out), M, C, P);
    block_leave_back(m, d->dtop, a->stats, a->mod, FINAL_ROWS * C);
    k->zero(d->dt, (size_t)m->batch * (size_t)C);
    k->mod_add_back(model_g(m, m->sana.w.table), d->dt, C, 0, d->dtop, m->batch, FINAL_ROWS, C);
    k->zero(d->dt0, (size_t)m->batch * 6 * (size_t)C);
}

static void timestep_backward(struct model *m)
{
    const struct kern_ops *k = m->ops;
    const struct sana_top_acts *a = &m->sana.top;
    struct sana_back_acts *d = &m->sana.back;
    const int B = m->batch, C = m->cfg.hidden;
    const size_t n = (size_t)B * (size_t)C;
    k->linear_back(d->ta, model_g(m, m->sana.w.tb), model_g(m, m->sana.w.tb_b), model_narrow(m, d->dt0n, d->dt0, 6 * n),
                   a->ts, model_wn(m, m->sana.w.tb), B, C, 6 * C);
    k->silu_back(d->ta, d->ta, a->t, n);
    k->add(d->dt, d->dt, d->ta, n);
    k->linear_back(d->ta, model_g(m, m->sana.w.t2), model_g(m, m->sana.w.t2_b),
                   model_narrow(m, d->dtn, d->dt, n), a->e1s, model_wn(m, m->sana.w.t2), B, C, C);
    k->silu_back(d->ta, d->ta, a->e1, n);
    k->linear_back(NULL, model_g(m, m->sana.w.t0), model_g(m, m->sana.w.t0_b), d->ta, a->emb,
                   model_wn(m, m->sana.w.t0), B, 2 * TIMESTEP_FREQS, C);
}

static void caption_backward(struct model *m, const struct model_input *in, float *dy)
{
    const struct kern_ops *k = m->ops;
    const struct sana_top_acts *a = &m->sana.top;
    struct sana_back_acts *d = &m->sana.back;
    const int T = m->rows, C = m->cfg.hidden, D = m->cfg.caption_channels;
    const void *yn = in->y_narrow ? in->y_narrow : m->ops->narrow == sizeof(*in->y) ? in->y : a->yn;
    model_narrow(m, d->dyn, d->dy, (size_t)T * (size_t)C);
    if (m->cfg.y_norm)
        k->rms_norm_back(d->dyn, C, model_g(m, m->sana.w.y_norm), d->dyn, C, a->y2, C, a->y_rstd,
                         model_w(m, m->sana.w.y_norm), T, C);
    k->linear_back(d->ya, model_g(m, m->sana.w.y2), model_g(m, m->sana.w.y2_b), d->dyn, a->y1g,
                   model_wn(m, m->sana.w.y2), T, C, C);
    k->gelu_back(d->ya, d->ya, a->y1, (size_t)T * (size_t)C);
    k->linear_back_wide(dy, 0, model_g(m, m->sana.w.y1), model_g(m, m->sana.w.y1_b), d->ya, yn,
                        model_wn(m, m->sana.w.y1), T, D, C);
}

static void first_backward(struct model *m, const struct model_input *in, float *dy)
{
    const int C = m->cfg.hidden, M = m->batch * m->tokens;
    m->ops->linear_back(NULL, model_g(m, m->sana.w.x), model_g(m, m->sana.w.x_b),
                        model_narrow(m, m->sana.back.dxn, m->sana.back.dx, (size_t)M * (size_t)C),
                        m->sana.top.tok, model_wn(m, m->sana.w.x), M, model_patch_width(m), C);
    timestep_backward(m);
    caption_backward(m, in, dy);
}

static const float *block_activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    int i, at = 0;
    if (!m->train || m->max.recompute || sscanf(name, "blocks.%d%n", &i, &at) != 1 || i < 0 ||
        i >= m->cfg.depth)
        return NULL;
    const struct sana_block_acts *a = &m->sana.ba[i];
    const int64_t n = (int64_t)m->batch * m->tokens * m->cfg.hidden;
    const struct model_named rows[] = {
        {"", a->x3, NULL, n},
        {".attn", NULL, a->attn_out, n},
        {".cross_attn", NULL, a->cross_out, n},
        {".mlp", NULL, a->mlp_out, n},
    };
    return model_see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name + at, count, err);
}

static const float *activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    const struct sana_top_acts *a = &m->sana.top;
    const int64_t B = m->batch, T = m->rows, M = B * m->tokens, C = m->cfg.hidden;
    const struct model_named rows[] = {
        {"x_embedder", m->train ? a->x0 : NULL, NULL, M * C},
        {"t_embedder", a->t, NULL, B * C},
        {"t_block", a->t0, NULL, B * 6 * C},
        {"y_embedder", NULL, a->y2, T * C},
        {"attention_y_norm", NULL, m->cfg.y_norm ? a->y : NULL, T * C},
        {"final_layer", a->out, NULL, M * model_patch_width(m)},
    };
    const float *top = model_see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name, count, err);
    return top ? top : block_activation(m, name, count, err);
}

static double flops(const struct model_config *c, int batch, int height, int width, int text)
{
    const double C = c->hidden, h = c->mlp_hidden, L = text, D = c->caption_channels;
    const double n = (double)(height / c->patch) * (width / c->patch);
    const double patch = (double)c->latent_channels * c->patch * c->patch;
    double block = 2 * n * C * (3 * C + C)                        /* qkv, proj */
                   + 4 * n * C * (c->linear_head_dim + 1)         /* linear attention */
                   + 2 * n * C * (C + C) + 2 * L * C * 2 * C      /* cross q, proj, kv */
                   + 4 * n * L * C                                /* its two products */
                   + 2 * n * C * 2 * h + 18 * n * 2 * h + 2 * n * h * C;
    double rest = 2 * 2 * n * patch * C                           /* patch in, patch out */
                  + 2 * 256 * C + 2 * C * C + 12 * C * C          /* timestep */
                  + 2 * L * D * C + 2 * L * C * C;                /* caption */
    return batch * (c->depth * block + rest);
}

const struct model_net sana_net = {
    .config_parse = sana_config_parse,
    .config_check = sana_config_check,
    .check = check,
    .open = open_blocks,
    .close = close_blocks,
    .declare = sana_declare,
    .carve = sana_carve,
    .carve_back = sana_carve_back,
    .unit_from = unit_from,
    .first_forward = first_forward,
    .block_forward = block_forward,
    .last_forward = last_forward,
    .last_backward = last_backward,
    .block_again = block_again,
    .block_backward = block_backward,
    .first_backward = first_backward,
    .activation = activation,
    .flops = flops,
    .start = sana_start,
};
