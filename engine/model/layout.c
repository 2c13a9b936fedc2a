/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h
 *
 * Names are found by linear search: a model has some hundred tensors, and lookups
 * happen when a model is built or loaded, never in a step.
 */
#include "engine/model/layout.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { ALIGN_FLOATS = 16, ALIGN_BYTES = 64 };

struct layout {
    struct tensor *tensor;
    int            len;
    int            cap;
    size_t         floats;
    int            unit;
};

int layout_create(struct layout **out, struct err *err)
{
    struct layout *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for a table of tensors");
    *out = l;
    return 0;
}

void layout_destroy(struct layout *l)
{
    if (!l)
        return;
    free(l->tensor);
    free(l);
}

/* A count that can be multiplied by the size of any number type without overflow. */
static int count_floats(size_t *count, const char *name, int ndim, const int64_t *dim, struct err *err)
{
    const size_t most = (size_t)INT64_MAX / 64;
    size_t n = 1;
    if (ndim < 0 || ndim > TENSOR_DIMS)
        return err_set(err, ERR_USAGE, "tensor %s has %d dimensions; the limit is %d", name, ndim, TENSOR_DIMS);
    for (int i = 0; i < ndim; i++) {
        if (dim[i] <= 0)
            return err_set(err, ERR_USAGE, "dimension %d of tensor %s is %lld; it must be at least 1", i, name,
                           (long long)dim[i]);
        if ((size_t)dim[i] > most / n)
            return err_set(err, ERR_USAGE, "tensor %s has more numbers than memory can address", name);
        n *= (size_t)dim[i];
    }
    *count = n;
    return 0;
}

static int make_room(struct layout *l, struct err *err)
{
    if (l->len < l->cap)
        return 0;
    int cap = l->cap ? 2 * l->cap : 64;
    struct tensor *t = realloc(l->tensor, (size_t)cap * sizeof(*t));
    if (!t)
        return err_set(err, ERR_MEMORY, "no memory for a table of %d tensors", cap);
    l->tensor = t;
    l->cap = cap;
    return 0;
}

static int check_name(const struct layout *l, const char *name, struct err *err)
{
    const size_t length = strlen(name);
    if (length == 0 || length >= TENSOR_NAME)
        return err_set(err, ERR_USAGE, "tensor name \"%.40s\" has %zu characters; it must have 1 to %d", name, length,
                       TENSOR_NAME - 1);
    if (layout_find(l, name) >= 0)
        return err_set(err, ERR_USAGE, "two tensors are named %s", name);
    return 0;
}

static size_t padded(size_t count)
{
    return (count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

static size_t rows_of(int ndim, const int64_t *dim)
{
    return ndim > 0 ? (size_t)dim[0] : 1;
}

/* Floats from the first of a pair to the second. */
static size_t distance(const struct tensor *t)
{
    const int64_t rows = (int64_t)rows_of(t->ndim, t->dim), cols = (int64_t)t->count / rows;
    return (size_t)(layout_pair_rows(rows, cols) * cols);
}

/* Appends a tensor whose room begins with it and has `floats` numbers. */
static int append(struct layout *l, const struct tensor *t, size_t floats, struct err *err)
{
    if (floats > (size_t)INT64_MAX / 64 - l->floats || l->len == INT_MAX / 2)
        return err_set(err, ERR_USAGE, "the tensors up to %s are more than memory can address", t->name);
    if (make_room(l, err) < 0)
        return -1;
    l->tensor[l->len] = *t;
    l->floats += floats;
    return l->len++;
}

static int describe(const struct layout *l, struct tensor *t, const char *name, enum tensor_kind kind, int ndim,
                    const int64_t *dim, struct err *err)
{
    *t = (struct tensor){.kind = kind, .ndim = ndim, .offset = l->floats, .unit = l->unit};
    if (check_name(l, name, err) < 0 || count_floats(&t->count, name, ndim, dim, err) < 0)
        return -1;
    memcpy(t->name, name, strlen(name) + 1);
    for (int i = 0; i < ndim; i++)
        t->dim[i] = dim[i];
    return 0;
}

int layout_add(struct layout *l, const char *name, enum tensor_kind kind, int ndim, const int64_t *dim, struct err *err)
{
    struct tensor t;
    if (describe(l, &t, name, kind, ndim, dim, err) < 0)
        return -1;
    return append(l, &t, padded(t.count), err);
}

int64_t layout_pair_rows(int64_t rows, int64_t cols)
{
    while (rows % ALIGN_FLOATS * (cols % ALIGN_FLOATS) % ALIGN_FLOATS)
        rows++;
    return rows;
}

int layout_add_first(struct layout *l, const char *name, enum tensor_kind kind, int ndim,
                     const int64_t *dim, struct err *err)
{
    struct tensor t;
    if (describe(l, &t, name, kind, ndim, dim, err) < 0)
        return -1;
    const size_t behind = distance(&t);
    t.room = t.offset + behind;
    return append(l, &t, behind + padded(t.count), err);
}

int layout_add_second(struct layout *l, const char *name, int first, struct err *err)
{
    struct tensor t;
    struct tensor *of = first >= 0 && first < l->len ? &l->tensor[first] : NULL;
    if (!of || !of->room || of->unit != l->unit)
        return err_set(err, ERR_BUG, "tensor %s has no place behind tensor %d of the table", name, first);
    if (describe(l, &t, name, of->kind, of->ndim, of->dim, err) < 0)
        return -1;
    t.offset = of->room;
    const int i = append(l, &t, 0, err);
    if (i >= 0)
        l->tensor[first].room = 0; /* append() may have moved the table */
    return i;
}

void layout_next_unit(struct layout *l)
{
    if (l->len > 0 && l->tensor[l->len - 1].unit == l->unit)
        l->unit++;
}

int layout_len(const struct layout *l)
{
    return l->len;
}

const struct tensor *layout_at(const struct layout *l, int i)
{
    return &l->tensor[i];
}

int layout_find(const struct layout *l, const char *name)
{
    for (int i = 0; i < l->len; i++)
        if (strcmp(l->tensor[i].name, name) == 0)
            return i;
    return -1;
}

size_t layout_floats(const struct layout *l)
{
    return l->floats;
}

int64_t layout_params(const struct layout *l)
{
    int64_t n = 0;
    for (int i = 0; i < l->len; i++)
        if (l->tensor[i].kind == TENSOR_PARAM)
            n += (int64_t)l->tensor[i].count;
    return n;
}

/* FNV-1a with a final mix: the digest distinguishes layouts, it is not cryptographic. */
static uint64_t digest_add(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Numbers are hashed as little-endian bytes, so that every machine computes the same digest. */
static uint64_t digest_number(uint64_t h, int64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)((uint64_t)v >> (8 * i));
    return digest_add(h, b, sizeof(b));
}

uint64_t layout_digest(const struct layout *l)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < l->len; i++) {
        const struct tensor *t = &l->tensor[i];
        h = digest_add(h, t->name, strlen(t->name) + 1);
        h = digest_number(h, t->kind);
        h = digest_number(h, t->ndim);
        for (int d = 0; d < t->ndim; d++)
            h = digest_number(h, t->dim[d]);
    }
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 33;
}

float *layout_alloc(const struct layout *l)
{
    size_t bytes = l->floats * sizeof(float);
    void *p = aligned_alloc(ALIGN_BYTES, bytes ? bytes : ALIGN_BYTES);
    if (p)
        memset(p, 0, bytes);
    return p;
}
