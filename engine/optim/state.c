/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - see state.h */
#include "engine/optim/state.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/optim.h"

/* What this rank saves of weight `t` or of optimizer state that belongs to it. The first rank saves all buffers;
 * where tensors are not cut, the rank that owns the weight saves all of its state. */
static void set_saved(struct state_part *p, const struct state_source *c, const struct tensor *t)
{
    size_t at;
    p->save_from = 0;
    p->save_to = p->count;
    if (!c->saved.shard)
        return;
    if (t->kind != TENSOR_PARAM) {
        p->save_to = c->saved.rank == 0 ? p->count : 0;
        return;
    }
    shard_of_tensor(c->saved, t, &p->save_from, &p->save_to, &at);
    if (shard_cut(c->saved.shard) == SHARD_TENSORS)
        p->save_to = p->save_to > 0 ? p->count : 0;
}

static void add_weight(struct state *s, const struct state_source *c, int tensor)
{
    const struct tensor *t = layout_at(c->layout, tensor);
    struct state_part *p = &s->part[s->len++];
    size_t at = t->offset;
    *p = (struct state_part){
        .name = t->name, .ndim = t->ndim, .dim = t->dim, .count = t->count, .to = t->count,
        .tensor = tensor};
    if (c->held.shard)
        shard_of_tensor(c->held, t, &p->from, &p->to, &at);
    p->data = (float *)(uintptr_t)(c->weights + at);
    set_saved(p, c, t);
}

static void add_moment(struct state *s, const struct state_source *c, const struct optim_state *o)
{
    struct state_part *p = &s->part[s->len++];
    *p = (struct state_part){.name = o->name, .ndim = o->ndim, .dim = o->dim,
                             .count = (size_t)o->count, .from = o->from, .to = o->to,
                             .data = o->data, .tensor = o->tensor};
    set_saved(p, c, layout_at(c->layout, o->tensor));
}

int state_make(struct state *out, const struct state_source *c, struct err *err)
{
    const int weights = layout_len(c->layout), more = c->optim ? optim_state_len(c->optim) : 0;
    *out = (struct state){.weights = weights};
    out->part = calloc((size_t)(weights + more) + 1, sizeof(*out->part));
    if (!out->part)
        return err_set(err, ERR_MEMORY, "out of memory for a list of tensors");
    for (int i = 0; i < weights; i++)
        add_weight(out, c, i);
    for (int i = 0; i < more; i++)
        add_moment(out, c, optim_state_at(c->optim, i));
    return 0;
}

void state_free(struct state *s)
{
    free(s->part);
    *s = (struct state){0};
}

size_t state_saves(const struct state *s)
{
    size_t n = 0;
    for (int i = 0; i < s->len; i++)
        n += s->part[i].save_to - s->part[i].save_from;
    return n;
}

size_t state_put(const struct state_part *p, size_t from, size_t to, const float *numbers)
{
    const size_t lo = from > p->from ? from : p->from, hi = to < p->to ? to : p->to;
    if (lo >= hi)
        return 0;
    memcpy(p->data + (lo - p->from), numbers + (lo - from), (hi - lo) * sizeof(float));
    return hi - lo;
}
