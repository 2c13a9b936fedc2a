/* SPDX-License-Identifier: Apache-2.0 */
/* vae_middle.c - the attention in the middle of AutoencoderKL, in place; see vae_internal.h
 *
 * One head sees all pixels.  Keys and values of the whole picture are in memory, queries only those of a strip, and
 * scores only those of a tile (attend_causal() sums softmax block by block).
 */
#include <math.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

enum { STRIP_PIXELS = 8192 };

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
    struct middle m = {.v = v, .map = map, .norm = norm, .strip = v->strip ? v->strip : STRIP_PIXELS / map->width};
    m.strip = m.strip < 2 ? 2 : m.strip > map->height ? map->height : m.strip;
    const int rc = reserve(&m, err);
    if (rc == 0) {
        each_strip(&m, key_strip);
        each_strip(&m, attend_strip);
    }
    release(&m);
    return rc;
}
