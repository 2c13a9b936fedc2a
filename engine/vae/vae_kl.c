/* SPDX-License-Identifier: Apache-2.0 */
/* vae_kl.c - encoder and decoder of AutoencoderKL; see vae.h
 *
 * Layers are pushed on a stream.  A norm needs the sums of the whole picture, so the stream runs once for them.  Its
 * result is stored first if it fits into the memory for pictures: then the stream starts again with it, else all layers
 * since the last stored picture run again for the next norm.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/vae/vae_internal.h"

/* What the layers of a block refer to, as long as the pass lasts. */
struct block {
    struct block    *next;
    struct row_scale norm1, norm2;
    float           *inner; /* the result of the first convolution, if it is stored */
};

struct pass {
    struct vae       *v;
    const char       *part;
    struct vae_map    map; /* the stored picture that the stream begins with; x NULL: it begins with planes */
    struct row_stream stream;
    const float      *planes; /* the input, where the kernels run */
    struct block     *blocks;
    struct err       *err;
};

/* --- stored pictures ------------------------------------------------------------------------- */

static struct block *open_block(struct pass *p)
{
    struct block *b = calloc(1, sizeof(*b));
    if (!b)
        return err_set(p->err, ERR_MEMORY, "no memory for a block"), NULL;
    b->next = p->blocks;
    return p->blocks = b;
}

static int restart(struct pass *p)
{
    return row_stream_begin(&p->stream, p->map.x, p->map.height, p->map.width, p->map.channels, p->err);
}

/* The stream's result, stored; the stream starts again with it. */
static int collect(struct pass *p)
{
    if (!p->stream.top->compute)
        return 0;
    return vae_map_run(p->v, &p->map, &p->stream, p->err) < 0 ? -1 : restart(p);
}

/* Whether there is room for `channels` of the result's size beside the stored picture. */
static bool fits(const struct pass *p, int channels)
{
    const struct vae_map *m = &p->map;
    const size_t stored = m->x ? (size_t)m->height * (size_t)m->width * (size_t)m->channels : 0;
    const size_t more = (size_t)p->stream.top->height * (size_t)p->stream.top->width * (size_t)channels;
    return (stored + more) * sizeof(float) <= p->v->memory;
}

static int observe(struct pass *p, const char *name, int i)
{
    if (!p->v->observer)
        return 0;
    return collect(p) < 0 ? -1 : vae_observe_map(p->v, p->part, &p->map, name, i, p->err);
}

static int end(struct pass *p, int rc)
{
    struct vae_arrays *a = p->v->arrays;
    row_stream_end(&p->stream);
    vae_arrays_drop(a, p->map.x);
    vae_arrays_drop_input(a, p->planes);
    for (struct block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        vae_arrays_drop(a, b->norm1.scale);
        vae_arrays_drop(a, b->norm2.scale);
        vae_arrays_drop(a, b->inner);
        free(b);
    }
    return rc;
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* silu(norm x) of a stream, whose sums are taken first. */
static int push_norm(struct pass *p, struct row_stream *s, struct row_scale *scale, const struct vae_norm *n)
{
    const struct row_layer *top = s->top;
    if (vae_norm_scale(p->v, scale, s, n, p->err) < 0)
        return -1;
    return row_stream_push(s, row_scale_silu, scale, top->height, top->width, top->channels, p->err);
}

/* The same of the pass's stream. */
static int push_out_norm(struct pass *p, const struct vae_norm *n)
{
    struct block *b = open_block(p);
    if (!b || (fits(p, p->stream.top->channels) && collect(p) < 0))
        return -1;
    return push_norm(p, &p->stream, &b->norm1, n);
}

/* The side stream starts again with its result, stored. */
static int store_inner(struct pass *p, struct row_stream *side, struct block *b)
{
    const struct row_layer top = *side->top;
    const size_t n = (size_t)top.height * (size_t)top.width * (size_t)top.channels;
    if (!(b->inner = vae_arrays_new(p->v->arrays, n)))
        return err_set(p->err, vae_arrays_error(p->v->arrays),
                       "no memory for a picture of %d x %d with %d channels: %zu bytes", top.width, top.height,
                       top.channels, n * sizeof(*b->inner));
    if (row_stream_store(side, vae_stream_strip(p->v, side), b->inner, p->err) < 0)
        return -1;
    row_stream_cut(side, p->stream.top);
    return row_stream_begin(side, b->inner, top.height, top.width, top.channels, p->err);
}

/* silu(norm2(conv1(silu(norm1 x)))) beside the pass's stream */
static int push_inner(struct pass *p, struct row_stream *side, struct block *b, const struct vae_kl_res *r, bool store)
{
    if (push_norm(p, side, &b->norm1, &r->norm1) < 0 || row_push_conv(side, row_conv, &r->conv1, p->err) < 0 ||
        (store && store_inner(p, side, b) < 0))
        return -1;
    return push_norm(p, side, &b->norm2, &r->norm2);
}

/* On failure `inner` stays the caller's. */
static int push_sum(struct pass *p, struct row_layer *inner, const struct vae_kl_res *r)
{
    struct row_layer *x = p->stream.top;
    struct row_stream beside = p->stream;
    if (r->shortcut.w && row_push_conv(&beside, row_conv, &r->shortcut, p->err) < 0)
        return -1;
    if (row_stream_push(&p->stream, row_kl_res, &r->conv2, x->height, x->width, r->conv2.c.out, p->err) < 0) {
        row_stream_cut(&beside, x);
        return -1;
    }
    p->stream.top->inner = inner;
    p->stream.top->beside = r->shortcut.w ? beside.top : NULL;
    return 0;
}

struct replaced {
    const struct vae_arrays *arrays;
    struct vae_map           map;
};

/* Rows of no more channels fit where those of the stored picture were, which nobody reads again. */
static int replace_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct replaced *r = arg;
    const struct vae_map *m = &r->map;
    const size_t row = (size_t)m->width * (size_t)m->channels;
    (void)err;
    vae_arrays_move(r->arrays, m->x + (size_t)from * row, rows, (size_t)(to - from) * row);
    return 0;
}

static int run_in_place(struct pass *p)
{
    struct replaced to = {p->v->arrays, p->map};
    to.map.channels = p->stream.top->channels;
    if (row_stream_run(&p->stream, vae_stream_strip(p->v, &p->stream), replace_rows, &to, p->err) < 0)
        return -1;
    row_stream_end(&p->stream);
    const size_t n = (size_t)to.map.height * (size_t)to.map.width * (size_t)to.map.channels;
    float *less = p->v->ops->host ? realloc(to.map.x, n * sizeof(*less)) : NULL;
    to.map.x = less ? less : to.map.x;
    p->map = to.map;
    return restart(p);
}

static int run_res(struct pass *p, const struct vae_kl_res *r)
{
    struct block *b = open_block(p);
    if (!b || (fits(p, p->stream.top->channels) && collect(p) < 0))
        return -1;
    const bool stored = !p->stream.top->compute, shrinks = r->conv1.c.out <= p->stream.top->channels;
    const bool store = stored && fits(p, shrinks ? r->conv1.c.out : 2 * r->conv1.c.out);
    struct row_stream side = p->stream;
    if (push_inner(p, &side, b, r, store) < 0 || push_sum(p, side.top, r) < 0) {
        row_stream_cut(&side, p->stream.top);
        return -1;
    }
    const int rc = stored && shrinks ? run_in_place(p) : store ? collect(p) : 0;
    vae_arrays_drop(p->v->arrays, b->inner);
    b->inner = NULL;
    return rc;
}

static int attend(struct pass *p)
{
    struct block *b = open_block(p);
    if (!b || collect(p) < 0 || vae_norm_scale(p->v, &b->norm1, &p->stream, &p->v->middle.norm, p->err) < 0)
        return -1;
    return vae_middle_attend(p->v, &p->map, &b->norm1, p->err);
}

static int run_middle(struct pass *p)
{
    if (run_res(p, &p->v->middle.res[0]) < 0 || attend(p) < 0 || run_res(p, &p->v->middle.res[1]) < 0)
        return -1;
    return observe(p, "mid_block", -1);
}

static int run_stage(struct pass *p, int i)
{
    const struct vae_stage *s = &p->v->stage[i];
    for (int b = 0; b < s->blocks; b++)
        if (run_res(p, &s->res[b]) < 0)
            return -1;
    return s->change.w ? row_push_conv(&p->stream, row_conv, &s->change, p->err) : 0;
}

/* --- both ways ------------------------------------------------------------------------------ */

/* Planes through up to two convolutions. */
static int begin(struct pass *p, const float *planes, int height, int width, const struct vae_conv *before)
{
    const struct vae_conv *in = &p->v->in;
    const int channels = before ? before->c.in : in->c.in;
    p->stream = (struct row_stream){NULL, p->v->ops, p->v->arrays};
    if (vae_planes_begin(p->v, &p->planes, planes, height, width, channels, p->err) < 0 ||
        row_stream_push(&p->stream, row_planes, p->planes, height, width, channels, p->err) < 0 ||
        (before && row_push_conv(&p->stream, row_conv, before, p->err) < 0))
        return -1;
    return row_push_conv(&p->stream, row_conv, in, p->err);
}

/* conv(silu(norm x)), and maybe one more, as planes. */
static int finish(struct pass *p, float *planes, const struct vae_conv *after)
{
    if (push_out_norm(p, &p->v->out_norm) < 0 || row_push_conv(&p->stream, row_conv, &p->v->out, p->err) < 0 ||
        (after && row_push_conv(&p->stream, row_conv, after, p->err) < 0))
        return -1;
    return vae_planes_run(p->v, planes, &p->stream, p->err);
}

static void clamp(float *logvar, size_t n)
{
    for (size_t i = 0; i < n; i++)
        logvar[i] = logvar[i] < -30 ? -30 : logvar[i] > 20 ? 20 : logvar[i];
}

static int encode(struct pass *p, float *z, const float *picture, int height, int width)
{
    if (begin(p, picture, height, width, NULL) < 0)
        return -1;
    for (int i = 0; i < p->v->cfg.stages; i++)
        if (run_stage(p, i) < 0 || observe(p, "down_blocks", i) < 0)
            return -1;
    return run_middle(p) < 0 ? -1 : finish(p, z, &p->v->quant);
}

int vae_kl_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err)
{
    struct pass p = {.v = v, .part = "encoder", .err = err};
    const int factor = vae_config_factor(&v->cfg), rc = encode(&p, z, picture, height, width);
    const size_t n = (size_t)(height / factor) * (size_t)(width / factor) * (size_t)v->cfg.latent;
    if (rc == 0)
        clamp(z + n, n);
    return end(&p, rc);
}

static int decode(struct pass *p, float *picture, const float *z, int height, int width)
{
    const int last = p->v->cfg.stages - 1;
    if (begin(p, z, height, width, &p->v->quant) < 0 || run_middle(p) < 0)
        return -1;
    for (int i = last; i >= 0; i--)
        if (run_stage(p, i) < 0 || observe(p, "up_blocks", last - i) < 0)
            return -1;
    return finish(p, picture, NULL);
}

int vae_kl_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err)
{
    struct pass p = {.v = v, .part = "decoder", .err = err};
    return end(&p, decode(&p, picture, z, height, width));
}
