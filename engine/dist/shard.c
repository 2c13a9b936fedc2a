/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - see shard.h */
#include "engine/dist/shard.h"

#include <stdbool.h>
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/dist/dist.h"
#include "engine/model/layout.h"

struct shard {
    int                world, units;
    enum shard_cut     cut;
    struct shard_part *unit; /* [units] */
    struct shard_part *part; /* [units][world] */
    size_t            *floats; /* [world] */
    size_t             buffers; /* numbers of the block from the first buffer on */
    size_t             buffers_from;
};

static size_t padded(size_t n)
{
    return (n + DIST_NUMBERS - 1) / DIST_NUMBERS * DIST_NUMBERS;
}

/* Widens a range by a tensor. Tensors come in the order of the table, which is not that of memory
 * where there are pairs (engine/model/layout.h). */
static void widen(struct shard_part *p, const struct tensor *t)
{
    const size_t end = t->offset + t->count;
    const bool first = p->to == p->from;
    p->from = first || t->offset < p->from ? t->offset : p->from;
    p->to = first || end > p->to ? end : p->to;
}

/* First and last trained number of each unit. */
static void find_units(struct shard *s, const struct layout *l)
{
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (t->kind != TENSOR_PARAM) {
            s->buffers_from = s->buffers ? s->buffers_from : t->offset;
            s->buffers = layout_floats(l) - s->buffers_from;
            continue;
        }
        widen(&s->unit[t->unit], t);
    }
}

static void cut_evenly(struct shard *s, int unit)
{
    const struct shard_part *u = &s->unit[unit];
    for (int r = 0; r < s->world; r++) {
        size_t from, to;
        dist_slice(&from, &to, u->to - u->from, DIST_F32, r, s->world);
        s->part[unit * s->world + r] = (struct shard_part){u->from + from, u->from + to, 0};
    }
}

/* A tensor goes to the rank whose even slice contains its middle: tensors stay in order of memory,
 * and ranks get nearly equal amounts. */
static void cut_at_tensors(struct shard *s, const struct layout *l, int unit)
{
    const struct shard_part *u = &s->unit[unit];
    const size_t all = u->to - u->from, world = (size_t)s->world;
    for (int r = 0; r < s->world; r++)
        s->part[unit * s->world + r] = (struct shard_part){u->from, u->from, 0};
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (t->unit != unit || t->kind != TENSOR_PARAM)
            continue;
        size_t rank = (t->offset - u->from + t->count / 2) * world / all;
        widen(&s->part[unit * s->world + (int)(rank < world ? rank : world - 1)], t);
    }
}

/* A rank's parts one after the other, then the buffers; with one rank, the block's own layout. */
static void pack(struct shard *s)
{
    for (int r = 0; r < s->world; r++) {
        for (int u = 0; u < s->units; u++) {
            struct shard_part *p = &s->part[u * s->world + r];
            p->at = s->world == 1 ? p->from : s->floats[r];
            s->floats[r] = p->at + padded(p->to - p->from);
        }
        s->floats[r] += s->buffers;
    }
}

int shard_create(struct shard **out, const struct layout *l, int world, enum shard_cut cut, struct err *err)
{
    const int len = layout_len(l);
    struct shard *s = calloc(1, sizeof(*s));
    if (s) {
        s->world = world;
        s->cut = cut;
        s->units = len > 0 ? layout_at(l, len - 1)->unit + 1 : 0;
        s->unit = calloc((size_t)s->units + 1, sizeof(*s->unit));
        s->part = calloc((size_t)s->units * (size_t)world + 1, sizeof(*s->part));
        s->floats = calloc((size_t)world, sizeof(*s->floats));
    }
    if (!s || !s->unit || !s->part || !s->floats) {
        shard_destroy(s);
        return err_set(err, ERR_MEMORY, "no memory for the shards of %d ranks", world);
    }
    find_units(s, l);
    for (int u = 0; u < s->units; u++)
        if (cut == SHARD_EVEN)
            cut_evenly(s, u);
        else
            cut_at_tensors(s, l, u);
    pack(s);
    *out = s;
    return 0;
}

void shard_destroy(struct shard *s)
{
    if (!s)
        return;
    free(s->unit);
    free(s->part);
    free(s->floats);
    free(s);
}

int shard_world(const struct shard *s)
{
    return s->world;
}

enum shard_cut shard_cut(const struct shard *s)
{
    return s->cut;
}

int shard_units(const struct shard *s)
{
    return s->units;
}

struct shard_part shard_unit(const struct shard *s, int unit)
{
    return s->unit[unit];
}

struct shard_part shard_part(const struct shard *s, int unit, int rank)
{
    return s->part[unit * s->world + rank];
}

struct shard_part shard_held(struct shard_holder h, int unit)
{
    return shard_part(h.shard, unit, h.rank);
}

size_t shard_floats(const struct shard *s, int rank)
{
    return s->floats[rank];
}

size_t shard_widest(const struct shard *s)
{
    size_t most = 0;
    for (int u = 0; u < s->units; u++)
        if (s->unit[u].to - s->unit[u].from > most)
            most = s->unit[u].to - s->unit[u].from;
    return padded(most);
}

void shard_of_tensor(struct shard_holder h, const struct tensor *t, size_t *from, size_t *to, size_t *at)
{
    const struct shard *s = h.shard;
    const struct shard_part p = shard_held(h, t->unit);
    const size_t end = t->offset + t->count;
    const size_t lo = p.from > t->offset ? p.from : t->offset, hi = p.to < end ? p.to : end;
    *from = *to = *at = 0;
    if (t->kind != TENSOR_PARAM) {
        *to = t->count;
        *at = s->floats[h.rank] - s->buffers + (t->offset - s->buffers_from);
    } else if (lo < hi) {
        *from = lo - t->offset;
        *to = hi - t->offset;
        *at = p.at + (lo - p.from);
    }
}
