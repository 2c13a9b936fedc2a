/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_place.c - see gemma_place.h */
#include "engine/text/gemma_place.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"

/* Cosines and sines of positions 0 .. length - 1, dim / 2 of each. */
static void gemma_rotary_tables(float *cosine, float *sine, int length, int dim, double theta)
{
    const int half = dim / 2;
    for (int i = 0; i < half; i++) {
        const float step = (float)(1 / pow(theta, 2.0 * i / dim));
        for (int at = 0; at < length; at++) {
            cosine[at * half + i] = cosf((float)at * step);
            sine[at * half + i] = sinf((float)at * step);
        }
    }
}

struct tensor {
    char  name[96];
    void *p;
    bool  is_bf16;
};

struct gemma_place {
    const struct kern_ops *ops;
    struct tensor         *tensor;
    size_t                 tensors, next; /* where the next one is likely to be: runs ask in one order */
    float                 *room, *cosine, *sine;
    size_t                 room_floats;
    int                    positions;
};

struct gemma_place *gemma_place_open(void)
{
    struct gemma_place *p = calloc(1, sizeof(*p));
    if (p)
        p->ops = backend_ops();
    return p;
}

void gemma_place_drop(const struct gemma_place *p, float *array)
{
    if (p->ops->host)
        free(array);
    else
        p->ops->release(array);
}

void gemma_place_close(struct gemma_place *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->tensors; i++)
        gemma_place_drop(p, p->tensor[i].p);
    gemma_place_drop(p, p->room);
    gemma_place_drop(p, p->cosine);
    gemma_place_drop(p, p->sine);
    free(p->tensor);
    free(p);
}

const struct kern_ops *gemma_place_ops(const struct gemma_place *p)
{
    return p->ops;
}

float *gemma_place_new(struct gemma_place *p, size_t n, struct err *err)
{
    const size_t bytes = (n ? n : 1) * sizeof(float);
    float *array = p->ops->host ? malloc(bytes) : p->ops->alloc(bytes);
    if (!array && p->ops->host)
        err_set(err, ERR_MEMORY, "no memory for a text encoder: %zu bytes", bytes);
    else if (!array)
        err_set(err, ERR_DEVICE_MEMORY, "out of GPU memory: %.1f MiB of a text encoder do not fit",
                (double)bytes / 0x1p20);
    return array;
}

/* --- tensors -------------------------------------------------------------------------------- */

static struct tensor *find(struct gemma_place *p, const char *name)
{
    for (size_t i = 0; i < p->tensors; i++) {
        struct tensor *t = &p->tensor[(p->next + i) % p->tensors];
        if (strcmp(t->name, name) == 0) {
            p->next = (size_t)(t - p->tensor) + 1;
            return t;
        }
    }
    return NULL;
}

/* Owns `array`, also on failure. */
static struct tensor *add(struct gemma_place *p, const char *name, void *array, bool is_bf16, struct err *err)
{
    struct tensor *more = array ? realloc(p->tensor, (p->tensors + 1) * sizeof(*more)) : NULL;
    if (!more) {
        gemma_place_drop(p, array);
        if (array)
            err_set(err, ERR_MEMORY, "no memory for a text encoder's tensors");
        return NULL;
    }
    p->tensor = more;
    more[p->tensors] = (struct tensor){.p = array, .is_bf16 = is_bf16};
    snprintf(more[p->tensors].name, sizeof(more->name), "%s", name);
    p->next = p->tensors + 1;
    return &more[p->tensors++];
}

static float *floats_of(const char *name, size_t count, struct err *err)
{
    float *w = malloc(count * sizeof(*w));
    if (!w)
        err_set(err, ERR_MEMORY, "no memory for %s", name);
    return w;
}

static struct tensor *add_norm(struct gemma_place *p, const struct gemma_weights *weights, const char *name,
                               size_t count, struct err *err)
{
    float *host = floats_of(name, count, err), *to = NULL;
    const float *w = host ? weights->tensor(weights->arg, name, count, host, err) : NULL;
    for (size_t i = 0; w && i < count; i++)
        host[i] = 1 + w[i];
    if (w && (to = gemma_place_new(p, count, err)))
        p->ops->upload(to, host, count * sizeof(*host));
    free(host);
    return add(p, name, to, false, err);
}

const float *gemma_place_norm(struct gemma_place *p, const struct gemma_weights *weights, const char *name,
                              size_t count, struct err *err)
{
    const struct tensor *t = find(p, name);
    if (!t)
        t = add_norm(p, weights, name, count, err);
    return t ? t->p : NULL;
}

/* --- matrices ------------------------------------------------------------------------------- */

static int given(const struct gemma_weights *weights, const char *name, size_t count, float *scratch,
                 struct gemma_matrix *out, struct err *err)
{
    *out = (struct gemma_matrix){0};
    if (weights->matrix)
        return weights->matrix(weights->arg, name, count, scratch, out, err);
    out->floats = weights->tensor(weights->arg, name, count, scratch, err);
    return out->floats ? 0 : -1;
}

/* Floats as the products of the device want them. */
static void *send_floats(struct gemma_place *p, const float *w, size_t count, struct err *err)
{
    float *all = gemma_place_new(p, count, err), *narrow = NULL;
    if (!all)
        return NULL;
    p->ops->upload(all, w, count * sizeof(*w));
    if (p->ops->narrow == sizeof(float))
        return all;
    if ((narrow = gemma_place_new(p, (count + 1) / 2, err)))
        p->ops->round(narrow, all, count);
    gemma_place_drop(p, all);
    return narrow;
}

static struct tensor *add_matrix(struct gemma_place *p, const struct gemma_weights *weights, const char *name,
                                 size_t count, struct err *err)
{
    struct gemma_matrix w;
    void *to = NULL;
    float *host = weights->in_place ? NULL : floats_of(name, count, err);
    if ((weights->in_place || host) && given(weights, name, count, host, &w, err) == 0) {
        if (w.floats)
            to = send_floats(p, w.floats, count, err);
        else if ((to = gemma_place_new(p, (count + 1) / 2, err)))
            p->ops->upload(to, w.bf16, 2 * count);
    }
    const bool is_bf16 = to && (w.bf16 || p->ops->narrow != sizeof(float));
    free(host);
    return add(p, name, to, is_bf16, err);
}

int gemma_place_matrix(struct gemma_place *p, const struct gemma_weights *weights, const char *name, size_t count,
                       float *scratch, struct gemma_matrix *out, struct err *err)
{
    if (p->ops->host)
        return given(weights, name, count, scratch, out, err);
    const struct tensor *t = find(p, name);
    if (!t && !(t = add_matrix(p, weights, name, count, err)))
        return -1;
    *out = t->is_bf16 ? (struct gemma_matrix){.bf16 = t->p} : (struct gemma_matrix){.floats = t->p};
    return 0;
}

/* --- tables and room ------------------------------------------------------------------------ */

/* Twice as many as are asked for, so that longer captions rarely need a new table. */
static int make_angles(struct gemma_place *p, const struct gemma_config *cfg, int positions, struct err *err)
{
    const size_t n = (size_t)positions * (size_t)(cfg->head_dim / 2);
    float *host = floats_of("positions", 2 * n, err);
    gemma_place_drop(p, p->cosine);
    gemma_place_drop(p, p->sine);
    p->positions = 0;
    p->cosine = host ? gemma_place_new(p, n, err) : NULL;
    p->sine = p->cosine ? gemma_place_new(p, n, err) : NULL;
    if (p->sine) {
        gemma_rotary_tables(host, host + n, positions, cfg->head_dim, cfg->theta);
        p->ops->upload(p->cosine, host, n * sizeof(*host));
        p->ops->upload(p->sine, host + n, n * sizeof(*host));
        p->positions = positions;
    }
    free(host);
    return p->sine ? 0 : -1;
}

int gemma_place_angles(struct gemma_place *p, const struct gemma_config *cfg, int positions, const float **cosine,
                       const float **sine, struct err *err)
{
    if (p->positions < positions && make_angles(p, cfg, p->positions ? 2 * positions : positions, err) < 0)
        return -1;
    *cosine = p->cosine;
    *sine = p->sine;
    return 0;
}

float *gemma_place_room(struct gemma_place *p, size_t n, struct err *err)
{
    if (p->room && p->room_floats >= n)
        return p->room;
    gemma_place_drop(p, p->room);
    p->room = gemma_place_new(p, n, err);
    p->room_floats = n;
    return p->room;
}
