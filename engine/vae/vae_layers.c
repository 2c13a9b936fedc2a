/* SPDX-License-Identifier: Apache-2.0 */
/* vae_layers.c - layers between convolutions: norms, attention in the middle, maps of rows */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/err.h"
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

enum { MIDDLE_PIXELS = 8192 };

struct middle {
    struct vae             *v;
    struct vae_map         *map;
    const struct row_scale *norm;
    int                     strip;      /* rows */
    float                  *k, *value;  /* of the picture */
    float                  *in, *q, *out; /* of a strip */
};

static size_t pixels(const struct middle *m, int rows)
{
    return (size_t)rows * (size_t)m->map->width;
}

static int reserve(struct middle *m, struct err *err)
{
    const size_t c = (size_t)m->map->channels, all = pixels(m, m->map->height) * c, strip = pixels(m, m->strip);
    m->k = vae_arrays_new(m->v->arrays, all);
    m->value = vae_arrays_new(m->v->arrays, all);
    m->in = vae_arrays_new(m->v->arrays, strip * c);
    m->q = vae_arrays_new(m->v->arrays, strip * c);
    m->out = vae_arrays_new(m->v->arrays, strip * c);
    if (m->k && m->value && m->in && m->q && m->out)
        return 0;
    return err_set(err, vae_arrays_error(m->v->arrays), "no memory for the attention of %d x %d pixels: %zu bytes",
                   m->map->width, m->map->height, 2 * all * sizeof(*m->k));
}

static void release(const struct middle *m)
{
    float *const all[] = {m->k, m->value, m->in, m->q, m->out};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        vae_arrays_drop(m->v->arrays, all[i]);
}

static void convolve(const struct middle *m, float *y, const float *x, const struct vae_conv *c, int rows)
{
    const struct kern_rows in = {x, 0, rows, m->map->width, m->map->channels};
    m->v->ops->conv(y, in, c->c, c->w, c->bias, 0, rows, *c->work);
}

static float *map_row(const struct middle *m, float *x, int row)
{
    return x + pixels(m, row) * (size_t)m->map->channels;
}

/* The norm of rows [from, to), in m->in. */
static void norm_strip(const struct middle *m, int from, int to)
{
    m->v->ops->scale_rows(m->in, map_row(m, m->map->x, from), m->norm->scale, m->norm->shift, pixels(m, to - from),
                          m->map->channels, false);
}

static void key_strip(const struct middle *m, int from, int to)
{
    norm_strip(m, from, to);
    convolve(m, map_row(m, m->k, from), m->in, &m->v->middle.k, to - from);
    convolve(m, map_row(m, m->value, from), m->in, &m->v->middle.v, to - from);
}

static void attend_strip(const struct middle *m, int from, int to)
{
    const struct kern_ops *ops = m->v->ops;
    const int c = m->map->channels, queries = (int)pixels(m, to - from), keys = (int)pixels(m, m->map->height);
    const struct kern_causal all = {.batch = 1, .queries = queries, .keys = keys, .heads = 1, .kv_heads = 1, .dim = c,
                                    .scale = 1 / sqrtf((float)c), .whole = true};
    float *x = map_row(m, m->map->x, from);
    norm_strip(m, from, to);
    convolve(m, m->q, m->in, &m->v->middle.q, to - from);
    ops->attend_causal(m->out, m->q, m->k, m->value, NULL, &all);
    convolve(m, m->in, m->out, &m->v->middle.out, to - from);
    ops->add_rows(x, x, m->in, (size_t)queries * (size_t)c);
}

static void each_strip(const struct middle *m, void (*run)(const struct middle *m, int from, int to))
{
    const int height = m->map->height;
    for (int from = 0; from < height; from += m->strip)
        run(m, from, from + m->strip < height ? from + m->strip : height);
}

int vae_middle_attend(struct vae *v, struct vae_map *map, const struct row_scale *norm, struct err *err)
{
    struct middle m = {.v = v, .map = map, .norm = norm, .strip = v->strip ? v->strip : MIDDLE_PIXELS / map->width};
    m.strip = m.strip < 2 ? 2 : m.strip > map->height ? map->height : m.strip;
    const int rc = reserve(&m, err);
    if (rc == 0) {
        each_strip(&m, key_strip);
        each_strip(&m, attend_strip);
    }
    release(&m);
    return rc;
}

#define EPS 1e-6

struct sums {
    const struct kern_ops *ops;
    double                *sum;
    int                    width, channels, groups;
};

/* In host memory. */
struct group_weights {
    const float *w, *b;
    double      *sum;
    float       *both;
    int          channels, groups;
};

static int add_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct sums *s = arg;
    const size_t row = (size_t)s->width * (size_t)s->channels;
    (void)err;
    if (!s->ops->host)
        s->ops->group_sums(s->sum, rows, (size_t)(to - from) * (size_t)s->width, s->channels, s->groups);
    for (int i = 0; s->ops->host && i < to - from; i++)
        s->ops->group_sums(s->sum, rows + (size_t)i * row, (size_t)s->width, s->channels, s->groups);
    return 0;
}

/* `count` numbers in each group; to: [scale, shift] of all channels. */
static void set_scale(float *to, const double *sum, double count, const struct group_weights *n)
{
    const int each = n->channels / n->groups;
    for (int c = 0; c < n->channels; c++) {
        const double mean = sum[2 * (c / each)] / count, var = sum[2 * (c / each) + 1] / count - mean * mean;
        const double scale = (double)n->w[c] / sqrt((var > 0 ? var : 0) + EPS);
        to[c] = (float)scale;
        to[n->channels + c] = (float)((double)n->b[c] - mean * scale);
    }
}

/* The sums of the stream's result, as scale and shift. */
static int take_sums(struct vae *v, struct row_scale *s, struct row_stream *of, struct sums *sums,
                     const struct group_weights *n, struct err *err)
{
    const double count = (double)of->top->height * of->top->width * (n->channels / n->groups);
    v->ops->zero((float *)(void *)sums->sum, 4 * (size_t)n->groups);
    if (row_stream_run(of, vae_stream_strip(v, of), add_rows, sums, err) < 0)
        return -1;
    v->ops->download(n->sum, sums->sum, 2 * (size_t)n->groups * sizeof(*n->sum));
    set_scale(n->both, n->sum, count, n);
    v->ops->upload(s->scale, n->both, 2 * (size_t)n->channels * sizeof(*n->both));
    return 0;
}

int vae_norm_scale(struct vae *v, struct row_scale *s, struct row_stream *of, const struct vae_norm *n, struct err *err)
{
    const int channels = of->top->channels, groups = v->cfg.groups;
    const size_t all = 2 * (size_t)channels;
    double *sum = (double *)(void *)vae_arrays_new(v->arrays, 4 * (size_t)groups);
    struct sums sums = {v->ops, sum, of->top->width, channels, groups};
    double *host = malloc(2 * (size_t)groups * sizeof(*host) + 2 * all * sizeof(float));
    float *w = host ? (float *)(void *)(host + 2 * groups) : NULL;
    s->scale = vae_arrays_new(v->arrays, all);
    s->shift = s->scale ? s->scale + channels : NULL;
    int rc = sum && host && s->scale ? 0
                                     : err_set(err, vae_arrays_error(v->arrays),
                                               "no memory for a norm of %d channels", channels);
    if (rc == 0) {
        const struct group_weights weights = {w, w + channels, host, w + all, channels, groups};
        v->ops->download(w, n->w, (size_t)channels * sizeof(*w));
        v->ops->download(w + channels, n->b, (size_t)channels * sizeof(*w));
        rc = take_sums(v, s, of, &sums, &weights, err);
    }
    vae_arrays_drop(v->arrays, (float *)(void *)sum);
    free(host);
    return rc;
}
