/* SPDX-License-Identifier: Apache-2.0 */
/* vae_map.c - whole pictures between the streams of an autoencoder; see vae_internal.h */
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

/* Pixels of a strip where the resolution is highest: enough for all threads, few enough for the cache. */
enum { STRIP_PIXELS = 32768 };

int vae_strip(const struct vae *v, int width, int scale)
{
    int rows = v->strip ? v->strip : STRIP_PIXELS / width;
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
    if (!(to.x = malloc(n * sizeof(*to.x))))
        err_set(err, ERR_MEMORY, "no memory for a picture of %d x %d with %d channels: %zu bytes", to.width, to.height,
                to.channels, n * sizeof(*to.x));
    else
        rc = row_stream_store(s, vae_stream_strip(v, s), to.x, err);
    row_stream_end(s);
    free(map->x);
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
    return v->observer(v->observer_arg, name, map->x, map->height, map->width, map->channels, err);
}

struct planes {
    float *to;
    int    height, width, channels;
};

static int store_planes(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct planes *p = arg;
    const size_t width = (size_t)p->width, channels = (size_t)p->channels, plane = width * (size_t)p->height;
    (void)err;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < (size_t)(to - from) * width; i++)
            p->to[c * plane + (size_t)from * width + i] = rows[i * channels + c];
    return 0;
}

int vae_planes_run(struct vae *v, float *to, struct row_stream *s, struct err *err)
{
    struct planes p = {to, s->top->height, s->top->width, s->top->channels};
    const int rc = row_stream_run(s, vae_stream_strip(v, s), store_planes, &p, err);
    row_stream_end(s);
    return rc;
}
