/* SPDX-License-Identifier: Apache-2.0 */
/* row_stream.c - see vae_internal.h */

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/vae/vae_internal.h"

static size_t row_size(const struct row_layer *l)
{
    return (size_t)l->width * (size_t)l->channels;
}

static struct row_layer *create(row_layer_fn *compute, const void *weights, int height, int width, int channels,
                                struct err *err)
{
    struct row_layer *l = calloc(1, sizeof(*l));
    if (!l)
        err_set(err, ERR_MEMORY, "no memory for a layer");
    else
        *l = (struct row_layer){.compute = compute, .weights = weights, .height = height, .width = width,
                                .channels = channels, .hold = INT_MAX};
    return l;
}

int row_stream_begin(struct row_stream *s, const float *picture, int height, int width, int channels, struct err *err)
{
    s->top = create(NULL, NULL, height, width, channels, err);
    if (!s->top)
        return -1;
    s->top->ops = s->ops;
    s->top->arrays = s->arrays;
    s->top->rows = (float *)(uintptr_t)picture;
    s->top->last = height;
    return 0;
}

int row_stream_push(struct row_stream *s, row_layer_fn *compute, const void *weights, int height, int width,
                    int channels, struct err *err)
{
    struct row_layer *l = create(compute, weights, height, width, channels, err);
    if (!l)
        return -1;
    l->input = s->top;
    l->ops = s->ops;
    l->arrays = s->arrays;
    s->top = l;
    return 0;
}

static int row_layer_inner(struct row_layer *l, row_layer_fn *compute, const void *weights, int channels, struct err *err)
{
    struct row_layer *in = create(compute, weights, l->height, l->width, channels, err);
    if (!in)
        return -1;
    in->input = l->input;
    in->ops = l->ops;
    in->arrays = l->arrays;
    l->inner = in;
    return 0;
}

static void destroy(struct row_layer *l)
{
    if (l && l->compute)
        vae_arrays_drop(l->arrays, l->rows);
    free(l);
}

static void destroy_chain(struct row_layer *l, const struct row_layer *end)
{
    while (l && l != end) {
        struct row_layer *below = l->input;
        destroy(l);
        l = below;
    }
}

void row_stream_cut(struct row_stream *s, struct row_layer *at)
{
    while (s->top && s->top != at) {
        struct row_layer *l = s->top;
        s->top = l->input;
        destroy_chain(l->inner, l->input);
        destroy_chain(l->beside, l->input);
        destroy(l);
    }
}

void row_stream_end(struct row_stream *s)
{
    row_stream_cut(s, NULL);
}

const float *row_at(const struct kern_rows *r, int row)
{
    return r->x + (size_t)(row - r->first) * (size_t)r->width * (size_t)r->channels;
}

/* Forgets rows before `from`. */
static void slide(struct row_layer *l, int from)
{
    from = from < l->hold ? from : l->hold;
    const int keep = l->last - from;
    if (from <= l->first)
        return;
    if (keep > 0)
        vae_arrays_move(l->arrays, l->rows, l->rows + (size_t)(from - l->first) * row_size(l),
                        (size_t)keep * row_size(l));
    l->first = keep > 0 ? from : l->last;
}

static int reserve(struct row_layer *l, int rows, struct err *err)
{
    if (rows <= l->capacity)
        return 0;
    float *more = vae_arrays_grow(l->arrays, l->rows, (size_t)(l->last - l->first) * row_size(l),
                                  (size_t)rows * row_size(l));
    if (!more)
        return err_set(err, vae_arrays_error(l->arrays), "no memory for %d rows of %d pixels and %d channels", rows,
                       l->width, l->channels);
    l->rows = more;
    l->capacity = rows;
    return 0;
}

/* Rows come in pairs: convolutions and shortcuts work on 2 x 2 pixels. */
static int round_up(const struct row_layer *l, int to)
{
    to += to & 1;
    return to < l->height ? to : l->height;
}

int row_layer_need(struct row_layer *l, int from, int to, struct kern_rows *out, struct err *err)
{
    from = from > 0 ? from : 0;
    to = round_up(l, to);
    if (l->compute) {
        slide(l, from);
        if (to > l->last) {
            if (reserve(l, to - l->first, err) < 0 ||
                l->compute(l, l->rows + (size_t)(l->last - l->first) * row_size(l), l->last, to, err) < 0)
                return -1;
            l->last = to;
        }
    }
    *out = (struct kern_rows){l->rows, l->first, l->height, l->width, l->channels};
    return 0;
}

static void rewind_chain(struct row_layer *l, const struct row_layer *end)
{
    for (; l && l != end; l = l->input) {
        l->hold = INT_MAX;
        if (l->compute)
            l->first = l->last = 0;
        rewind_chain(l->inner, l->input);
        rewind_chain(l->beside, l->input);
    }
}

int row_stream_run(struct row_stream *s, int strip, row_sink_fn *sink, void *arg, struct err *err)
{
    struct kern_rows r;
    rewind_chain(s->top, NULL);
    for (int from = 0; from < s->top->height; from += strip) {
        const int to = from + strip < s->top->height ? from + strip : s->top->height;
        if (row_layer_need(s->top, from, to, &r, err) < 0 || sink(arg, row_at(&r, from), from, to, err) < 0)
            return -1;
    }
    return 0;
}

struct store {
    const struct vae_arrays *arrays;
    float *picture;
    size_t row;
};

static int store_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct store *s = arg;
    (void)err;
    vae_arrays_move(s->arrays, s->picture + (size_t)from * s->row, rows, (size_t)(to - from) * s->row);
    return 0;
}

int row_stream_store(struct row_stream *s, int strip, float *picture, struct err *err)
{
    struct store to = {s->arrays, picture, row_size(s->top)};
    return row_stream_run(s, strip, store_rows, &to, err);
}

#define EPS 1e-5f

static size_t pixels(const struct row_layer *l, int rows)
{
    return (size_t)rows * (size_t)l->width;
}

/* Rows of the input that rows [from, to) of a convolution touch. */
static int need_window(struct row_layer *l, const struct kern_conv *c, int from, int to, struct kern_rows *in,
                       struct err *err)
{
    int low = from * c->stride - c->pad, high = (to - 1) * c->stride - c->pad + c->kernel;
    if (c->up) {
        low = low > 0 ? low / 2 : 0;
        high = (high + 1) / 2;
    }
    return row_layer_need(l->input, low, high, in, err);
}

static void run_conv(const struct row_layer *l, const struct vae_conv *c, float *out, struct kern_rows in, int from,
                     int to)
{
    l->ops->conv(out, in, c->c, c->w, c->bias, from, to, *c->work);
}

/* Rows [from, to) of the layer's convolution; *in: the rows of its input that are there. */
static int convolve(struct row_layer *l, float *out, int from, int to, struct kern_rows *in, struct err *err)
{
    const struct vae_conv *c = l->weights;
    if (need_window(l, &c->c, from, to, in, err) < 0)
        return -1;
    run_conv(l, c, out, *in, from, to);
    return 0;
}

int row_conv(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    struct kern_rows in;
    return convolve(l, out, from, to, &in, err);
}

int row_res(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct vae_res *b = l->weights;
    struct kern_rows in, x;
    if (!l->inner && row_layer_inner(l, row_conv, &b->conv1, b->conv1.c.out, err) < 0)
        return -1;
    l->input->hold = from; /* the inner layer may be ahead */
    if (row_layer_need(l->inner, from - 1, to + 1, &in, err) < 0 || row_layer_need(l->input, from, to, &x, err) < 0)
        return -1;
    run_conv(l, &b->conv2, out, in, from, to);
    l->ops->rms_rows(out, out, row_at(&x, from), b->norm.w, b->norm.b, pixels(l, to - from), l->channels, EPS, false);
    return 0;
}

int row_kl_res(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct vae_conv *c = l->weights;
    struct kern_rows in, x;
    l->input->hold = from; /* the inner layers may be ahead */
    if (row_layer_need(l->inner, from - 1, to + 1, &in, err) < 0 ||
        row_layer_need(l->beside ? l->beside : l->input, from, to, &x, err) < 0)
        return -1;
    run_conv(l, c, out, in, from, to);
    l->ops->add_rows(out, out, row_at(&x, from), pixels(l, to - from) * (size_t)l->channels);
    return 0;
}

int row_change(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct vae_conv *c = l->weights;
    struct kern_rows in;
    if (convolve(l, out, from, to, &in, err) < 0)
        return -1;
    if (c->c.up)
        l->ops->up_add(out, row_at(&in, from / 2), (to - from) / 2, in.width, in.channels, l->channels);
    else
        l->ops->down_add(out, row_at(&in, 2 * from), 2 * (to - from), in.width, in.channels, l->channels);
    return 0;
}

int row_spread(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct vae_conv *c = l->weights;
    struct kern_rows in;
    if (convolve(l, out, from, to, &in, err) < 0)
        return -1;
    l->ops->spread_add(out, row_at(&in, from), pixels(l, to - from), c->c.in, c->c.out);
    return 0;
}

int row_rms_relu(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct vae_norm *n = l->weights;
    struct kern_rows in;
    if (row_layer_need(l->input, from, to, &in, err) < 0)
        return -1;
    l->ops->rms_rows(out, row_at(&in, from), NULL, n->w, n->b, pixels(l, to - from), l->channels, EPS, true);
    return 0;
}

int row_scale_silu(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct row_scale *s = l->weights;
    struct kern_rows in;
    if (row_layer_need(l->input, from, to, &in, err) < 0)
        return -1;
    l->ops->scale_rows(out, row_at(&in, from), s->scale, s->shift, pixels(l, to - from), l->channels, true);
    return 0;
}

int row_planes(struct row_layer *l, float *out, int from, int to, struct err *err)
{
    const struct kern_image s = {1, l->height, l->width, l->channels};
    (void)err;
    l->ops->planes_to_rows(out, l->weights, s, from, to);
    return 0;
}

int row_push_conv(struct row_stream *s, row_layer_fn *fn, const struct vae_conv *c, struct err *err)
{
    const struct row_layer *top = s->top;
    const int up = c->c.up ? 2 : 1;
    return row_stream_push(s, fn, c, top->height * up / c->c.stride, top->width * up / c->c.stride, c->c.out, err);
}
