/* SPDX-License-Identifier: Apache-2.0 */
/* sana.c - SanaMS, the network of Sana
 *
 * SanaMS (NVlabs/Sana): patch embedding, adaLN-single timestep, caption projection with RMSNorm,
 * depth x [ReLU linear attention, cross attention, Mix-FFN with depthwise 3x3] (sana_block.c), final layer.
 * Parameter names are the authors' state_dict names.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/model/backend.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

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
