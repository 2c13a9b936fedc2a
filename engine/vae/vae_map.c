/* SPDX-License-Identifier: Apache-2.0 */
/* vae_map.c - whole pictures between the streams of an autoencoder; see vae_internal.h */
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

/* Pixels of a strip where the resolution is highest: enough for all threads, few enough for the cache. A device has
 * work for all its processors down to the resolution of a quarter. */
enum { STRIP_PIXELS = 32768, DEVICE_PIXELS = 131072 };

/* Rows per strip of a stream whose highest resolution has `width` columns and is `scale` times that of its result. */
static int vae_strip(const struct vae *v, int width, int scale)
{
    int rows = v->strip ? v->strip : (v->ops->host ? STRIP_PIXELS : DEVICE_PIXELS) / width;
    rows = rows / scale;
    return rows > 2 ? rows / 2 * 2 : 2;
}

/* The highest resolution counts, as columns, and how many of its rows become one of the result. */
int vae_stream_strip(const struct vae *v, const struct row_stream *s)
{
    int widest = 0;
    for (const struct row_layer *l = s->top; l; l = l->input)
        widest = l->width > widest ? l->width : widest;
    return vae_strip(v, widest, widest / s->top->width);
}

int vae_map_run(struct vae *v, struct vae_map *map, struct row_stream *s, struct err *err)
{
    struct vae_map to = {.height = s->top->height, .width = s->top->width, .channels = s->top->channels};
    const size_t n = (size_t)to.height * (size_t)to.width * (size_t)to.channels;
    int rc = -1;
    if (!(to.x = vae_arrays_new(v->arrays, n)))
        err_set(err, vae_arrays_error(v->arrays), "no memory for a picture of %d x %d with %d channels: %zu bytes",
                to.width, to.height, to.channels, n * sizeof(*to.x));
    else
        rc = row_stream_store(s, vae_stream_strip(v, s), to.x, err);
    row_stream_end(s);
    vae_arrays_drop(v->arrays, map->x);
    *map = to;
    return rc;
}

int vae_observe_map(const struct vae *v, const char *part, const struct vae_map *map, const char *format, int i,
                    struct err *err)
{
    char name[64];
    if (!v->observer)
        return 0;
    const int n = snprintf(name, sizeof(name), "%s.%s", part, format);
    if (i >= 0)
        snprintf(name + n, sizeof(name) - (size_t)n, ".%d", i);
    const size_t count = (size_t)map->height * (size_t)map->width * (size_t)map->channels;
    float *copy = v->ops->host ? map->x : malloc(count * sizeof(*copy));
    if (!copy)
        return err_set(err, ERR_MEMORY, "no memory for %s: %zu bytes", name, count * sizeof(*copy));
    if (copy != map->x)
        v->ops->download(copy, map->x, count * sizeof(*copy));
    const int rc = v->observer(v->observer_arg, name, copy, map->height, map->width, map->channels, err);
    if (copy != map->x)
        free(copy);
    return rc;
}

int vae_planes_begin(struct vae *v, const float **out, const float *planes, int height, int width, int channels,
                     struct err *err)
{
    const size_t n = (size_t)height * (size_t)width * (size_t)channels;
    *out = vae_arrays_input(v->arrays, planes, n);
    return *out ? 0
                : err_set(err, vae_arrays_error(v->arrays), "no memory for a picture of %d x %d: %zu bytes", width,
                          height, n * sizeof(*planes));
}

struct planes {
    const struct kern_ops *ops;
    float                 *to;
    struct kern_image      s;
};

static int store_planes(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct planes *p = arg;
    (void)err;
    p->ops->rows_to_planes(p->to, rows, p->s, from, to);
    return 0;
}

int vae_planes_run(struct vae *v, float *to, struct row_stream *s, struct err *err)
{
    const struct row_layer *top = s->top;
    const size_t n = (size_t)top->height * (size_t)top->width * (size_t)top->channels;
    struct planes p = {v->ops, v->ops->host ? to : vae_arrays_new(v->arrays, n),
                       {1, top->height, top->width, top->channels}};
    const int rc = p.to ? row_stream_run(s, vae_stream_strip(v, s), store_planes, &p, err)
                        : err_set(err, vae_arrays_error(v->arrays), "no memory for a picture of %d x %d", top->width,
                                  top->height);
    row_stream_end(s);
    if (p.to && p.to != to) {
        if (rc == 0)
            v->ops->download(to, p.to, n * sizeof(*to));
        vae_arrays_drop(v->arrays, p.to);
    }
    return rc;
}
