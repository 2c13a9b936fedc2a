/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - SanaMS from patches to patches; see model.h
 *
 * Timestep, caption and image enter here, run through the blocks
 * (model_block.c), and leave through the final layer.
 */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/err.h"
#include "engine/layout.h"
#include "engine/model_parts.h"
#include "engine/timestep_freqs.h"

enum { FINAL_ROWS = 2 }; /* shift and scale */

static int check_limits(const struct model_config *c, const struct model_limits *max,
                        struct err *err)
{
    if (max->batch < 1 || max->height < c->patch || max->width < c->patch || max->text < 1 ||
        max->batch > 1 << 20 || max->height > 1 << 14 || max->width > 1 << 14)
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d with %d caption tokens is not "
                       "possible", max->batch, max->height, max->width, max->text);
    if (max->text > c->caption_len)
        return err_set(err, ERR_USAGE, "captions of %d tokens are longer than model_max_length %d",
                       max->text, c->caption_len);
    return 0;
}

static int check_device(const struct kern_ops *ops, const struct model_config *c, struct err *err)
{
    if (c->linear_head_dim > ops->lin_attn_dim)
        return err_set(err, ERR_USAGE, "linear_head_dim is %d, and %s computes linear attention "
                       "with heads of at most %d channels", c->linear_head_dim, backend_device(),
                       ops->lin_attn_dim);
    if (c->hidden / c->heads > ops->cross_attn_dim)
        return err_set(err, ERR_USAGE, "num_heads is %d, so that heads of cross attention have %d "
                       "channels, and %s computes it with at most %d", c->heads,
                       c->hidden / c->heads, backend_device(), ops->cross_attn_dim);
    return 0;
}

static int build(struct model *m, struct err *err)
{
    m->bw = calloc((size_t)m->cfg.depth, sizeof(*m->bw));
    m->ba = calloc((size_t)m->cfg.depth, sizeof(*m->ba));
    if (!m->bw || !m->ba)
        return err_set(err, ERR_MEMORY, "no memory for a model of depth %d", m->cfg.depth);
    if (layout_create(&m->layout, err) < 0 || model_declare(m, err) < 0)
        return -1;
    const size_t bytes = layout_floats(m->layout) * sizeof(float);
    void *weights = NULL, *grads = NULL, *freqs = NULL, *narrow = NULL;
    const bool whole = !m->max.by_unit;
    int r = 0;
    if (whole)
        r = backend_alloc(m->ops, &weights, bytes, USE_WEIGHTS, err);
    if (r == 0 && whole && m->train)
        r = backend_alloc(m->ops, &grads, bytes, USE_GRADIENTS, err);
    if (r == 0)
        r = backend_alloc(m->ops, &freqs, sizeof(timestep_freqs), USE_INPUTS, err);
    if (r == 0 && whole && m->ops->narrow < sizeof(float))
        r = backend_alloc(m->ops, &narrow, bytes / sizeof(float) * m->ops->narrow, USE_WEIGHTS,
                          err);
    m->weights = weights;
    m->narrow = narrow ? narrow : weights;
    m->grads = grads;
    m->freqs = freqs;
    if (r < 0)
        return -1;
    m->ops->upload(m->freqs, timestep_freqs, sizeof(timestep_freqs));
    return model_carve(m, err) < 0 ? -1 : model_make_views(m, err);
}

int model_create(struct model **out, const struct model_config *cfg,
                 const struct model_limits *max, bool train, struct err *err)
{
    if (model_config_check(cfg, err) < 0 || check_limits(cfg, max, err) < 0 ||
        check_device(backend_ops(), cfg, err) < 0)
        return -1;
    struct model *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_MEMORY, "no memory for a model");
    m->cfg = *cfg;
    m->max = *max;
    m->train = train;
    m->ops = backend_ops();
    if (build(m, err) < 0) {
        model_destroy(m);
        return -1;
    }
    *out = m;
    return 0;
}

void model_destroy(struct model *m)
{
    if (!m)
        return;
    model_free_views(m);
    layout_destroy(m->layout);
    if (!m->max.by_unit) {
        if (m->narrow != m->weights)
            m->ops->release(m->narrow);
        if (!m->guest)
            m->ops->release(m->weights);
        m->ops->release(m->grads);
    }
    m->ops->release(m->acts);
    m->ops->release(m->back_acts);
    m->ops->release(m->freqs);
    free(m->bw);
    free(m->ba);
    free(m);
}

const struct model_config *model_config(const struct model *m)
{
    return &m->cfg;
}

const struct layout *model_layout(const struct model *m)
{
    return m->layout;
}

int64_t model_bytes(const struct model *m)
{
    const size_t blocks = m->max.by_unit ? 0 : m->grads ? 2 : 1;
    const size_t narrow = m->max.by_unit || m->narrow == m->weights ? 0 : m->ops->narrow;
    return (int64_t)(layout_floats(m->layout) * (blocks * sizeof(float) + narrow) +
                     (m->acts_floats + m->back_floats) * sizeof(float) +
                     (size_t)m->cfg.depth * (sizeof(*m->bw) + sizeof(*m->ba)) + sizeof(*m));
}

/* Takes the sizes of the batch in hand, or says why they do not fit. */
int model_set_sizes(struct model *m, const struct model_input *in, struct err *err)
{
    const int p = m->cfg.patch;
    if (in->batch < 1 || in->height < 1 || in->width < 1 || in->text < 1 || in->height % p ||
        in->width % p)
        return err_set(err, ERR_USAGE, "latents of %d x %d do not divide into patches of %d",
                       in->height, in->width, p);
    const int64_t tokens = (int64_t)(in->height / p) * (in->width / p);
    if (in->batch > m->max.batch || in->text > m->max.text ||
        tokens > (int64_t)(m->max.height / p) * (m->max.width / p) ||
        (int64_t)in->batch * in->height * in->width > model_limits_pixels(&m->max))
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d with %d caption tokens is larger "
                       "than the %d x %d x %d with %d that the model was made for", in->batch,
                       in->height, in->width, in->text, m->max.batch, m->max.height, m->max.width,
                       m->max.text);
    if (in->first && (in->rows < in->batch || in->rows > in->batch * in->text))
        return err_set(err, ERR_BUG, "captions of %d tokens at most cannot be %d rows for a batch of "
                       "%d", in->text, in->rows, in->batch);
    m->batch = in->batch;
    m->first = in->first;
    m->rows = in->first ? in->rows : in->batch * in->text;
    m->height = in->height;
    m->width = in->width;
    m->text = in->text;
    m->tokens = (int)tokens;
    return 0;
}

/* The units of the layout: what comes before the blocks, the blocks, what comes after. */
enum { FIRST_UNIT };

static int last_unit(const struct model *m)
{
    return m->cfg.depth + 1;
}

static void enter_unit(struct model *m, int unit, bool backward)
{
    if (!m->max.by_unit)
        return;
    const weight_at from = unit == FIRST_UNIT      ? m->w.x
                           : unit == last_unit(m) ? m->w.table
                                                  : m->bw[unit - 1].table;
    m->unit_from = (size_t)from;
    m->grads = NULL;
    m->units.need(m->units.arg, unit, &m->weights, &m->narrow, backward ? &m->grads : NULL);
}

static void leave_unit(struct model *m, int unit)
{
    if (m->max.by_unit)
        m->units.done(m->units.arg, unit);
}

void model_on_units(struct model *m, const struct model_units *units)
{
    m->units = *units;
}

void model_pass_idle(struct model *m)
{
    for (int u = FIRST_UNIT; u <= last_unit(m); u++)
        enter_unit(m, u, false);
    for (int u = last_unit(m); u >= FIRST_UNIT; u--) {
        enter_unit(m, u, true);
        leave_unit(m, u);
    }
}

static struct kern_image latent_image(const struct model *m)
{
    return (struct kern_image){m->batch, m->height, m->width, m->cfg.latent_channels};
}

static int patch_width(const struct model *m)
{
    return m->cfg.latent_channels * m->cfg.patch * m->cfg.patch;
}

static void timestep_forward(struct model *m, const float *timestep)
{
    const struct kern_ops *k = m->ops;
    struct top_acts *a = &m->top;
    const int B = m->batch, C = m->cfg.hidden;
    const size_t n = (size_t)B * (size_t)C;
    k->time_embed(a->emb, timestep, m->freqs, B, TIMESTEP_FREQS);
    k->linear_wide(a->e1, a->emb, model_wn(m, m->w.t0), model_w(m, m->w.t0_b), B,
                   2 * TIMESTEP_FREQS, C);
    k->silu(a->e1s, a->e1, n);
    k->linear_wide(a->t, a->e1s, model_wn(m, m->w.t2), model_w(m, m->w.t2_b), B, C, C);
    k->silu(a->ts, a->t, n);
    k->linear_wide(a->t0, a->ts, model_wn(m, m->w.tb), model_w(m, m->w.tb_b), B, C, 6 * C);
}

static void caption_forward(struct model *m, const float *y)
{
    const struct kern_ops *k = m->ops;
    struct top_acts *a = &m->top;
    const int T = m->rows, C = m->cfg.hidden, D = m->cfg.caption_channels;
    const void *yn = model_narrow(m, a->yn, y, (size_t)T * (size_t)D);
    k->linear(a->y1, yn, model_wn(m, m->w.y1), model_wn(m, m->w.y1_b), T, D, C);
    k->gelu(a->y1g, a->y1, (size_t)T * (size_t)C);
    k->linear(a->y2, a->y1g, model_wn(m, m->w.y2), model_wn(m, m->w.y2_b), T, C, C);
    if (m->cfg.y_norm)
        k->rms_norm(a->y, C, a->y_rstd, a->y2, C, model_w(m, m->w.y_norm), T, C,
                    m->cfg.y_norm_eps);
}

int model_forward(struct model *m, const struct model_input *in, float *out, struct err *err)
{
    if (model_set_sizes(m, in, err) < 0)
        return -1;
    const struct kern_ops *k = m->ops;
    struct top_acts *a = &m->top;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = patch_width(m);
    enter_unit(m, FIRST_UNIT, false);
    k->patch_embed(a->tok, in->x, latent_image(m), m->cfg.patch);
    k->linear_wide(a->x0, a->tok, model_wn(m, m->w.x), model_w(m, m->w.x_b), M, P, C);
    timestep_forward(m, in->timestep);
    caption_forward(m, in->y);
    for (int i = 0; i < m->cfg.depth; i++) {
        enter_unit(m, i + 1, false);
        block_forward(m, i, a->y, in->mask);
    }
    enter_unit(m, last_unit(m), false);
    /* The final layer is modulated by t itself: one row for shift and scale. */
    k->mod_add(a->mod, model_w(m, m->w.table), a->t, C, 0, m->batch, FINAL_ROWS, C);
    block_leave(m, a->h, a->stats, a->mod, FINAL_ROWS * C);
    k->linear_wide(a->out, a->h, model_wn(m, m->w.out), model_w(m, m->w.out_b), M, C, P);
    k->unpatchify(out, a->out, latent_image(m), m->cfg.patch);
    return 0;
}

static void final_backward(struct model *m, const float *dout)
{
    const struct kern_ops *k = m->ops;
    const struct top_acts *a = &m->top;
    struct back_acts *d = &m->back;
    const int C = m->cfg.hidden, M = m->batch * m->tokens, P = patch_width(m);
    k->patchify(d->dout, dout, latent_image(m), m->cfg.patch);
    k->linear_back(d->a, model_g(m, m->w.out), model_g(m, m->w.out_b), d->dout, a->h,
                   model_wn(m, m->w.out), M, C, P);
    block_leave_back(m, d->dtop, a->stats, a->mod, FINAL_ROWS * C);
    k->zero(d->dt, (size_t)m->batch * (size_t)C);
    k->mod_add_back(model_g(m, m->w.table), d->dt, C, 0, d->dtop, m->batch, FINAL_ROWS, C);
}

static void timestep_backward(struct model *m)
{
    const struct kern_ops *k = m->ops;
    const struct top_acts *a = &m->top;
    struct back_acts *d = &m->back;
    const int B = m->batch, C = m->cfg.hidden;
    const size_t n = (size_t)B * (size_t)C;
    k->linear_back(d->ta, model_g(m, m->w.tb), model_g(m, m->w.tb_b),
                   model_narrow(m, d->dt0n, d->dt0, 6 * n), a->ts, model_wn(m, m->w.tb), B, C,
                   6 * C);
    k->silu_back(d->ta, d->ta, a->t, n);
    k->add(d->dt, d->dt, d->ta, n);
    k->linear_back(d->ta, model_g(m, m->w.t2), model_g(m, m->w.t2_b),
                   model_narrow(m, d->dtn, d->dt, n), a->e1s, model_wn(m, m->w.t2), B, C, C);
    k->silu_back(d->ta, d->ta, a->e1, n);
    k->linear_back(NULL, model_g(m, m->w.t0), model_g(m, m->w.t0_b), d->ta, a->emb,
                   model_wn(m, m->w.t0), B, 2 * TIMESTEP_FREQS, C);
}

static void caption_backward(struct model *m, const float *y, float *dy)
{
    const struct kern_ops *k = m->ops;
    const struct top_acts *a = &m->top;
    struct back_acts *d = &m->back;
    const int T = m->rows, C = m->cfg.hidden, D = m->cfg.caption_channels;
    const void *yn = m->ops->narrow == sizeof(*y) ? y : a->yn;
    model_narrow(m, d->dyn, d->dy, (size_t)T * (size_t)C);
    if (m->cfg.y_norm)
        k->rms_norm_back(d->dyn, C, model_g(m, m->w.y_norm), d->dyn, C, a->y2, C, a->y_rstd,
                         model_w(m, m->w.y_norm), T, C);
    k->linear_back(d->ya, model_g(m, m->w.y2), model_g(m, m->w.y2_b), d->dyn, a->y1g,
                   model_wn(m, m->w.y2), T, C, C);
    k->gelu_back(d->ya, d->ya, a->y1, (size_t)T * (size_t)C);
    k->linear_back_wide(dy, 0, model_g(m, m->w.y1), model_g(m, m->w.y1_b), d->ya, yn,
                        model_wn(m, m->w.y1), T, D, C);
}

void model_on_ready(struct model *m, model_ready_fn fn, void *arg)
{
    m->on_ready = fn;
    m->on_ready_arg = arg;
}

bool model_has_on_ready(const struct model *m)
{
    return m->on_ready != NULL;
}

static void tell_ready(struct model *m, weight_at from)
{
    if (m->on_ready)
        m->on_ready(m->on_ready_arg, (size_t)from);
}

int model_backward(struct model *m, const struct model_input *in, const float *dout, float *dy,
                   struct err *err)
{
    if (!m->train)
        return err_set(err, ERR_BUG, "a model made for inference cannot go backward");
    if (in->batch != m->batch || in->height != m->height || in->width != m->width ||
        in->text != m->text || (in->first ? in->rows : in->batch * in->text) != m->rows)
        return err_set(err, ERR_BUG, "the backward pass got another batch than the forward pass");
    const int C = m->cfg.hidden, M = m->batch * m->tokens;
    enter_unit(m, last_unit(m), true);
    final_backward(m, dout);
    leave_unit(m, last_unit(m));
    tell_ready(m, m->w.table);
    m->ops->zero(m->back.dt0, (size_t)m->batch * 6 * (size_t)C);
    for (int i = m->cfg.depth - 1; i >= 0; i--) {
        enter_unit(m, i + 1, true);
        if (m->max.recompute && i < m->cfg.depth - 1)
            block_again(m, i, m->top.y, in->mask);
        block_backward(m, i, m->top.y, in->mask);
        leave_unit(m, i + 1);
        tell_ready(m, m->bw[i].table);
    }
    enter_unit(m, FIRST_UNIT, true);
    m->ops->linear_back(NULL, model_g(m, m->w.x), model_g(m, m->w.x_b),
                        model_narrow(m, m->back.dxn, m->back.dx, (size_t)M * (size_t)C),
                        m->top.tok, model_wn(m, m->w.x), M, patch_width(m), C);
    timestep_backward(m);
    caption_backward(m, in->y, dy);
    leave_unit(m, FIRST_UNIT);
    return 0;
}

/* An array, fp32 or narrow, that may be asked for by name. */
struct named {
    const char  *name;
    const float *wide;
    const void  *narrow;
    int64_t      count;
};

static const float *see_named(struct model *m, const struct named *rows, int count,
                              const char *name, int64_t *n, struct err *err)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, rows[i].name) == 0 && (rows[i].wide || rows[i].narrow)) {
            *n = rows[i].count;
            return rows[i].wide ? model_see(m, rows[i].wide, *n, err)
                                : model_see_narrow(m, rows[i].narrow, *n, err);
        }
    return NULL;
}

static const float *block_activation(struct model *m, const char *name, int64_t *count,
                                     struct err *err)
{
    int i, at = 0;
    if (!m->train || m->max.recompute || sscanf(name, "blocks.%d%n", &i, &at) != 1 || i < 0 ||
        i >= m->cfg.depth)
        return NULL;
    const struct block_acts *a = &m->ba[i];
    const int64_t n = (int64_t)m->batch * m->tokens * m->cfg.hidden;
    const struct named rows[] = {
        {"", a->x3, NULL, n},
        {".attn", NULL, a->attn_out, n},
        {".cross_attn", NULL, a->cross_out, n},
        {".mlp", NULL, a->mlp_out, n},
    };
    return see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name + at, count, err);
}

const float *model_activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    const struct top_acts *a = &m->top;
    const int64_t B = m->batch, T = m->rows, M = B * m->tokens, C = m->cfg.hidden;
    const struct named rows[] = {
        {"x_embedder", m->train ? a->x0 : NULL, NULL, M * C},
        {"t_embedder", a->t, NULL, B * C},
        {"t_block", a->t0, NULL, B * 6 * C},
        {"y_embedder", NULL, a->y2, T * C},
        {"attention_y_norm", NULL, m->cfg.y_norm ? a->y : NULL, T * C},
        {"final_layer", a->out, NULL, M * patch_width(m)},
    };
    const float *top = see_named(m, rows, sizeof(rows) / sizeof(rows[0]), name, count, err);
    return top ? top : block_activation(m, name, count, err);
}
