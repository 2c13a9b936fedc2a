/* SPDX-License-Identifier: Apache-2.0 */
/* row_layers.c - layers of an autoencoder as parts of a row stream; see vae_internal.h */
#include "engine/vae/vae_internal.h"

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
