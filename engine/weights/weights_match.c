/* SPDX-License-Identifier: Apache-2.0 */
/* weights_match.c - see weights_match.h */
#include "engine/weights/weights_match.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"

/* --- shapes ------------------------------------------------------------------------------- */

/* The dimensions that are not 1. */
static int essential(int64_t out[ST_DIMS], int ndim, const int64_t *dim)
{
    int n = 0;
    for (int i = 0; i < ndim; i++)
        if (dim[i] != 1)
            out[n++] = dim[i];
    return n;
}

/* Whether `parts` such tensors, one below the other, are the tensor of the model. */
static bool same_shape(const struct tensor *t, const struct tensor_view *v, int parts)
{
    int64_t own[ST_DIMS], theirs[ST_DIMS], dim[ST_DIMS];
    memcpy(dim, v->dim, sizeof(dim));
    if (parts > 1 && v->ndim > 0 && dim[0] <= INT64_MAX / parts)
        dim[0] *= parts;
    const int n = essential(own, t->ndim, t->dim);
    return n == essential(theirs, v->ndim, dim) && memcmp(own, theirs, sizeof(*own) * (size_t)n) == 0 &&
           v->count * (size_t)parts == t->count;
}

static void note(char *first, const char *name)
{
    if (!first[0])
        snprintf(first, WEIGHTS_NAME, "%s", name);
}

static void note_shape(struct weights_match *m, const struct tensor *t, const struct tensor_view *v, int parts)
{
    char theirs[WEIGHTS_NAME / 2], own[WEIGHTS_NAME / 2];
    struct tensor_view want = {.ndim = t->ndim};
    if (m->first_shape[0])
        return;
    memcpy(want.dim, t->dim, sizeof(t->dim));
    if (parts > 1)
        want.dim[0] /= parts;
    tensor_view_shape(theirs, sizeof(theirs), v);
    tensor_view_shape(own, sizeof(own), &want);
    snprintf(m->first_shape, sizeof(m->first_shape), "%.150s, %s instead of %s", v->name, theirs, own);
}

/* --- matching ----------------------------------------------------------------------------- */

/* Lumina-Next's queries, of which diffusers has two copies. */
static int check_copy(const struct weights_source *w, const struct tensor_view *a, const struct tensor_view *b,
                      struct err *err)
{
    enum { PART = 1024 };
    float x[PART], y[PART];
    bool same = a->count == b->count;
    for (size_t at = 0, n; same && at < a->count; at += n) {
        n = a->count - at < PART ? a->count - at : PART;
        tensor_view_floats(x, a, at, n);
        tensor_view_floats(y, b, at, n);
        same = memcmp(x, y, n * sizeof(*x)) == 0;
    }
    return same ? 0 : err_set(err, ERR_DATA, "%s: %s and %s differ, but the model has one tensor for both",
                              weights_source_path(w), a->name, b->name);
}

static int feed(struct weights_match *m, const struct weights_source *w, int i, const struct weights_place *place,
                int from, struct err *err)
{
    struct weights_feed *f = &m->feed[i];
    if (f->parts == 0)
        *f = (struct weights_feed){.part = {-1, -1, -1}, .parts = place->parts};
    int *part = &f->part[place->part];
    if (*part >= 0)
        return check_copy(w, weights_source_at(w, *part), weights_source_at(w, from), err);
    *part = from;
    return 0;
}

/* The null caption of a file is taken if it has the data's shape; else it is the data's, or drawn. */
static bool is_unlike_null(const struct layout *l, int i, const struct tensor_view *v)
{
    return weights_names_optional(v->name) && !same_shape(layout_at(l, i), v, 1);
}

static int take(struct weights_match *m, const struct layout *l, const struct weights_source *w, int from,
                struct err *err)
{
    const struct tensor_view *v = weights_source_at(w, from);
    struct weights_place place = {.parts = 1};
    bool known = weights_names_map(&place, m->naming, v->name);
    if (!known && weights_names_optional(v->name)) {
        snprintf(place.name, sizeof(place.name), "%s", v->name);
        known = true;
    }
    const int i = known ? layout_find(l, place.name) : -1;
    if (i >= 0 && !is_unlike_null(l, i, v))
        return feed(m, w, i, &place, from, err);
    if (weights_names_optional(v->name)) {
        m->ignored++;
    } else {
        m->dropped++;
        note(m->first_dropped, v->name);
    }
    return 0;
}

static void judge(struct weights_match *m, const struct tensor *t, const struct weights_source *w, int i)
{
    const struct weights_feed *f = &m->feed[i];
    bool whole = f->parts > 0;
    for (int p = 0; p < f->parts; p++) {
        const struct tensor_view *v = f->part[p] >= 0 ? weights_source_at(w, f->part[p]) : NULL;
        whole &= v != NULL;
        if (v && !same_shape(t, v, f->parts)) {
            note_shape(m, t, v, f->parts);
            m->shapes++;
            return;
        }
    }
    m->matched += whole;
    if (!whole && !weights_names_optional(t->name)) {
        m->missing++;
        note(m->first_missing, t->name);
    }
}

int weights_match_make(struct weights_match *m, const struct layout *l, const struct weights_source *w, struct err *err)
{
    const size_t n = (size_t)layout_len(l);
    *m = (struct weights_match){.naming = weights_names_tell(w), .feed = calloc(n + 1, sizeof(*m->feed))};
    if (!m->feed)
        return err_set(err, ERR_MEMORY, "no memory for a list of %zu tensors", n);
    for (int i = 0; m->naming != WEIGHTS_NAMINGS && i < weights_source_len(w); i++)
        if (take(m, l, w, i, err) < 0)
            return -1;
    for (int i = 0; i < layout_len(l); i++)
        judge(m, layout_at(l, i), w, i);
    return 0;
}

void weights_match_free(struct weights_match *m)
{
    free(m->feed);
    *m = (struct weights_match){0};
}

/* --- reading ------------------------------------------------------------------------------ */

static bool is_whole(const struct weights_feed *f)
{
    for (int p = 0; p < f->parts; p++)
        if (f->part[p] < 0)
            return false;
    return f->parts > 0;
}

bool weights_match_read(const struct weights_match *m, const struct layout *l, const struct weights_source *w, int i,
                        size_t from, size_t to, float *out)
{
    const struct weights_feed *f = &m->feed[i];
    if (!is_whole(f))
        return false;
    const size_t rows = layout_at(l, i)->count / (size_t)f->parts;
    for (size_t at = from, n; at < to; at += n) {
        const size_t part = at / rows, in = at % rows;
        n = rows - in < to - at ? rows - in : to - at;
        tensor_view_floats(out + (at - from), weights_source_at(w, f->part[part]), in, n);
    }
    return true;
}
