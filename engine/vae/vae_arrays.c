/* SPDX-License-Identifier: Apache-2.0 */
/* vae_arrays.c - see vae_arrays.h */
#include "engine/vae/vae_arrays.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    float *p;
    size_t n;
    bool   used;
};

struct vae_arrays {
    const struct kern_ops *ops;
    struct piece          *piece; /* of a device */
    size_t                 len;
};

struct vae_arrays *vae_arrays_create(const struct kern_ops *ops)
{
    struct vae_arrays *a = calloc(1, sizeof(*a));
    if (a)
        a->ops = ops;
    return a;
}

/* Pieces that nobody uses, or all. */
static void release(struct vae_arrays *a, bool all)
{
    size_t left = 0;
    for (size_t i = 0; i < a->len; i++)
        if (all || !a->piece[i].used)
            a->ops->release(a->piece[i].p);
        else
            a->piece[left++] = a->piece[i];
    a->len = left;
}

void vae_arrays_destroy(struct vae_arrays *a)
{
    if (!a)
        return;
    release(a, true);
    free(a->piece);
    free(a);
}

/* The smallest free piece that is large enough, and no more than twice that. */
static struct piece *find(struct vae_arrays *a, size_t n)
{
    struct piece *best = NULL;
    for (size_t i = 0; i < a->len; i++) {
        struct piece *p = &a->piece[i];
        if (!p->used && p->n >= n && p->n / 2 <= n && (!best || p->n < best->n))
            best = p;
    }
    return best;
}

static struct piece *add(struct vae_arrays *a, size_t n)
{
    struct piece *more = realloc(a->piece, (a->len + 1) * sizeof(*more));
    if (!more)
        return NULL;
    a->piece = more;
    float *p = a->ops->alloc(n * sizeof(*p));
    if (!p && a->len > 0) {
        release(a, false);
        p = a->ops->alloc(n * sizeof(*p));
    }
    if (!p)
        return NULL;
    a->piece[a->len] = (struct piece){p, n, false};
    return &a->piece[a->len++];
}

float *vae_arrays_new(struct vae_arrays *a, size_t n)
{
    if (a->ops->host)
        return malloc((n ? n : 1) * sizeof(float));
    struct piece *p = find(a, n);
    if (!p && !(p = add(a, n)))
        return NULL;
    p->used = true;
    return p->p;
}

void vae_arrays_drop(struct vae_arrays *a, float *p)
{
    if (a->ops->host)
        free(p);
    for (size_t i = 0; !a->ops->host && i < a->len; i++)
        if (a->piece[i].p == p)
            a->piece[i].used = false;
}

float *vae_arrays_grow(struct vae_arrays *a, float *p, size_t keep, size_t n)
{
    if (a->ops->host)
        return realloc(p, n * sizeof(*p));
    float *more = vae_arrays_new(a, n);
    if (more && p && keep)
        a->ops->copy(more, p, keep);
    if (more)
        vae_arrays_drop(a, p);
    return more;
}

/* A device copies what does not overlap: as many numbers at a time as lie between both. */
void vae_arrays_move(const struct vae_arrays *a, float *to, const float *from, size_t n)
{
    if (a->ops->host) {
        memmove(to, from, n * sizeof(*to));
        return;
    }
    const size_t apart = to < from ? (size_t)(from - to) : n;
    for (size_t at = 0; to != from && at < n; at += apart)
        a->ops->copy(to + at, from + at, n - at < apart ? n - at : apart);
}

const float *vae_arrays_input(struct vae_arrays *a, const float *host, size_t n)
{
    if (a->ops->host)
        return host;
    float *p = vae_arrays_new(a, n);
    if (p)
        a->ops->upload(p, host, n * sizeof(*p));
    return p;
}

void vae_arrays_drop_input(struct vae_arrays *a, const float *p)
{
    if (!a->ops->host)
        vae_arrays_drop(a, (float *)(uintptr_t)p);
}

void vae_arrays_trim(struct vae_arrays *a)
{
    release(a, false);
}

enum err_code vae_arrays_error(const struct vae_arrays *a)
{
    return a->ops->host ? ERR_MEMORY : ERR_DEVICE_MEMORY;
}
