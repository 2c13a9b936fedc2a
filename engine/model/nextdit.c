/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit.c - Next-DiT, the network of Lumina-Next
 *
 * Lumina-Next (Alpha-VLLM/Lumina-T2X, lumina_next_t2i): patches, one vector of time and the mean of
 * the caption, depth x [attention to picture and caption, SwiGLU] with a norm before and after each
 * (nextdit_block.c), final layer.  Parameter names are the authors' state_dict names.
 *
 * The authors pad pictures of different sizes with pad_token, which no token attends to; here all
 * pictures of a batch have one size, and pad_token is a weight without a gradient.
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

static void declare_norm(struct layout_builder *d, const char *weight, const char *bias, weight_at *w, weight_at *b,
                         int n)
{
    *w = layout_builder_param(d, weight, n, 0);
    *b = layout_builder_param(d, bias, n, 0);
}

static void declare_attention(struct layout_builder *d, struct nextdit_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, G = nextdit_groups(c), E = c->caption_channels;
    w->gate = layout_builder_param(d, "attention.gate", c->heads, 0);
    w->wq = layout_builder_param(d, "attention.wq.weight", C, C);
    w->wk = layout_builder_param(d, "attention.wk.weight", G, C);
    w->wv = layout_builder_param(d, "attention.wv.weight", G, C);
    w->wk_y = layout_builder_param(d, "attention.wk_y.weight", G, E);
    w->wv_y = layout_builder_param(d, "attention.wv_y.weight", G, E);
    w->wo = layout_builder_param(d, "attention.wo.weight", C, C);
    w->q_norm = w->q_norm_b = w->k_norm = w->k_norm_b = w->ky_norm = w->ky_norm_b = NO_WEIGHT;
    if (!c->qk_norm)
        return;
    declare_norm(d, "attention.q_norm.weight", "attention.q_norm.bias", &w->q_norm, &w->q_norm_b, C);
    declare_norm(d, "attention.k_norm.weight", "attention.k_norm.bias", &w->k_norm, &w->k_norm_b, G);
    declare_norm(d, "attention.ky_norm.weight", "attention.ky_norm.bias", &w->ky_norm, &w->ky_norm_b, G);
}

static void declare_block(struct layout_builder *d, struct nextdit_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, F = c->mlp_hidden;
    declare_attention(d, w, c);
    w->w1 = layout_builder_first(d, "feed_forward.w1.weight", F, C);
    w->w2 = layout_builder_param(d, "feed_forward.w2.weight", C, F);
    layout_builder_second(d, "feed_forward.w3.weight", w->w1);
    w->norm1 = layout_builder_param(d, "attention_norm1.weight", C, 0);
    w->ffn1 = layout_builder_param(d, "ffn_norm1.weight", C, 0);
    w->norm2 = layout_builder_param(d, "attention_norm2.weight", C, 0);
    w->ffn2 = layout_builder_param(d, "ffn_norm2.weight", C, 0);
    w->ada = layout_builder_param(d, "adaLN_modulation.1.weight", 4 * C, nextdit_cond(c));
    w->ada_b = layout_builder_param(d, "adaLN_modulation.1.bias", 4 * C, 0);
    w->y_norm = layout_builder_param(d, "attention_y_norm.weight", c->caption_channels, 0);
}

static int nextdit_declare(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const int C = c->hidden, A = nextdit_cond(c), E = c->caption_channels;
    struct layout_builder d = {.layout = m->layout, .err = err};
    struct nextdit_top_weights *w = &m->next.w;
    w->pad = layout_builder_param(&d, "pad_token", C, 0);
    w->x = layout_builder_param(&d, "x_embedder.weight", C, model_patch_width(m));
    w->x_b = layout_builder_param(&d, "x_embedder.bias", C, 0);
    w->t0 = layout_builder_param(&d, "t_embedder.mlp.0.weight", A, 2 * TIMESTEP_FREQS);
    w->t0_b = layout_builder_param(&d, "t_embedder.mlp.0.bias", A, 0);
    w->t2 = layout_builder_param(&d, "t_embedder.mlp.2.weight", A, A);
    w->t2_b = layout_builder_param(&d, "t_embedder.mlp.2.bias", A, 0);
    w->cap_norm = layout_builder_param(&d, "cap_embedder.0.weight", E, 0);
    w->cap_norm_b = layout_builder_param(&d, "cap_embedder.0.bias", E, 0);
    w->cap = layout_builder_param(&d, "cap_embedder.1.weight", A, E);
    w->cap_b = layout_builder_param(&d, "cap_embedder.1.bias", A, 0);
    for (int i = 0; i < c->depth; i++) {
        layout_builder_unit(&d, "layers", i);
        declare_block(&d, &m->next.bw[i], c);
    }
    layout_builder_unit(&d, NULL, 0);
    w->out = layout_builder_param(&d, "final_layer.linear.weight", nextdit_out_width(c), C);
    w->out_b = layout_builder_param(&d, "final_layer.linear.bias", nextdit_out_width(c), 0);
    w->ada = layout_builder_param(&d, "final_layer.adaLN_modulation.1.weight", C, A);
    w->ada_b = layout_builder_param(&d, "final_layer.adaLN_modulation.1.bias", C, 0);
    return d.failed ? -1 : 0;
}

/* Initialization of tensors: the first row whose text is in the name. */
enum start { ZERO, ONE, NORMAL_002, XAVIER };

static const struct {
    const char *part;
    enum start  start;
} starts[] = {
    {".bias", ZERO},          {"adaLN_modulation", ZERO}, {"final_layer.linear", ZERO},
    {"attention.gate", ZERO}, {"cap_embedder.1", ZERO},   {"cap_embedder.0.weight", ONE},
    {"norm", ONE},            {"t_embedder.mlp.", NORMAL_002}, {"pad_token", NORMAL_002},
    {".weight", XAVIER},
};

/* The table of tensors, with the authors' names and their initialization. */
static struct model_start nextdit_start(const struct model_config *c, const struct tensor *t)
{
    (void)c;
    size_t i = 0;
    while (i + 1 < sizeof(starts) / sizeof(starts[0]) && !strstr(t->name, starts[i].part))
        i++;
    switch (starts[i].start) {
    case ONE:
        return (struct model_start){DRAW_CONSTANT, 1};
    case NORMAL_002:
        return (struct model_start){DRAW_NORMAL, 0.02};
    case XAVIER:
        return (struct model_start){DRAW_UNIFORM, sqrt(6.0 / (double)(t->dim[0] + t->dim[1]))};
    default:
        return (struct model_start){DRAW_CONSTANT, 0};
    }
}

/* Row counts of the largest batch, and widths. */
struct sizes {
    size_t B, M, T, C, G, E, F, S, A, P, O, heads, half, image;
};

static struct sizes sizes_of(const struct model *m)
{
    const struct model_config *c = &m->cfg;
    const size_t p = (size_t)c->patch, M = model_most_tokens(m), O = (size_t)nextdit_out_width(c);
    return (struct sizes){
        .B = (size_t)m->max.batch, .M = M, .T = model_most_rows(m), .C = (size_t)c->hidden,
        .G = (size_t)nextdit_groups(c), .E = (size_t)c->caption_channels, .F = (size_t)c->mlp_hidden,
        .S = (size_t)nextdit_second(c),
        .A = (size_t)nextdit_cond(c), .P = (size_t)model_patch_width(m), .O = O,
        .heads = (size_t)c->heads, .half = (size_t)(c->hidden / c->heads / 2),
        .image = O / (p * p) * (size_t)model_limits_pixels(&m->max),
    };
}

static void cut_top(struct nextdit_top_acts *t, struct arena *k, struct sizes z)
{
    t->real = arena_cut(k, z.M, z.half);
    t->imag = arena_cut(k, z.M, z.half);
    t->tok = arena_narrow(k, z.M, z.P);
    t->x0 = arena_cut(k, z.M, z.C);
    t->emb = arena_narrow(k, z.B, 2 * TIMESTEP_FREQS);
    t->e1 = arena_cut(k, z.B, z.A);
    t->e1s = arena_narrow(k, z.B, z.A);
    t->t = arena_cut(k, z.B, z.A);
    t->cap = arena_cut(k, z.B, z.A);
    t->c = arena_cut(k, z.B, z.A);
    t->cs = arena_narrow(k, z.B, z.A);
    t->pooled = arena_cut(k, z.B, z.E);
    t->pooled_stats = arena_cut(k, z.B, 2);
    t->pooled_y = arena_twin(k, t->pooled, z.B, z.E);
    t->pooled_n = arena_narrow(k, z.B, z.E);
    t->y = arena_twin(k, NULL, z.T, z.E);
    t->none = arena_cut(k, z.B, z.C);
    t->scale = arena_cut(k, z.B, z.C);
    t->stats = arena_cut(k, z.M, 2);
    t->h = arena_narrow(k, z.M, z.C);
    t->out = arena_cut(k, z.M, z.O);
    t->image = arena_cut(k, 1, z.image);
}

static void cut_normed(struct nextdit_normed *n, struct arena *k, size_t rows, size_t cols, bool norm)
{
    n->raw = n->normed = arena_narrow(k, rows, cols);
    if (!norm)
        return;
    n->normed = arena_narrow(k, rows, cols);
    n->stats = arena_cut(k, rows, 2);
}

static void cut_attention(struct nextdit_block_acts *a, struct arena *k, struct sizes z, bool norm)
{
    a->h1 = arena_narrow(k, z.M, z.C);
    a->h1_rstd = arena_cut(k, z.M, 1);
    a->yn = arena_narrow(k, z.T, z.E);
    a->y_rstd = arena_cut(k, z.T, 1);
    cut_normed(&a->q, k, z.M, z.C, norm);
    cut_normed(&a->k, k, z.M, z.G, norm);
    cut_normed(&a->ky, k, z.T, z.G, norm);
    a->v = arena_narrow(k, z.M, z.G);
    a->vy = arena_narrow(k, z.T, z.G);
    a->self = arena_narrow(k, z.M, z.C);
    a->cross = arena_narrow(k, z.M, z.C);
    a->both = arena_narrow(k, z.M, z.C);
    a->self_kept = arena_cut(k, z.M, z.heads);
    a->cross_kept = arena_cut(k, z.M, z.heads);
    a->attn_out = arena_narrow(k, z.M, z.C);
    a->attn_rstd = arena_cut(k, z.M, 1);
}

/* All but the residual stream. */
static void cut_block(struct nextdit_block_acts *a, struct arena *k, struct sizes z, const struct model_config *c)
{
    a->mod = arena_cut(k, z.B, 4 * z.C);
    cut_attention(a, k, z, c->qk_norm);
    a->h2 = arena_narrow(k, z.M, z.C);
    a->h2_rstd = arena_cut(k, z.M, 1);
    a->u = arena_narrow(k, z.M, z.S + z.F);
    a->g = arena_narrow(k, z.M, z.F);
    a->mlp_out = arena_narrow(k, z.M, z.C);
    a->mlp_rstd = arena_cut(k, z.M, 1);
}

static void nextdit_carve(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct nextdit *x = &m->next;
    cut_top(&x->top, k, z);
    for (int i = 0; i < m->cfg.depth; i++) {
        struct nextdit_block_acts *a = &x->ba[i];
        const bool shares = i > 0 && (!m->train || m->max.recompute);
        if (shares) {
            *a = x->ba[0];
        } else {
            cut_block(a, k, z, &m->cfg);
            a->x1 = m->train ? arena_cut(k, z.M, z.C) : x->top.x0;
        }
        /* Inference has one residual stream: earlier values are not needed. */
        a->x2 = m->train ? arena_cut(k, z.M, z.C) : x->top.x0;
        a->in = i == 0 ? x->top.x0 : x->ba[i - 1].x2;
    }
}

/* Memory of every activation. */
static void nextdit_carve_back(struct model *m, struct arena *k)
{
    const struct sizes z = sizes_of(m);
    struct nextdit_back_acts *b = &m->next.back;
    b->dx = arena_cut(k, z.M, z.C);
    b->dxn = arena_twin(k, b->dx, z.M, z.C);
    b->dh = arena_cut(k, z.M, z.C);
    b->dhn = arena_twin(k, b->dh, z.M, z.C);
    b->dy = arena_cut(k, z.T, z.E);
    b->dyn = arena_twin(k, b->dy, z.T, z.E);
    b->dcs = arena_cut(k, z.B, z.A);
    b->dcn = arena_twin(k, b->dcs, z.B, z.A);
    b->de = arena_narrow(k, z.B, z.A);
    b->a = arena_narrow(k, z.M, z.C);
    b->b = arena_narrow(k, z.M, z.C);
    b->c = arena_narrow(k, z.M, z.C);
    b->dk = arena_narrow(k, z.M, z.G);
    b->dv = arena_narrow(k, z.M, z.G);
    b->dky = arena_narrow(k, z.T, z.G);
    b->dvy = arena_narrow(k, z.T, z.G);
    b->dg = arena_narrow(k, z.M, z.F);
    b->du = arena_narrow(k, z.M, z.S + z.F);
    b->dmod = arena_cut(k, z.B, 4 * z.C);
    b->dmodn = arena_twin(k, b->dmod, z.B, 4 * z.C);
    b->dscale = arena_cut(k, z.B, z.C);
    b->dscalen = arena_twin(k, b->dscale, z.B, z.C);
    b->dnone = arena_cut(k, z.B, z.C);
    b->dpool = arena_cut(k, z.B, z.E);
    b->dpooln = arena_twin(k, b->dpool, z.B, z.E);
    b->dout = arena_narrow(k, z.M, z.O);
    b->dimage = arena_cut(k, 1, z.image);
}

#define CAPTION_EPS 1e-5f
#define FINAL_EPS   1e-6f

enum { PLACES = 384 }; /* size of the authors' table of rotations, per axis */

static int check(const struct model_config *c, const struct model_limits *max,
                 const struct kern_ops *ops, struct err *err)
{
    if (max->height / c->patch > PLACES || max->width / c->patch > PLACES)
        return err_set(err, ERR_USAGE, "latents of %d x %d are more than %d patches in a row or column",
                       max->height, max->width, PLACES);
    if (c->hidden / c->heads > ops->cross_attn_dim)
        return err_set(err, ERR_USAGE, "dim %d over n_heads %d are heads of %d channels; on %s a head has at most %d",
                       c->hidden, c->heads, c->hidden / c->heads, backend_device(), ops->cross_attn_dim);
    return 0;
}

static int open_blocks(struct model *m, struct err *err)
{
    struct nextdit *s = &m->next;
    const size_t patch = (size_t)m->cfg.patch, heads = (size_t)m->cfg.heads;
    const size_t pairs = (size_t)m->max.height / patch * ((size_t)m->max.width / patch) * ((size_t)m->cfg.hidden / heads / 2);
    s->bw = calloc((size_t)m->cfg.depth, sizeof(*s->bw));
    s->ba = calloc((size_t)m->cfg.depth, sizeof(*s->ba));
    s->grid = calloc(2 * pairs + 1, sizeof(*s->grid));
    return s->bw && s->ba && s->grid ? 0 : err_set(err, ERR_MEMORY, "no memory for a model of depth %d", m->cfg.depth);
}

static void close_blocks(struct model *m)
{
    free(m->next.bw);
    free(m->next.ba);
    free(m->next.grid);
}

static weight_at unit_from(const struct model *m, int unit)
{
    return unit == MODEL_FIRST_UNIT       ? m->next.w.pad
           : unit == model_last_unit(m) ? m->next.w.out
                                          : m->next.bw[unit - 1].gate;
}

/* --- rotary position embedding --------------------------------------------------------------- */

/* Of the pairs 2j and 2j + 1 of a head the first rotates by the row, the second by the column,
 * times 10000^(-4j/d). Made here, and copied to where the kernels run. */
static void turn_grid(struct model *m)
{
    struct nextdit_top_acts *a = &m->next.top;
    const int rows = m->height / m->cfg.patch, cols = m->width / m->cfg.patch;
    const int half = m->cfg.hidden / m->cfg.heads / 2;
    const size_t all = (size_t)(rows * cols * half);
    if (a->rows == rows && a->cols == cols)
        return;
    float *imag = m->next.grid + all;
    for (int n = 0; n < rows * cols; n++)
        for (int i = 0; i < half; i++) {
            const float freq = 1.0f / powf(10000.0f, (float)(4 * (i / 2)) / (float)(2 * half));
            const float angle = (float)(i % 2 ? n % cols : n / cols) * freq;
            m->next.grid[n * half + i] = cosf(angle);
            imag[n * half + i] = sinf(angle);
        }
    m->ops->upload(a->real, m->next.grid, all * sizeof(float));
    m->ops->upload(a->imag, imag, all * sizeof(float));
    a->rows = rows;
    a->cols = cols;
}

/* --- forward --------------------------------------------------------------------------------- */

/* c = time + caption. */
static void condition_forward(struct model *m, const struct model_input *in)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_top_weights *w = &m->next.w;
    const struct nextdit_top_acts *a = &m->next.top;
    const int B = m->batch, A = nextdit_cond(&m->cfg), E = m->cfg.caption_channels;
    const size_t n = (size_t)B * (size_t)A;
    k->time_embed_exact(a->emb, in->timestep, m->freqs, B, TIMESTEP_FREQS);
    k->linear_wide(a->e1, a->emb, model_wn(m, w->t0), model_w(m, w->t0_b), B, 2 * TIMESTEP_FREQS, A);
    k->silu(a->e1s, a->e1, n);
    k->linear_wide(a->t, a->e1s, model_wn(m, w->t2), model_w(m, w->t2_b), B, A, A);
    k->pool(a->pooled, in->y, m->first, m->text, B, E);
    k->layer_norm(a->pooled_n, E, a->pooled_stats, model_narrow(m, a->pooled_y, a->pooled, (size_t)B * (size_t)E), E,
                  model_w(m, w->cap_norm), model_w(m, w->cap_norm_b), B, E, CAPTION_EPS);
    k->linear_wide(a->cap, a->pooled_n, model_wn(m, w->cap), model_w(m, w->cap_b), B, E, A);
    k->copy(a->c, a->t, n);
    k->ema(a->c, a->cap, 1, 1, n); /* a sum of fp32; add() takes a narrow array */
    k->silu(a->cs, a->c, n);
}

/* Copies the picture's channels out of those that the last layer computes: the first of each
 * sample. */
static size_t channels_made(const struct model *m)
{
    return (size_t)(nextdit_out_width(&m->cfg) / m->cfg.patch / m->cfg.patch);
}

static struct kern_image image_made(const struct model *m)
{
    return (struct kern_image){m->batch, m->height, m->width, (int)channels_made(m)};
}

static void take_channels(const struct model *m, float *to, size_t to_channels, const float *from, size_t from_channels)
{
    const size_t pixels = (size_t)m->height * (size_t)m->width, C = (size_t)m->cfg.latent_channels;
    for (size_t b = 0; b < (size_t)m->batch; b++)
        m->ops->copy(to + b * to_channels * pixels, from + b * from_channels * pixels, C * pixels);
}

static void last_forward(struct model *m, float *out)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_top_weights *w = &m->next.w;
    const struct nextdit_top_acts *a = &m->next.top;
    const int C = m->cfg.hidden, M = m->batch * m->tokens;
    k->linear_wide(a->scale, a->cs, model_wn(m, w->ada), model_w(m, w->ada_b), m->batch, nextdit_cond(&m->cfg), C);
    k->norm_mod(a->h, a->stats, m->next.ba[m->cfg.depth - 1].x2, a->none, a->scale, C, m->batch, m->tokens,
                C, FINAL_EPS);
    k->linear_wide(a->out, a->h, model_wn(m, w->out), model_w(m, w->out_b), M, C, nextdit_out_width(&m->cfg));
    k->unpatchify(a->image, a->out, image_made(m), m->cfg.patch);
    take_channels(m, out, (size_t)m->cfg.latent_channels, a->image, channels_made(m));
}

static void first_forward(struct model *m, const struct model_input *in)
{
    struct nextdit_top_acts *a = &m->next.top;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = model_patch_width(m);
    const size_t caption = (size_t)m->rows * (size_t)m->cfg.caption_channels;
    m->ops->patch_embed(a->tok, in->x, model_image(m), m->cfg.patch);
    m->ops->linear_wide(a->x0, a->tok, model_wn(m, m->next.w.x), model_w(m, m->next.w.x_b), M, P, C);
    condition_forward(m, in);
    a->y = (void *)(uintptr_t)model_narrow(m, a->y, in->y, caption);
}

/* --- backward -------------------------------------------------------------------------------- */

static void last_backward(struct model *m, const float *dout)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_top_weights *w = &m->next.w;
    const struct nextdit_top_acts *a = &m->next.top;
    const struct nextdit_back_acts *d = &m->next.back;
    const int B = m->batch, C = m->cfg.hidden, M = B * m->tokens;
    const size_t made = channels_made(m), pixels = (size_t)m->height * (size_t)m->width;
    k->zero(d->dimage, (size_t)B * made * pixels);
    take_channels(m, d->dimage, made, dout, (size_t)m->cfg.latent_channels);
    k->patchify(d->dout, d->dimage, image_made(m), m->cfg.patch);
    k->linear_back(d->a, model_g(m, w->out), model_g(m, w->out_b), d->dout, a->h, model_wn(m, w->out), M,
                   C, nextdit_out_width(&m->cfg));
    k->zero(d->dx, (size_t)M * (size_t)C);
    k->norm_mod_back(d->dx, d->dnone, d->dscale, d->a, m->next.ba[m->cfg.depth - 1].x2, a->stats,
                     a->scale, C, B, m->tokens, C);
    k->linear_back_wide(d->dcs, 0, model_g(m, w->ada), model_g(m, w->ada_b),
                        model_narrow(m, d->dscalen, d->dscale, (size_t)B * (size_t)C), a->cs,
                        model_wn(m, w->ada), B, nextdit_cond(&m->cfg), C);
}

static void condition_backward(struct model *m)
{
    const struct kern_ops *k = m->ops;
    const struct nextdit_top_weights *w = &m->next.w;
    const struct nextdit_top_acts *a = &m->next.top;
    const struct nextdit_back_acts *d = &m->next.back;
    const int B = m->batch, A = nextdit_cond(&m->cfg), E = m->cfg.caption_channels;
    const size_t n = (size_t)B * (size_t)A;
    k->silu_back(d->dcn, model_narrow(m, d->dcn, d->dcs, n), a->c, n);
    k->linear_back(d->de, model_g(m, w->t2), model_g(m, w->t2_b), d->dcn, a->e1s, model_wn(m, w->t2), B, A, A);
    k->silu_back(d->de, d->de, a->e1, n);
    k->linear_back(NULL, model_g(m, w->t0), model_g(m, w->t0_b), d->de, a->emb, model_wn(m, w->t0), B,
                   2 * TIMESTEP_FREQS, A);
    k->linear_back_wide(d->dpool, 0, model_g(m, w->cap), model_g(m, w->cap_b), d->dcn, a->pooled_n,
                        model_wn(m, w->cap), B, E, A);
    const void *dy = model_narrow(m, d->dpooln, d->dpool, (size_t)B * (size_t)E);
    k->layer_norm_back(d->dpooln, E, model_g(m, w->cap_norm), model_g(m, w->cap_norm_b), dy, E, a->pooled_y,
                       E, a->pooled_stats, model_w(m, w->cap_norm), B, E);
}

/* Captions are inputs and get no gradient. */
static void first_backward(struct model *m, const struct model_input *in, float *dy)
{
    const int C = m->cfg.hidden, M = m->batch * m->tokens;
    struct nextdit_back_acts *d = &m->next.back;
    (void)in;
    if (dy)
        m->ops->zero(dy, (size_t)m->rows * (size_t)m->cfg.caption_channels);
    m->ops->linear_back(NULL, model_g(m, m->next.w.x), model_g(m, m->next.w.x_b),
                        model_narrow(m, d->dxn, d->dx, (size_t)M * (size_t)C), m->next.top.tok,
                        model_wn(m, m->next.w.x), M, model_patch_width(m), C);
    condition_backward(m);
}

/* --- named activations ----------------------------------------------------------------------- */

static const float *block_activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    int i, at = 0;
    if (!m->train || m->max.recompute || sscanf(name, "layers.%d%n", &i, &at) != 1 || i < 0 ||
        i >= m->cfg.depth)
        return NULL;
    const struct nextdit_block_acts *a = &m->next.ba[i];
    const int64_t n = (int64_t)m->batch * m->tokens * m->cfg.hidden;
    const struct model_named rows[] = {
        {"", a->x2, NULL, n},
        {".attention", NULL, a->attn_out, n},
        {".feed_forward", NULL, a->mlp_out, n},
    };
    return model_see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name + at, count, err);
}

static const float *activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    const struct nextdit_top_acts *a = &m->next.top;
    const int64_t B = m->batch, M = B * m->tokens, A = nextdit_cond(&m->cfg);
    const struct model_named rows[] = {
        {"x_embed", m->train ? a->x0 : NULL, NULL, M * m->cfg.hidden},
        {"t_emb", a->t, NULL, B * A},
        {"cap_emb", a->cap, NULL, B * A},
        {"final_layer", a->out, NULL, M * nextdit_out_width(&m->cfg)},
    };
    const float *top = model_see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name, count, err);
    return top ? top : block_activation(m, name, count, err);
}

const struct model_net nextdit_net = {
    .config_parse = nextdit_config_parse,
    .config_check = nextdit_config_check,
    .check = check,
    .open = open_blocks,
    .close = close_blocks,
    .declare = nextdit_declare,
    .carve = nextdit_carve,
    .carve_back = nextdit_carve_back,
    .resize = turn_grid,
    .unit_from = unit_from,
    .first_forward = first_forward,
    .block_forward = nextdit_block_forward,
    .last_forward = last_forward,
    .last_backward = last_backward,
    .block_again = nextdit_block_forward,
    .block_backward = nextdit_block_backward,
    .first_backward = first_backward,
    .activation = activation,
    .flops = nextdit_flops,
    .start = nextdit_start,
};
