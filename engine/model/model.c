/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - parts of a model common to all families: memory, sizes, units; see model.h */
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"
#include "kernels/rng.h"
#include "kernels/thread_pool.h"

static int check_limits(const struct model_config *c, const struct model_limits *max, struct err *err)
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

static int build_rest(struct model *m, struct err *err)
{
    m->ops->upload(m->freqs, timestep_freqs, sizeof(timestep_freqs));
    return model_carve(m, err) < 0 ? -1 : model_make_views(m, err);
}

/* The base is frozen: only adapters have weights and gradients as others see them. */
static int build_adapters(struct model *m, struct err *err)
{
    if (lora_create(&m->lora, m, err) < 0 || lora_alloc(m->lora, m, err) < 0 ||
        !(m->freqs = backend_alloc(m->ops, sizeof(timestep_freqs), USE_INPUTS, err)))
        return -1;
    return build_rest(m, err);
}

static int build(struct model *m, struct err *err)
{
    if (m->net->open(m, err) < 0 || layout_create(&m->layout, err) < 0 || m->net->declare(m, err) < 0)
        return -1;
    if (m->cfg.lora.rank > 0)
        return build_adapters(m, err);
    const size_t bytes = layout_floats(m->layout) * sizeof(float);
    const size_t narrow = layout_floats(m->layout) * m->ops->narrow;
    const bool whole = !m->max.by_unit;
    if ((whole && !(m->narrow = m->weights = backend_alloc(m->ops, bytes, USE_WEIGHTS, err))) ||
        (whole && m->train && !(m->grads = backend_alloc(m->ops, bytes, USE_GRADIENTS, err))) ||
        !(m->freqs = backend_alloc(m->ops, sizeof(timestep_freqs), USE_INPUTS, err)) ||
        (whole && narrow < bytes && !(m->narrow = backend_alloc(m->ops, narrow, USE_WEIGHTS, err))))
        return -1;
    return build_rest(m, err);
}

int model_create(struct model **out, const struct model_config *cfg,
                 const struct model_limits *max, bool train, struct err *err)
{
    if (model_config_check(cfg, err) < 0 || check_limits(cfg, max, err) < 0 ||
        model_net(cfg->family)->check(cfg, max, backend_ops(), err) < 0)
        return -1;
    struct model *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_MEMORY, "no memory for a model");
    m->cfg = *cfg;
    m->max = *max;
    m->train = train;
    m->ops = backend_ops();
    m->net = model_net(cfg->family);
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
    if (!m->max.by_unit && !m->lora) {
        if (m->narrow != m->weights)
            m->ops->release(m->narrow);
        if (!m->borrowed)
            m->ops->release(m->weights);
        m->ops->release(m->grads);
    }
    m->ops->release(m->acts);
    m->ops->release(m->back_acts);
    m->ops->release(m->freqs);
    lora_destroy(m->lora);
    m->net->close(m);
    free(m);
}

const struct model_config *model_config(const struct model *m)
{
    return &m->cfg;
}

bool model_goes_to_data(const struct model *m)
{
    return m->cfg.family == MODEL_NEXTDIT;
}

const struct layout *model_layout(const struct model *m)
{
    return m->lora ? lora_layout(m->lora) : m->layout;
}

const struct layout *model_base_layout(const struct model *m)
{
    return m->layout;
}

struct lora *model_lora(const struct model *m)
{
    return m->lora;
}

/* In place of that of all weights. */
static int layout_of_adapters(struct model *m, struct err *err)
{
    struct lora *l;
    if (lora_create(&l, m, err) < 0)
        return -1;
    layout_destroy(m->layout);
    m->layout = lora_take_layout(l);
    lora_destroy(l);
    return 0;
}

int model_layout_make(struct layout **out, const struct model_config *cfg, struct err *err)
{
    struct model m = {.cfg = *cfg, .net = model_net(cfg->family)};
    if (model_config_check(cfg, err) < 0)
        return -1;
    int rc = m.net->open(&m, err);
    if (rc == 0 && (rc = layout_create(&m.layout, err)) == 0)
        rc = m.net->declare(&m, err);
    if (rc == 0 && cfg->lora.rank > 0)
        rc = layout_of_adapters(&m, err);
    m.net->close(&m);
    if (rc < 0)
        layout_destroy(m.layout);
    else
        *out = m.layout;
    return rc;
}

int64_t model_bytes(const struct model *m)
{
    if (m->lora)
        return (int64_t)(layout_floats(m->layout) * (m->cfg.lora.base_fp32 ? 4 : 2) +
                         (m->max.by_unit ? 0 : layout_floats(model_layout(m)) * (m->train ? 2 : 1) * sizeof(float)) +
                         (m->acts_floats + m->back_floats) * sizeof(float) + sizeof(*m));
    const size_t blocks = m->max.by_unit ? 0 : m->grads ? 2 : 1;
    const size_t narrow = m->max.by_unit || m->narrow == m->weights ? 0 : m->ops->narrow;
    return (int64_t)(layout_floats(m->layout) * (blocks * sizeof(float) + narrow) +
                     (m->acts_floats + m->back_floats) * sizeof(float) + sizeof(*m));
}

/* Sets the sizes of the current batch, or reports why they do not fit. */
int model_set_sizes(struct model *m, const struct model_input *in, struct err *err)
{
    const int p = m->cfg.patch;
    if (in->batch < 1 || in->height < 1 || in->width < 1 || in->text < 1 || in->height % p ||
        in->width % p)
        return err_set(err, ERR_USAGE, "latents of %d x %d are not a multiple of patches of %d",
                       in->height, in->width, p);
    const int64_t tokens = (int64_t)(in->height / p) * (in->width / p);
    if (in->batch > m->max.batch || in->text > m->max.text ||
        tokens > (int64_t)(m->max.height / p) * (m->max.width / p) ||
        (int64_t)in->batch * in->height * in->width > model_limits_pixels(&m->max))
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d with %d caption tokens is larger "
                       "than the %d x %d x %d with %d that the model was created for", in->batch,
                       in->height, in->width, in->text, m->max.batch, m->max.height, m->max.width,
                       m->max.text);
    if (in->first && (in->rows < in->batch || in->rows > in->batch * in->text))
        return err_set(err, ERR_BUG, "captions of %d tokens at most cannot be %d rows for a batch of "
                       "%d", in->text, in->rows, in->batch);
    m->batch = in->batch;
    m->first = in->first;
    m->mask = in->mask;
    m->rows = in->first ? in->rows : in->batch * in->text;
    m->height = in->height;
    m->width = in->width;
    m->text = in->text;
    m->tokens = (int)tokens;
    if (m->net->resize)
        m->net->resize(m);
    return 0;
}

static void enter_unit(struct model *m, int unit, bool backward)
{
    if (m->lora) {
        lora_enter(m->lora, m, unit, backward);
        return;
    }
    if (!m->max.by_unit)
        return;
    m->unit_from = (size_t)m->net->unit_from(m, unit);
    m->grads = NULL;
    m->units.need(m->units.arg, unit, &m->weights, &m->narrow, backward ? &m->grads : NULL);
}

/* After its backward pass. */
static void leave_unit(struct model *m, int unit)
{
    if (m->lora) {
        lora_leave(m->lora, m, unit);
        return;
    }
    if (m->max.by_unit)
        m->units.done(m->units.arg, unit);
    if (m->on_ready && unit != MODEL_FIRST_UNIT)
        m->on_ready(m->on_ready_arg, (size_t)m->net->unit_from(m, unit));
}

void model_on_units(struct model *m, const struct model_units *units)
{
    m->units = *units;
}

static void leave_idle(struct model *m, int unit)
{
    const model_ready_fn ready = m->on_ready;
    m->on_ready = NULL;
    leave_unit(m, unit);
    m->on_ready = ready;
}

void model_pass_idle(struct model *m)
{
    if (!m->max.by_unit)
        return;
    for (int u = MODEL_FIRST_UNIT; u <= model_last_unit(m); u++)
        enter_unit(m, u, false);
    for (int u = model_last_unit(m); u >= MODEL_FIRST_UNIT; u--) {
        enter_unit(m, u, true);
        leave_idle(m, u);
    }
}

struct kern_image model_image(const struct model *m)
{
    return (struct kern_image){m->batch, m->height, m->width, m->cfg.latent_channels};
}

int model_forward(struct model *m, const struct model_input *in, float *out, struct err *err)
{
    if (model_set_sizes(m, in, err) < 0)
        return -1;
    enter_unit(m, MODEL_FIRST_UNIT, false);
    m->net->first_forward(m, in);
    for (int i = 0; i < m->cfg.depth; i++) {
        enter_unit(m, i + 1, false);
        m->net->block_forward(m, i);
    }
    enter_unit(m, model_last_unit(m), false);
    m->net->last_forward(m, out);
    return 0;
}

void model_on_ready(struct model *m, model_ready_fn fn, void *arg)
{
    m->on_ready = fn;
    m->on_ready_arg = arg;
}

bool model_calls_back(const struct model *m)
{
    return m->on_ready || m->max.by_unit;
}

/* Units are left as soon as their gradients are complete. */
static void backward(struct model *m, const struct model_input *in, const float *dout, float *dy)
{
    const int last = model_last_unit(m);
    enter_unit(m, last, true);
    m->net->last_backward(m, dout);
    leave_unit(m, last);
    for (int i = m->cfg.depth - 1; i >= 0; i--) {
        enter_unit(m, i + 1, true);
        if (m->max.recompute && i < m->cfg.depth - 1)
            m->net->block_again(m, i);
        m->net->block_backward(m, i);
        leave_unit(m, i + 1);
    }
    if (m->lora && !dy) /* nothing before the blocks is trained */
        return;
    enter_unit(m, MODEL_FIRST_UNIT, true);
    m->net->first_backward(m, in, dy);
    leave_unit(m, MODEL_FIRST_UNIT);
}

int model_backward(struct model *m, const struct model_input *in, const float *dout, float *dy, struct err *err)
{
    if (!m->train)
        return err_set(err, ERR_BUG, "a model created for inference has no backward pass");
    if (in->batch != m->batch || in->height != m->height || in->width != m->width ||
        in->text != m->text || (in->first ? in->rows : in->batch * in->text) != m->rows)
        return err_set(err, ERR_BUG, "the backward pass got a different batch from the forward pass");
    backward(m, in, dout, dy);
    return 0;
}

const float *model_see_named(struct model *m, const struct model_named *rows, int count,
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

const float *model_activation(struct model *m, const char *name, int64_t *count, struct err *err)
{
    return m->net->activation(m, name, count, err);
}

double model_forward_flops(const struct model_config *c, int batch, int height, int width, int text)
{
    return model_net(c->family)->flops(c, batch, height, width, text);
}

static const float *stage(const struct model *m, float *to, const float *from, size_t count)
{
    m->ops->upload(to, from, count * sizeof(float));
    return to;
}

int model_forward_host(struct model *m, const struct model_input *in, float *out, struct err *err)
{
    if (m->ops->host)
        return model_forward(m, in, out, err);
    const struct model_config *c = &m->cfg;
    const struct model_limits *z = &m->max;
    if (in->batch < 1 || in->batch > z->batch || in->height < 1 || in->height > z->height ||
        in->width < 1 || in->width > z->width || in->text < 1 || in->text > z->text ||
        (int64_t)in->batch * in->height * in->width > model_limits_pixels(z) ||
        (in->first && in->rows > in->batch * in->text))
        return err_set(err, ERR_USAGE, "the batch is larger than the model was created for");
    const size_t B = (size_t)in->batch, text = in->first ? (size_t)in->rows : B * (size_t)in->text;
    const size_t latent = B * (size_t)c->latent_channels * (size_t)in->height * (size_t)in->width;
    struct model_input there = *in;
    there.x = stage(m, m->stage.x, in->x, latent);
    there.timestep = stage(m, m->stage.timestep, in->timestep, B);
    there.y = stage(m, m->stage.y, in->y, text * (size_t)c->caption_channels);
    there.mask = stage(m, m->stage.mask, in->mask, text);
    if (in->first) {
        m->ops->upload(m->stage.first, in->first, (B + 1) * sizeof(*in->first));
        there.first = m->stage.first;
    }
    if (model_forward(m, &there, m->stage.out, err) < 0)
        return -1;
    m->ops->download(out, m->stage.out, latent * sizeof(float));
    return backend_check(m->ops, err);
}

enum { PIECE = 2048, /* numbers that stay in the cache between drawing and scaling */ WORK = 4 };

static uint64_t name_id(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

/* Numbers first, first + 1, ... of a tensor, into p. */
struct draw {
    struct model_start start;
    struct rng         stream;
    uint64_t           first;
    float             *p;
};

static void draw_piece(const struct draw *d, size_t from, size_t to)
{
    const double value = d->start.value;
    float *p = d->p;
    switch (d->start.draw) {
    case DRAW_CONSTANT:
        for (size_t i = from; i < to; i++)
            p[i] = (float)value;
        break;
    case DRAW_UNIFORM:
        rng_uniform(&d->stream, p + from, d->first + from, to - from);
        for (size_t i = from; i < to; i++)
            p[i] = (float)(value * (2 * (double)p[i] - 1));
        break;
    case DRAW_NORMAL:
        rng_normal(&d->stream, p + from, d->first + from, to - from);
        for (size_t i = from; i < to; i++)
            p[i] = (float)(value * (double)p[i]);
        break;
    }
}

static void draw_range(const void *arg, size_t from, size_t to)
{
    for (; from < to; from += PIECE)
        draw_piece(arg, from, from + PIECE < to ? from + PIECE : to);
}

/* As peft draws them with init_lora_weights: gaussian: B = 0, so that training begins with the base. */
static struct model_start adapter_start(const struct lora *l, int tensor)
{
    const struct lora_adapter *a = lora_of_tensor(l, tensor);
    return tensor == a->a ? (struct model_start){DRAW_NORMAL, 1.0 / a->rank} : (struct model_start){DRAW_CONSTANT, 0};
}

void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed, float *out)
{
    const struct tensor *t = layout_at(model_layout(m), tensor);
    const struct draw d = {
        .start = m->lora ? adapter_start(m->lora, tensor) : m->net->start(&m->cfg, t),
        .stream = rng_make(seed, 0, name_id(t->name), RNG_WEIGHTS),
        .first = from,
        .p = out,
    };
    thread_pool_range(to - from, PIECE, WORK, draw_range, &d);
}

void model_init_weights(struct model *m, uint64_t seed)
{
    for (int i = 0; i < layout_len(model_layout(m)); i++) {
        const struct tensor *t = layout_at(model_layout(m), i);
        model_init_range(m, i, 0, t->count, seed, m->host_weights + t->offset);
    }
}
