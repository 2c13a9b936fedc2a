/* SPDX-License-Identifier: Apache-2.0 */
/* vae_dcae.c - encoder and decoder of DC-AE; see vae.h
 *
 * Layers are pushed on a stream until one needs the whole picture: an attention, or somebody who observes.
 */
#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

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
