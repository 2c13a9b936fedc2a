/* SPDX-License-Identifier: Apache-2.0 */
/* vae_dcae.c - encoder and decoder of DC-AE; see vae.h
 *
 * Layers are pushed on a stream until one needs the whole picture: an attention, or somebody who observes.
 */
#include "engine/base/err.h"
#include "engine/vae/vae_internal.h"

#define EPS      1e-5f
#define LIN_EPS  1e-15f

enum { STRIP_PIXELS = 2048, DEVICE_PIXELS = 16384, HEAD_SUMS = (VAE_HEAD + 1) * VAE_HEAD };

/* One block over one picture. Arrays are of a strip. */
struct vit {
    struct vae           *v;
    struct vae_map       *map;
    const struct vae_vit *b;
    int                   strip, heads; /* heads of one scale */
    double               *total;        /* [2 heads] sums of the picture; `sums` are the same, rounded */
    float                *sums, *wide, *narrow, *out;
    struct err           *err;
};

static size_t strip_pixels(const struct vit *t)
{
    return (size_t)t->strip * (size_t)t->map->width;
}

static int reserve(struct vit *t)
{
    const size_t n = strip_pixels(t), c = (size_t)t->map->channels, sums = 2 * (size_t)t->heads * HEAD_SUMS;
    struct vae_arrays *a = t->v->arrays;
    t->total = (double *)(void *)vae_arrays_new(a, 2 * sums);
    t->sums = vae_arrays_new(a, sums);
    t->wide = vae_arrays_new(a, n * 8 * c);
    t->narrow = vae_arrays_new(a, n * 4 * c);
    t->out = vae_arrays_new(a, n * c);
    if (t->total)
        t->v->ops->zero((float *)(void *)t->total, 2 * sums);
    if (t->total && t->sums && t->wide && t->narrow && t->out)
        return 0;
    return err_set(t->err, vae_arrays_error(a), "no memory for %d rows of attention", t->strip);
}

static void release(struct vit *t)
{
    float *const all[] = {(float *)(void *)t->total, t->sums, t->wide, t->narrow, t->out};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        vae_arrays_drop(t->v->arrays, all[i]);
}

static float *map_row(const struct vit *t, int row)
{
    return t->map->x + (size_t)row * (size_t)t->map->width * (size_t)t->map->channels;
}

/* Strips of the convolution `c` of the map, `halo` rows more on both sides. */
typedef void strip_fn(struct vit *t, const struct kern_rows *in, int from, int to);

static int each_strip(struct vit *t, const struct vae_conv *c, int halo, strip_fn *fn)
{
    struct row_stream s = {NULL, t->v->ops, t->v->arrays};
    struct kern_rows in;
    const int height = t->map->height;
    int rc = row_stream_begin(&s, t->map->x, height, t->map->width, t->map->channels, t->err);
    if (rc == 0)
        rc = row_push_conv(&s, row_conv, c, t->err);
    if (rc == 0)
    for (int from = 0; rc == 0 && from < height; from += t->strip) {
        const int to = from + t->strip < height ? from + t->strip : height;
        if ((rc = row_layer_need(s.top, from - halo, to + halo, &in, t->err)) == 0)
            fn(t, &in, from, to);
    }
    row_stream_end(&s);
    return rc;
}

static void convolve(const struct vit *t, float *y, const float *x, const struct vae_conv *c, int rows, int channels)
{
    const struct kern_rows in = {x, 0, rows, t->map->width, channels};
    t->v->ops->conv(y, in, c->c, c->w, c->bias, 0, rows, *c->work);
}

/* The second scale of a strip: 5x5 for each channel, then 1x1 in groups. */
static float *second_scale(struct vit *t, const struct kern_rows *in, const float *depth, const struct vae_conv *c,
                           int from, int to)
{
    t->v->ops->depthwise_rows(t->wide, *in, 5, depth, NULL, from, to);
    convolve(t, t->narrow, t->wide, c, to - from, in->channels);
    return t->narrow;
}

static void add_sums(struct vit *t, const float *kv, int ld, size_t pixels, int scale)
{
    const size_t n = (size_t)t->heads * HEAD_SUMS;
    t->v->ops->lin_sums(t->total + (size_t)scale * n, kv, ld, pixels, t->heads, VAE_HEAD);
}

static void sum_strip(struct vit *t, const struct kern_rows *in, int from, int to)
{
    const size_t pixels = (size_t)(to - from) * (size_t)t->map->width;
    add_sums(t, row_at(in, from), in->channels, pixels, 0);
    add_sums(t, second_scale(t, in, t->b->depth_kv, &t->b->scale_kv, from, to), in->channels, pixels, 1);
}

static void attend_strip(struct vit *t, const struct kern_rows *in, int from, int to)
{
    const struct kern_ops *k = t->v->ops;
    const int c = t->map->channels;
    const size_t pixels = (size_t)(to - from) * (size_t)t->map->width;
    const float *q = second_scale(t, in, t->b->depth_q, &t->b->scale_q, from, to);
    k->lin_apply(t->wide, 2 * c, row_at(in, from), c, t->sums, pixels, t->heads, VAE_HEAD, LIN_EPS);
    k->lin_apply(t->wide + c, 2 * c, q, c, t->sums + (size_t)t->heads * HEAD_SUMS, pixels, t->heads, VAE_HEAD, LIN_EPS);
    convolve(t, t->out, t->wide, &t->b->proj, to - from, 2 * c);
    k->rms_rows(map_row(t, from), t->out, map_row(t, from), t->b->proj_norm.w, t->b->proj_norm.b, pixels, c, EPS,
                false);
}

static void gate_strip(struct vit *t, const struct kern_rows *in, int from, int to)
{
    const struct kern_ops *k = t->v->ops;
    const int c = t->map->channels;
    const size_t pixels = (size_t)(to - from) * (size_t)t->map->width;
    k->depthwise_rows(t->wide, *in, 3, t->b->depth, t->b->depth_bias, from, to);
    k->glu(t->narrow, t->wide, (int)pixels, 4 * c);
    convolve(t, t->out, t->narrow, &t->b->point, to - from, 4 * c);
    k->rms_rows(map_row(t, from), t->out, map_row(t, from), t->b->point_norm.w, t->b->point_norm.b, pixels, c, EPS,
                false);
}

/* An EfficientViT block, in place */
static int vae_vit_run(struct vae *v, struct vae_map *map, const struct vae_vit *b, struct err *err)
{
    struct vit t = {.v = v, .map = map, .b = b, .heads = map->channels / VAE_HEAD, .err = err};
    t.strip = v->strip ? v->strip : (v->ops->host ? STRIP_PIXELS : DEVICE_PIXELS) / map->width;
    t.strip = t.strip < 2 ? 2 : t.strip > map->height ? map->height : t.strip;
    int rc = reserve(&t);
    if (rc == 0)
        rc = each_strip(&t, &b->kv, 2, sum_strip);
    if (rc == 0) {
        v->ops->to_floats(t.sums, t.total, 2 * (size_t)t.heads * HEAD_SUMS);
        rc = each_strip(&t, &b->q, 2, attend_strip);
    }
    if (rc == 0)
        rc = each_strip(&t, &b->invert, 1, gate_strip);
    release(&t);
    return rc;
}

struct pass {
    struct vae       *v;
    const char       *part;
    struct vae_map    map;
    struct row_stream stream;
    const float      *planes; /* the input, where the kernels run */
    struct err       *err;
};

/* What the stream has computed, in memory; the stream starts again with it. */
static int collect(struct pass *p)
{
    if (vae_map_run(p->v, &p->map, &p->stream, p->err) < 0)
        return -1;
    return row_stream_begin(&p->stream, p->map.x, p->map.height, p->map.width, p->map.channels, p->err);
}

static int observe(struct pass *p, const char *name, int i)
{
    if (!p->v->observer)
        return 0;
    return collect(p) < 0 ? -1 : vae_observe_map(p->v, p->part, &p->map, name, i, p->err);
}

/* The picture may be read by nobody while it is changed. */
static int attend(struct pass *p, const struct vae_vit *b)
{
    if (p->stream.top->compute && collect(p) < 0)
        return -1;
    return vae_vit_run(p->v, &p->map, b, p->err);
}

static int push_blocks(struct pass *p, int stage)
{
    const struct vae_stage *s = &p->v->stage[stage];
    const struct row_layer *top = p->stream.top;
    int rc = 0;
    for (int b = 0; rc == 0 && b < s->blocks; b++, top = p->stream.top)
        rc = p->v->cfg.attention[stage] ? attend(p, &s->block[b].vit)
                                        : row_stream_push(&p->stream, row_res, &s->block[b].res, top->height,
                                                          top->width, top->channels, p->err);
    return rc;
}

static int begin(struct pass *p, const float *planes, int height, int width, row_layer_fn *first)
{
    p->stream = (struct row_stream){NULL, p->v->ops, p->v->arrays};
    if (vae_planes_begin(p->v, &p->planes, planes, height, width, p->v->in.c.in, p->err) < 0 ||
        row_stream_push(&p->stream, row_planes, p->planes, height, width, p->v->in.c.in, p->err) < 0 ||
        row_push_conv(&p->stream, first, &p->v->in, p->err) < 0)
        return -1;
    return observe(p, "project_in", -1);
}

static int end(struct pass *p, int rc)
{
    row_stream_end(&p->stream);
    vae_arrays_drop(p->v->arrays, p->map.x);
    vae_arrays_drop_input(p->v->arrays, p->planes);
    return rc;
}

static int encode(struct pass *p, const float *picture, int height, int width)
{
    const int stages = p->v->cfg.stages;
    if (begin(p, picture, height, width, row_conv) < 0)
        return -1;
    for (int i = 0; i < stages; i++)
        if (push_blocks(p, i) < 0 ||
            (i < stages - 1 && row_push_conv(&p->stream, row_change, &p->v->stage[i].change, p->err) < 0) ||
            observe(p, "stages", i) < 0)
            return -1;
    return row_push_conv(&p->stream, row_spread, &p->v->out, p->err);
}

int vae_dcae_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err)
{
    struct pass p = {.v = v, .part = "encoder", .err = err};
    int rc = encode(&p, picture, height, width);
    if (rc == 0)
        rc = vae_planes_run(v, z, &p.stream, err);
    return end(&p, rc);
}

static int decode(struct pass *p, const float *z, int height, int width)
{
    const int stages = p->v->cfg.stages;
    if (begin(p, z, height, width, row_spread) < 0)
        return -1;
    for (int i = stages - 1; i >= 0; i--)
        if ((i < stages - 1 && row_push_conv(&p->stream, row_change, &p->v->stage[i].change, p->err) < 0) ||
            push_blocks(p, i) < 0 || observe(p, "stages", i) < 0)
            return -1;
    const struct row_layer *top = p->stream.top;
    if (row_stream_push(&p->stream, row_rms_relu, &p->v->out_norm, top->height, top->width, top->channels, p->err) < 0)
        return -1;
    return row_push_conv(&p->stream, row_conv, &p->v->out, p->err);
}

int vae_dcae_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err)
{
    struct pass p = {.v = v, .part = "decoder", .err = err};
    int rc = decode(&p, z, height, width);
    if (rc == 0)
        rc = vae_planes_run(v, picture, &p.stream, err);
    return end(&p, rc);
}
