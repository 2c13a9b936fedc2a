/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c - see optim.h
 *
 * AdamW and EMA see the trained tensors as ranges of the block, gaps included:
 * a gap's gradient is zero and keeps it zero.  CAME works tensor by tensor.
 * The clip factor is handed to the kernels, so the gradients are read once.
 */
#include "engine/optim.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/err.h"
#include "engine/layout.h"
#include "kernels/kernels.h"

struct range {
    size_t offset, count;
};

/* A kernel array and its view here; on the CPU one and the same. */
struct block {
    float *at, *here;
    size_t count;
};

struct optim {
    struct optim_config    cfg;
    const struct kern_ops *ops;
    const struct layout   *layout;
    int64_t                count;
    struct block           m, v, ema;    /* of the layout; v only with AdamW */
    struct block           factors;      /* CAME: everything but m */
    struct kern_came_state *came;        /* [layout_len], kernel arrays */
    struct range          *range;        /* trained tensors that touch, merged */
    int                    ranges;
    struct optim_state    *state;
    int                    states;
};

static int check_config(const struct optim_config *c, struct err *err)
{
    const int betas = c->type == OPTIM_CAME ? 3 : 2;
    for (int i = 0; i < betas; i++)
        if (!(c->beta[i] >= 0 && c->beta[i] < 1))
            return err_set(err, ERR_USAGE, "beta%d is %g; it must be from 0 to below 1", i + 1,
                           c->beta[i]);
    if (!(c->eps[0] > 0) || (c->type == OPTIM_CAME && !(c->eps[1] > 0)))
        return err_set(err, ERR_USAGE, "eps must be above 0");
    if (!(c->weight_decay >= 0) || !(c->clip >= 0))
        return err_set(err, ERR_USAGE, "weight_decay and clip must be 0 or more");
    if (c->type == OPTIM_CAME && !(c->clip_threshold > 0))
        return err_set(err, ERR_USAGE, "clip_threshold must be above 0");
    if (!(c->ema >= 0 && c->ema < 1))
        return err_set(err, ERR_USAGE, "the EMA rate is %g; it must be from 0 (none) to below 1",
                       c->ema);
    return 0;
}

/* [o, i] and [o, i, 1, 1] are matrices to CAME; all else is not. */
static bool is_factored(const struct tensor *t)
{
    return t->ndim == 2 || (t->ndim == 4 && t->dim[2] == 1 && t->dim[3] == 1);
}

static size_t padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static int alloc_block(struct optim *o, struct block *b, size_t count, enum backend_use use,
                       struct err *err)
{
    void *at = NULL, *here = NULL;
    const size_t bytes = (count ? count : 16) * sizeof(float);
    if (backend_alloc(o->ops, &at, bytes, use, err) < 0)
        return -1;
    *b = (struct block){at, at, count};
    if (o->ops->host)
        return 0;
    const int r = backend_here(&here, bytes, err);
    b->here = here;
    return r;
}

static void free_block(struct optim *o, struct block *b)
{
    o->ops->release(b->at);
    if (!o->ops->host)
        backend_here_free(b->here);
}

static int make_ranges(struct optim *o, struct err *err)
{
    const struct layout *l = o->layout;
    o->range = calloc((size_t)layout_len(l) + 1, sizeof(*o->range));
    if (!o->range)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        struct range *last = o->ranges ? &o->range[o->ranges - 1] : NULL;
        if (t->kind != TENSOR_PARAM)
            continue;
        if (last && padded(last->offset + last->count) == t->offset)
            last->count = t->offset + t->count - last->offset;
        else
            o->range[o->ranges++] = (struct range){t->offset, t->count};
    }
    return 0;
}

static void add_state(struct optim *o, const char *prefix, const char *name, float *data, int ndim,
                      const int64_t *dim)
{
    struct optim_state *s = &o->state[o->states++];
    snprintf(s->name, sizeof(s->name), "%s.%s", prefix, name);
    s->ndim = ndim;
    s->data = data;
    s->count = 1;
    for (int i = 0; i < ndim; i++) {
        s->dim[i] = dim[i];
        s->count *= dim[i];
    }
}

/* Lays CAME's rows and columns out in one block, kernel arrays or views; from NULL it only
 * counts. */
static size_t place_factors(const struct optim *o, struct kern_came_state *to, float *base,
                            float *m)
{
    size_t used = 0, work = 0;
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        if (t->kind != TENSOR_PARAM)
            continue;
        const size_t rows = is_factored(t) ? (size_t)t->dim[0] : 0;
        const size_t cols = rows ? t->count / rows : 0;
        float *at = base ? base + used : NULL;
        if (base)
            to[i] = (struct kern_came_state){
                .rows = (int)rows, .cols = (int)cols, .m = m + t->offset,
                .v = rows ? NULL : at,
                .row = rows ? at : NULL,
                .res_row = rows ? at + padded(rows) : NULL,
                .col = rows ? at + 2 * padded(rows) : NULL,
                .res_col = rows ? at + 2 * padded(rows) + padded(cols) : NULL,
            };
        used += rows ? 2 * (padded(rows) + padded(cols)) : padded(t->count);
        work = padded(t->count) > work ? padded(t->count) : work;
    }
    for (int i = 0; base && i < layout_len(o->layout); i++)
        to[i].work = base + used;
    return used + work;
}

static int make_came(struct optim *o, struct err *err)
{
    o->came = calloc((size_t)layout_len(o->layout) + 1, sizeof(*o->came));
    if (!o->came)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    if (alloc_block(o, &o->m, layout_floats(o->layout), USE_OPTIMIZER, err) < 0 ||
        alloc_block(o, &o->factors, place_factors(o, NULL, NULL, NULL), USE_OPTIMIZER, err) < 0)
        return -1;
    place_factors(o, o->came, o->factors.at, o->m.at);
    return 0;
}

static void name_came(struct optim *o, const struct tensor *t, const struct kern_came_state *s)
{
    const int64_t rows[] = {s->rows}, cols[] = {s->cols};
    add_state(o, "came.m", t->name, s->m, t->ndim, t->dim);
    if (!s->rows) {
        add_state(o, "came.v", t->name, s->v, t->ndim, t->dim);
        return;
    }
    add_state(o, "came.r", t->name, s->row, 1, rows);
    add_state(o, "came.c", t->name, s->col, 1, cols);
    add_state(o, "came.res_r", t->name, s->res_row, 1, rows);
    add_state(o, "came.res_c", t->name, s->res_col, 1, cols);
}

static int name_states(struct optim *o, struct err *err)
{
    o->state = calloc((size_t)layout_len(o->layout) * 6 + 1, sizeof(*o->state));
    struct kern_came_state *here = calloc((size_t)layout_len(o->layout) + 1, sizeof(*here));
    if (!o->state || !here) {
        free(here);
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    }
    if (o->cfg.type == OPTIM_CAME)
        place_factors(o, here, o->factors.here, o->m.here);
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        if (t->kind != TENSOR_PARAM)
            continue;
        if (o->cfg.type == OPTIM_CAME) {
            name_came(o, t, &here[i]);
        } else {
            add_state(o, "adamw.m", t->name, o->m.here + t->offset, t->ndim, t->dim);
            add_state(o, "adamw.v", t->name, o->v.here + t->offset, t->ndim, t->dim);
        }
        if (o->ema.at)
            add_state(o, "ema", t->name, o->ema.here + t->offset, t->ndim, t->dim);
    }
    free(here);
    return 0;
}

static int build(struct optim *o, struct err *err)
{
    if (make_ranges(o, err) < 0)
        return -1;
    const size_t floats = layout_floats(o->layout);
    if (o->cfg.type == OPTIM_CAME) {
        if (make_came(o, err) < 0)
            return -1;
    } else if (alloc_block(o, &o->m, floats, USE_OPTIMIZER, err) < 0 ||
               alloc_block(o, &o->v, floats, USE_OPTIMIZER, err) < 0) {
        return -1;
    }
    if (o->cfg.ema > 0 && alloc_block(o, &o->ema, floats, USE_EMA, err) < 0)
        return -1;
    return name_states(o, err);
}

int optim_create(struct optim **out, const struct optim_config *cfg, const struct layout *l,
                 struct err *err)
{
    if (check_config(cfg, err) < 0)
        return -1;
    struct optim *o = calloc(1, sizeof(*o));
    if (!o)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    o->cfg = *cfg;
    o->ops = backend_ops();
    o->layout = l;
    if (build(o, err) < 0) {
        optim_destroy(o);
        return -1;
    }
    *out = o;
    return 0;
}

void optim_destroy(struct optim *o)
{
    if (!o)
        return;
    free_block(o, &o->m);
    free_block(o, &o->v);
    free_block(o, &o->ema);
    free_block(o, &o->factors);
    free(o->came);
    free(o->range);
    free(o->state);
    free(o);
}

double optim_grad_norm(const struct kern_ops *ops, const struct layout *l, const float *grads)
{
    double total = 0;
    size_t from = 0, to = 0; /* touching trained tensors, as in make_ranges() */
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (t->kind != TENSOR_PARAM)
            continue;
        if (to > from && padded(to) != t->offset) {
            total += ops->sum_squares(grads + from, to - from);
            from = to;
        }
        if (to == from)
            from = t->offset;
        to = t->offset + t->count;
    }
    if (to > from)
        total += ops->sum_squares(grads + from, to - from);
    return sqrt(total);
}

static void step_adamw(struct optim *o, float *weights, const float *grads, float clip, double lr)
{
    const struct optim_config *c = &o->cfg;
    const double k = (double)o->count;
    const struct kern_adamw args = {
        .beta1 = (float)c->beta[0], .rest1 = (float)(1 - c->beta[0]),
        .beta2 = (float)c->beta[1], .rest2 = (float)(1 - c->beta[1]),
        .eps = (float)c->eps[0],    .decay = (float)(1 - lr * c->weight_decay),
        .step = (float)(lr / (1 - pow(c->beta[0], k))),
        .root = (float)(1 / sqrt(1 - pow(c->beta[1], k))),
        .clip = clip,
    };
    for (int i = 0; i < o->ranges; i++) {
        const size_t at = o->range[i].offset;
        o->ops->adamw(weights + at, o->m.at + at, o->v.at + at, grads + at, args,
                      o->range[i].count);
    }
}

static void step_came(struct optim *o, float *weights, const float *grads, float clip, double lr)
{
    const struct optim_config *c = &o->cfg;
    const struct kern_came args = {
        .beta1 = (float)c->beta[0], .rest1 = (float)(1 - c->beta[0]),
        .beta2 = (float)c->beta[1], .rest2 = (float)(1 - c->beta[1]),
        .beta3 = (float)c->beta[2], .rest3 = (float)(1 - c->beta[2]),
        .eps1 = (float)c->eps[0],   .eps2 = (float)c->eps[1],
        .lr = (float)lr,            .decay = (float)(1 - lr * c->weight_decay),
        .threshold = (float)c->clip_threshold,
        .clip = clip,
    };
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        if (t->kind == TENSOR_PARAM)
            o->ops->came(weights + t->offset, o->came[i], grads + t->offset, args, t->count);
    }
}

void optim_step(struct optim *o, float *weights, float *grads, double grad_norm, double lr)
{
    double clip = o->cfg.clip > 0 ? o->cfg.clip / (grad_norm + 1e-6) : 1;
    clip = clip < 1 ? clip : 1;
    for (int i = 0; o->ema.at && i < o->ranges; i++) {
        const size_t at = o->range[i].offset;
        o->ops->ema(o->ema.at + at, weights + at, (float)o->cfg.ema, (float)(1 - o->cfg.ema),
                    o->range[i].count);
    }
    o->count++;
    if (o->cfg.type == OPTIM_CAME)
        step_came(o, weights, grads, (float)clip, lr);
    else
        step_adamw(o, weights, grads, (float)clip, lr);
}

int64_t optim_count(const struct optim *o)
{
    return o->count;
}

void optim_set_count(struct optim *o, int64_t k)
{
    o->count = k;
}

const float *optim_ema(const struct optim *o)
{
    return o->ema.here;
}

/* The whole block: a buffer's moving average is the buffer. */
void optim_ema_reset(struct optim *o, const float *weights)
{
    if (!o->ema.at)
        return;
    memcpy(o->ema.here, weights, layout_floats(o->layout) * sizeof(float));
    if (!o->ops->host)
        o->ops->upload(o->ema.at, weights, layout_floats(o->layout) * sizeof(float));
}

int optim_pull(struct optim *o, struct err *err)
{
    const struct block *const blocks[] = {&o->m, &o->v, &o->ema, &o->factors};
    for (size_t i = 0; !o->ops->host && i < sizeof(blocks) / sizeof(blocks[0]); i++)
        if (blocks[i]->at)
            o->ops->download(blocks[i]->here, blocks[i]->at, blocks[i]->count * sizeof(float));
    return backend_check(o->ops, err);
}

int optim_push(struct optim *o, struct err *err)
{
    const struct block *const blocks[] = {&o->m, &o->v, &o->ema, &o->factors};
    for (size_t i = 0; !o->ops->host && i < sizeof(blocks) / sizeof(blocks[0]); i++)
        if (blocks[i]->at)
            o->ops->upload(blocks[i]->at, blocks[i]->here, blocks[i]->count * sizeof(float));
    return backend_check(o->ops, err);
}

int optim_state_len(const struct optim *o)
{
    return o->states;
}

struct optim_state *optim_state_at(struct optim *o, int i)
{
    return &o->state[i];
}
