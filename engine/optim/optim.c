/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c - see optim.h
 *
 * AdamW and EMA update trained tensors as ranges of the block, gaps included:
 * a gap's gradient is zero, so the gap stays zero.  CAME updates tensor by tensor,
 * which needs shards that are cut at tensors.
 * Kernels apply the clip factor, so that gradients are read once.
 */
#include "engine/optim/optim.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/dist/shard.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

/* Adjacent trained numbers: `offset` in the layout, `held` in weights and gradients, `at` in blocks of state. */
struct range {
    size_t offset, held, at, count;
};

/* A kernel array and its view; on the CPU the same memory. borrowed: it is in an image of the caller. */
struct block {
    float *at, *here;
    size_t count;
    bool   borrowed;
};

/* The blocks of state; an image has them in this order. */
enum {
    MOMENTS,
    SQUARES, /* AdamW */
    AVERAGE, /* EMA of the weights */
    FACTORS, /* CAME: everything but moments */
    BLOCKS
};

struct optim {
    struct optim_config    cfg;
    const struct kern_ops *ops;
    const struct layout   *layout;
    struct optim_share     share;
    size_t                 floats;       /* numbers of a block of state */
    int64_t                count;
    struct block           block[BLOCKS];
    struct kern_came_state *came;        /* [layout_len], kernel arrays */
    struct range          *range;        /* adjacent trained tensors, merged */
    int                    ranges;
    struct optim_state    *state;
    int                    states;
};

static inline size_t optim_padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static int check_config(const struct optim_config *c, struct err *err)
{
    const int betas = c->type == OPTIM_CAME ? 3 : 2;
    for (int i = 0; i < betas; i++)
        if (!(c->beta[i] >= 0 && c->beta[i] < 1))
            return err_set(err, ERR_USAGE, "beta%d is %g; it must be from 0 to below 1", i + 1, c->beta[i]);
    if (!(c->eps[0] > 0) || (c->type == OPTIM_CAME && !(c->eps[1] > 0)))
        return err_set(err, ERR_USAGE, "eps must be above 0");
    if (!(c->weight_decay >= 0) || !(c->clip >= 0))
        return err_set(err, ERR_USAGE, "weight_decay and clip must be 0 or more");
    if (c->type == OPTIM_CAME && !(c->clip_threshold > 0))
        return err_set(err, ERR_USAGE, "clip_threshold must be above 0");
    if (!(c->ema >= 0 && c->ema < 1))
        return err_set(err, ERR_USAGE, "the EMA rate is %g; it must be from 0 (none) to below 1", c->ema);
    return 0;
}

/* CAME factors [o, i] and [o, i, 1, 1], and nothing else. */
static bool is_factored(const struct tensor *t)
{
    return t->ndim == 2 || (t->ndim == 4 && t->dim[2] == 1 && t->dim[3] == 1);
}

static int alloc_block(struct optim *o, struct block *b, size_t count, enum backend_use use, struct err *err)
{
    const size_t bytes = (count ? count : 16) * sizeof(float);
    *b = (struct block){.at = backend_alloc(o->ops, bytes, use, err), .count = count};
    b->here = !b->at || o->ops->host ? b->at : backend_host(bytes, err);
    return b->here ? 0 : -1;
}

static void free_block(struct optim *o, struct block *b)
{
    if (!b->borrowed)
        o->ops->release(b->at);
    if (!o->ops->host)
        backend_host_free(b->here);
}

static int make_ranges(struct optim *o, struct err *err)
{
    const int units = shard_units(o->share.updated.shard);
    o->range = calloc((size_t)units + 1, sizeof(*o->range));
    if (!o->range)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    for (int u = 0; u < units; u++) {
        const struct shard_part p = shard_held(o->share.updated, u), h = shard_held(o->share.held, u);
        struct range *last = o->ranges ? &o->range[o->ranges - 1] : NULL;
        if (p.to == p.from)
            continue;
        if (last && optim_padded(last->offset + last->count) == p.from &&
            optim_padded(last->at + last->count) == p.at)
            last->count = p.to - last->offset;
        else
            o->range[o->ranges++] = (struct range){p.from, h.at + (p.from - h.from), p.at, p.to - p.from};
    }
    return 0;
}

/* The numbers of a tensor that are updated, possibly none; of a buffer: all. */
static struct range optim_find(const struct optim *o, const struct tensor *t)
{
    size_t from, to, at, first, end, held;
    shard_of_tensor(o->share.updated, t, &from, &to, &at);
    shard_of_tensor(o->share.held, t, &first, &end, &held);
    return (struct range){t->offset + from, held + (from - first), at, to - from};
}

static struct optim_state *add_state(struct optim *o, const char *prefix, const struct tensor *t,
                                     float *data, int ndim, const int64_t *dim)
{
    struct optim_state *s = &o->state[o->states++];
    snprintf(s->name, sizeof(s->name), "%s.%s", prefix, t->name);
    s->tensor = layout_find(o->layout, t->name);
    s->ndim = ndim;
    s->data = data;
    s->count = 1;
    for (int i = 0; i < ndim; i++) {
        s->dim[i] = dim[i];
        s->count *= dim[i];
    }
    s->to = data ? (size_t)s->count : 0;
    return s;
}

/* State with one number per weight, in block `base`. */
static void add_elementwise(struct optim *o, const char *prefix, const struct tensor *t, float *base)
{
    const struct range r = optim_find(o, t);
    struct optim_state *s = add_state(o, prefix, t, base + r.at, t->ndim, t->dim);
    s->from = r.offset - t->offset;
    s->to = s->from + r.count;
}

/* Lays CAME's rows and columns out in one block, kernel arrays or views; `base` NULL: counts only. */
static size_t optim_factors(const struct optim *o, struct kern_came_state *to, float *base, float *m)
{
    size_t used = 0, work = 0;
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        const struct range r = optim_find(o, t);
        if (t->kind != TENSOR_PARAM || r.count == 0)
            continue;
        const size_t rows = is_factored(t) ? (size_t)t->dim[0] : 0;
        const size_t cols = rows ? t->count / rows : 0;
        float *at = base ? base + used : NULL;
        if (base)
            to[i] = (struct kern_came_state){
                .rows = (int)rows, .cols = (int)cols, .m = m + r.at,
                .v = rows ? NULL : at,
                .row = rows ? at : NULL,
                .res_row = rows ? at + optim_padded(rows) : NULL,
                .col = rows ? at + 2 * optim_padded(rows) : NULL,
                .res_col = rows ? at + 2 * optim_padded(rows) + optim_padded(cols) : NULL,
            };
        used += rows ? 2 * (optim_padded(rows) + optim_padded(cols)) : optim_padded(t->count);
        work = optim_padded(t->count) > work ? optim_padded(t->count) : work;
    }
    for (int i = 0; base && i < layout_len(o->layout); i++)
        to[i].work = base + used;
    return used + work;
}

static int make_factors(struct optim *o, struct err *err)
{
    o->came = calloc((size_t)layout_len(o->layout) + 1, sizeof(*o->came));
    if (!o->came)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    if (alloc_block(o, &o->block[FACTORS], optim_factors(o, NULL, NULL, NULL), USE_OPTIMIZER, err) < 0)
        return -1;
    optim_factors(o, o->came, o->block[FACTORS].at, o->block[MOMENTS].at);
    return 0;
}

/* `s` is empty if another rank owns the tensor. */
static void name_came(struct optim *o, const struct tensor *t, const struct kern_came_state *s)
{
    const int64_t rows[] = {t->dim[0]}, cols[] = {(int64_t)t->count / t->dim[0]};
    add_state(o, "came.m", t, s->m, t->ndim, t->dim);
    if (!is_factored(t)) {
        add_state(o, "came.v", t, s->v, t->ndim, t->dim);
        return;
    }
    add_state(o, "came.r", t, s->row, 1, rows);
    add_state(o, "came.c", t, s->col, 1, cols);
    add_state(o, "came.res_r", t, s->res_row, 1, rows);
    add_state(o, "came.res_c", t, s->res_col, 1, cols);
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
        optim_factors(o, here, o->block[FACTORS].here, o->block[MOMENTS].here);
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        if (t->kind != TENSOR_PARAM)
            continue;
        if (o->cfg.type == OPTIM_CAME) {
            name_came(o, t, &here[i]);
        } else {
            add_elementwise(o, "adamw.m", t, o->block[MOMENTS].here);
            add_elementwise(o, "adamw.v", t, o->block[SQUARES].here);
        }
        if (o->block[AVERAGE].at)
            add_elementwise(o, "ema", t, o->block[AVERAGE].here);
    }
    free(here);
    return 0;
}

static int build(struct optim *o, struct err *err)
{
    const bool came = o->cfg.type == OPTIM_CAME;
    const struct shard_holder mine = o->share.updated;
    o->floats = shard_floats(mine.shard, mine.rank);
    if (came && shard_cut(mine.shard) != SHARD_TENSORS)
        return err_set(err, ERR_BUG, "CAME needs whole tensors, but got a share that splits a tensor");
    if (make_ranges(o, err) < 0 ||
        alloc_block(o, &o->block[MOMENTS], o->floats, USE_OPTIMIZER, err) < 0 ||
        (came ? make_factors(o, err) : alloc_block(o, &o->block[SQUARES], o->floats, USE_OPTIMIZER, err)) < 0 ||
        (o->cfg.ema > 0 && alloc_block(o, &o->block[AVERAGE], o->floats, USE_EMA, err) < 0))
        return -1;
    return name_states(o, err);
}

int optim_create(struct optim **out, const struct optim_config *cfg, const struct layout *l,
                 const struct optim_share *share, struct err *err)
{
    if (check_config(cfg, err) < 0)
        return -1;
    struct optim *o = calloc(1, sizeof(*o));
    if (!o)
        return err_set(err, ERR_MEMORY, "no memory for an optimizer");
    *o = (struct optim){.cfg = *cfg, .ops = backend_ops(), .layout = l, .share = *share};
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
    for (int i = 0; i < BLOCKS; i++)
        free_block(o, &o->block[i]);
    free(o->came);
    free(o->range);
    free(o->state);
    free(o);
}

double optim_grad_norm(const struct kern_ops *ops, const struct layout *l, const float *grads)
{
    return sqrt(ops->sum_squares(grads, layout_floats(l)));
}

double optim_share_squares(const struct optim *o, const float *grads)
{
    double total = 0;
    for (int i = 0; i < o->ranges; i++)
        total += o->ops->sum_squares(grads + o->range[i].held, o->range[i].count);
    return total;
}

/* The address of number `at` of a narrow array. */
static void *skip(const struct optim *o, void *narrow, size_t at)
{
    return (char *)narrow + at * o->ops->narrow;
}

static struct kern_adamw optim_adamw_args(const struct optim *o, float clip, double lr)
{
    const struct optim_config *c = &o->cfg;
    const double k = (double)o->count;
    return (struct kern_adamw){
        .beta1 = (float)c->beta[0], .rest1 = (float)(1 - c->beta[0]),
        .beta2 = (float)c->beta[1], .rest2 = (float)(1 - c->beta[1]),
        .eps = (float)c->eps[0],    .decay = (float)(1 - lr * c->weight_decay),
        .step = (float)(lr / (1 - pow(c->beta[0], k))),
        .root = (float)(1 / sqrt(1 - pow(c->beta[1], k))),
        .clip = clip,
    };
}

static void step_adamw(struct optim *o, float *weights, void *narrow, const float *grads, struct kern_adamw args)
{
    for (int i = 0; i < o->ranges; i++) {
        const struct range *r = &o->range[i];
        o->ops->adamw(weights + r->held, skip(o, narrow, r->held), o->block[MOMENTS].at + r->at,
                      o->block[SQUARES].at + r->at, grads + r->held, args, r->count);
    }
}

static struct kern_came optim_came_args(const struct optim *o, float clip, double lr)
{
    const struct optim_config *c = &o->cfg;
    return (struct kern_came){
        .beta1 = (float)c->beta[0], .rest1 = (float)(1 - c->beta[0]),
        .beta2 = (float)c->beta[1], .rest2 = (float)(1 - c->beta[1]),
        .beta3 = (float)c->beta[2], .rest3 = (float)(1 - c->beta[2]),
        .eps1 = (float)c->eps[0],   .eps2 = (float)c->eps[1],
        .lr = (float)lr,            .decay = (float)(1 - lr * c->weight_decay),
        .threshold = (float)c->clip_threshold,
        .clip = clip,
    };
}

static void step_came(struct optim *o, float *weights, void *narrow, const float *grads, struct kern_came args)
{
    for (int i = 0; i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        const struct range r = optim_find(o, t);
        if (t->kind == TENSOR_PARAM && r.count > 0)
            o->ops->came(weights + r.held, skip(o, narrow, r.held), o->came[i], grads + r.held, args, t->count);
    }
}

/* The factor that clips gradients, and the kernels' arguments of an update. */
static float optim_clip(const struct optim *o, double grad_norm)
{
    const double clip = o->cfg.clip > 0 ? o->cfg.clip / (grad_norm + 1e-6) : 1;
    return (float)(clip < 1 ? clip : 1);
}

void optim_step(struct optim *o, float *weights, void *narrow, float *grads, double grad_norm, double lr)
{
    const float clip = optim_clip(o, grad_norm);
    for (int i = 0; o->block[AVERAGE].at && i < o->ranges; i++) {
        const struct range *r = &o->range[i];
        o->ops->ema(o->block[AVERAGE].at + r->at, weights + r->held, (float)o->cfg.ema,
                    (float)(1 - o->cfg.ema), r->count);
    }
    o->count++;
    if (o->cfg.type == OPTIM_CAME)
        step_came(o, weights, narrow, grads, optim_came_args(o, clip, lr));
    else
        step_adamw(o, weights, narrow, grads, optim_adamw_args(o, clip, lr));
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
    return o->block[AVERAGE].here;
}

void optim_ema_reset(struct optim *o, const float *weights)
{
    if (!o->block[AVERAGE].at)
        return;
    for (int i = 0; i < layout_len(o->layout); i++) { /* the moving average of a buffer is the buffer */
        const struct range r = optim_find(o, layout_at(o->layout, i));
        memcpy(o->block[AVERAGE].here + r.at, weights + r.held, r.count * sizeof(float));
    }
    if (!o->ops->host)
        o->ops->upload(o->block[AVERAGE].at, o->block[AVERAGE].here, o->floats * sizeof(float));
}

int optim_pull(struct optim *o, struct err *err)
{
    for (const struct block *b = o->block; !o->ops->host && b < o->block + BLOCKS; b++)
        if (b->at)
            o->ops->download(b->here, b->at, b->count * sizeof(float));
    return backend_check(o->ops, err);
}

int optim_push(struct optim *o, struct err *err)
{
    for (const struct block *b = o->block; !o->ops->host && b < o->block + BLOCKS; b++)
        if (b->at)
            o->ops->upload(b->at, b->here, b->count * sizeof(float));
    return backend_check(o->ops, err);
}

float *optim_kernel(const struct optim *o, const float *view)
{
    for (const struct block *b = o->block; b < o->block + BLOCKS; b++)
        if (b->here && view >= b->here && view < b->here + b->count)
            return b->at + (view - b->here);
    return NULL;
}

int optim_state_len(const struct optim *o)
{
    return o->states;
}

struct optim_state *optim_state_at(struct optim *o, int i)
{
    return &o->state[i];
}

enum { PAGE = 1024 /* floats: blocks begin at page boundaries, so that images can share whole pages */ };

static size_t paged(size_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* The offset of a block in an image. */
static size_t offset_of(const struct optim *o, int block)
{
    size_t at = 0;
    for (int i = 0; i < block; i++)
        at += paged(o->block[i].count);
    return at;
}

size_t optim_image(const struct optim *o)
{
    return offset_of(o, BLOCKS);
}

/* Moves a block to `to`; pointers into it follow. */
static void place_block(struct optim *o, struct block *b, float *to)
{
    if (!b->at)
        return;
    for (int i = 0; i < o->states; i++) {
        struct optim_state *s = &o->state[i];
        if (s->data && s->data >= b->here && s->data < b->here + b->count)
            s->data = to + (s->data - b->here);
    }
    if (!b->borrowed)
        o->ops->release(b->at);
    b->borrowed = true;
    b->at = b->here = to;
}

/* place_block() finds states by their old addresses, so the new image must not overlap the old one. */
void optim_place(struct optim *o, float *image)
{
    for (int i = 0; i < BLOCKS; i++)
        place_block(o, &o->block[i], image + offset_of(o, i));
    if (o->came)
        optim_factors(o, o->came, o->block[FACTORS].at, o->block[MOMENTS].at);
}

/* The moving average of a buffer is the buffer (optim_ema_reset()). */
void optim_carry(const struct optim *o, float *image)
{
    float *to = image + offset_of(o, AVERAGE);
    for (int i = 0; o->block[AVERAGE].at && i < layout_len(o->layout); i++) {
        const struct tensor *t = layout_at(o->layout, i);
        const struct range r = optim_find(o, t);
        if (t->kind != TENSOR_PARAM)
            memcpy(to + r.at, o->block[AVERAGE].at + r.at, r.count * sizeof(float));
    }
}

void optim_range(const struct optim *o, int tensor, size_t *from, size_t *to)
{
    const struct tensor *t = layout_at(o->layout, tensor);
    const struct range r = optim_find(o, t);
    *from = r.offset - t->offset;
    *to = t->kind == TENSOR_PARAM ? *from + r.count : *from;
}

bool optim_is_elementwise(const struct optim *o)
{
    return o->cfg.type == OPTIM_ADAMW;
}

void optim_move_begin(struct optim *o, struct optim_move *m, double grad_norm, double lr)
{
    const float clip = optim_clip(o, grad_norm);
    o->count++;
    m->adamw = optim_adamw_args(o, clip, lr);
    m->came = optim_came_args(o, clip, lr);
}

struct copying {
    float       *to;
    const float *from;
};

static void copy_range(const void *arg, size_t from, size_t to)
{
    const struct copying *c = arg;
    memcpy(c->to + from, c->from + from, (to - from) * sizeof(float));
}

static float *copy(float *to, const float *from, size_t n)
{
    const struct copying c = {to, from};
    if (from)
        thread_pool_range(n, 1, 1, copy_range, &c);
    return from ? to : NULL;
}

/* Copies CAME's state of a tensor to the new image. */
static struct kern_came_state copy_factors(const struct optim *o, const struct optim_move *m, int tensor, size_t n)
{
    struct kern_came_state s = o->came[tensor];
    float *moments = m->image + offset_of(o, MOMENTS), *factors = m->image + offset_of(o, FACTORS);
    const float *was = o->block[FACTORS].at;
    const size_t rows = (size_t)s.rows, cols = (size_t)s.cols;
    s.m = copy(moments + (s.m - o->block[MOMENTS].at), s.m, n);
    s.v = s.v ? copy(factors + (s.v - was), s.v, n) : NULL;
    s.row = s.row ? copy(factors + (s.row - was), s.row, rows) : NULL;
    s.res_row = s.res_row ? copy(factors + (s.res_row - was), s.res_row, rows) : NULL;
    s.col = s.col ? copy(factors + (s.col - was), s.col, cols) : NULL;
    s.res_col = s.res_col ? copy(factors + (s.res_col - was), s.res_col, cols) : NULL;
    return s;
}

/* Updates a range into the new image and calls `look` while it is in the processor's cache. */
static void move_range(const struct optim *o, const struct optim_move *m, size_t w, size_t at, size_t n,
                       const struct optim_look *look)
{
    const struct kern_adamw_move a = {
        .p = m->to + w, .m = m->image + offset_of(o, MOMENTS) + at,
        .v = m->image + offset_of(o, SQUARES) + at, .old_p = m->weights + w,
        .old_m = o->block[MOMENTS].at + at, .old_v = o->block[SQUARES].at + at, .g = m->grads + w,
    };
    const float *average = o->block[AVERAGE].at;
    float *ema = average ? copy(m->image + offset_of(o, AVERAGE) + at, average + at, n) : NULL;
    if (ema)
        o->ops->ema(ema, a.old_p, (float)o->cfg.ema, (float)(1 - o->cfg.ema), n);
    o->ops->adamw_move(a, m->adamw, n);
    const float *const made[] = {a.p, a.m, a.v, ema};
    for (int i = 0; look && i < (ema ? 4 : 3); i++)
        look->fn(look->arg, i, made[i]);
}

void optim_move(const struct optim *o, const struct optim_move *m, int tensor, size_t from,
                size_t to, const struct optim_look *look)
{
    const struct tensor *t = layout_at(o->layout, tensor);
    const struct range r = optim_find(o, t);
    const size_t n = to - from, skip = t->offset + from - r.offset, at = r.at + skip, w = r.held + skip;
    if (o->cfg.type == OPTIM_ADAMW) {
        move_range(o, m, w, at, n, look);
        return;
    }
    float *p = copy(m->to + w, m->weights + w, n);
    if (o->block[AVERAGE].at)
        o->ops->ema(copy(m->image + offset_of(o, AVERAGE) + at, o->block[AVERAGE].at + at, n), p,
                    (float)o->cfg.ema, (float)(1 - o->cfg.ema), n);
    o->ops->came(p, p, copy_factors(o, m, tensor, n), m->grads + w, m->came, n);
}
