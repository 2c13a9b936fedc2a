/* SPDX-License-Identifier: Apache-2.0 */
/* optim_move.c - updates that read one image and write another; see optim.h
 *
 * AdamW reads a range of one image and writes it to the other in a single pass, with the arithmetic and so the
 * bits of an update in place.  CAME's state and EMA are copied, then updated in place.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/model/layout.h"
#include "engine/optim/optim_internal.h"
#include "kernels/thread_pool.h"

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
