/* SPDX-License-Identifier: Apache-2.0 */
/* vae_kl.c - encoder and decoder of AutoencoderKL; see vae.h
 *
 * A norm needs the sums of the whole picture, so each convolution runs from one picture in memory to another.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

#define EPS 1e-6

enum { SUM_PIXELS = 1 << 16 };

static size_t pixels_of(const struct vae_map *m)
{
    return (size_t)m->height * (size_t)m->width;
}

/* --- norms ---------------------------------------------------------------------------------- */

/* y = (x - mean) / sqrt(var + eps) * w + b as x * scale + shift. The caller frees s->scale. */
static int group_scale(struct vae *v, struct row_scale *s, const struct vae_map *m, const struct vae_norm *n,
                       struct err *err)
{
    const int groups = v->cfg.groups, each = m->channels / groups;
    const double count = (double)pixels_of(m) * each;
    double *sum = calloc(2 * (size_t)groups, sizeof(*sum));
    s->scale = malloc(2 * (size_t)m->channels * sizeof(*s->scale));
    if (!sum || !s->scale) {
        free(sum);
        return err_set(err, ERR_MEMORY, "no memory for a norm");
    }
    s->shift = s->scale + m->channels;
    v->ops->group_sums(sum, m->x, pixels_of(m), m->channels, groups);
    for (int c = 0; c < m->channels; c++) {
        const double mean = sum[2 * (c / each)] / count, var = sum[2 * (c / each) + 1] / count - mean * mean;
        const double scale = (double)n->w[c] / sqrt((var > 0 ? var : 0) + EPS);
        s->scale[c] = (float)scale;
        s->shift[c] = (float)((double)n->b[c] - mean * scale);
    }
    free(sum);
    return 0;
}

/* --- convolutions of whole pictures --------------------------------------------------------- */

/* The map through conv(silu(norm x)) or, with n NULL, conv x, on a stream of its own. */
static int begin_conv(struct vae *v, struct row_stream *s, struct row_scale *scale, const struct vae_map *m,
                      const struct vae_norm *n, const struct vae_conv *c, struct err *err)
{
    *s = (struct row_stream){NULL, v->ops};
    if ((n && group_scale(v, scale, m, n, err) < 0) ||
        row_stream_begin(s, m->x, m->height, m->width, m->channels, err) < 0)
        return -1;
    if (n && row_stream_push(s, row_scale_silu, scale, m->height, m->width, m->channels, err) < 0)
        return -1;
    return row_push_conv(s, row_conv, c, err);
}

/* Into a new picture; `keep`: the old one stays the caller's. */
static int conv_map(struct vae *v, struct vae_map *out, const struct vae_map *m, const struct vae_norm *n,
                    const struct vae_conv *c, struct err *err)
{
    struct row_stream s;
    struct row_scale scale = {NULL, NULL};
    int rc = begin_conv(v, &s, &scale, m, n, c, err);
    if (rc == 0)
        rc = vae_map_run(v, out, &s, err);
    else
        row_stream_end(&s);
    free(scale.scale);
    return rc;
}

/* The same, in place of the old one. */
static int replace_map(struct vae *v, struct vae_map *m, const struct vae_norm *n, const struct vae_conv *c,
                       struct err *err)
{
    struct vae_map out = {NULL, 0, 0, 0};
    const int rc = conv_map(v, &out, m, n, c, err);
    free(m->x);
    *m = out;
    return rc;
}

struct sum {
    const struct kern_ops *ops;
    const struct vae_map  *x;
};

static int add_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct sum *sum = arg;
    const struct vae_map *m = sum->x;
    const size_t row = (size_t)m->width * (size_t)m->channels, n = (size_t)(to - from) * row;
    float *x = m->x + (size_t)from * row;
    (void)err;
    sum->ops->add(x, x, rows, n);
    return 0;
}

/* x += conv(silu(norm h)) */
static int add_conv(struct vae *v, struct vae_map *x, const struct vae_map *h, const struct vae_norm *n,
                    const struct vae_conv *c, struct err *err)
{
    struct row_stream s;
    struct row_scale scale = {NULL, NULL};
    int rc = begin_conv(v, &s, &scale, h, n, c, err);
    if (rc == 0)
        rc = row_stream_run(&s, vae_strip(v, h->width, 1), add_rows, &(struct sum){v->ops, x}, err);
    row_stream_end(&s);
    free(scale.scale);
    return rc;
}

/* Rows of fewer channels fit where those of the input were. */
static int shrink_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct vae_map *m = arg;
    const size_t row = (size_t)m->width * (size_t)m->channels;
    (void)err;
    memmove(m->x + (size_t)from * row, rows, (size_t)(to - from) * row * sizeof(float));
    return 0;
}

static int shortcut(struct vae *v, struct vae_map *x, const struct vae_conv *c, struct err *err)
{
    struct row_stream s;
    struct vae_map to = {x->x, x->height, x->width, c->c.out};
    if (c->c.out > x->channels)
        return replace_map(v, x, NULL, c, err);
    int rc = begin_conv(v, &s, NULL, x, NULL, c, err);
    if (rc == 0)
        rc = row_stream_run(&s, vae_strip(v, x->width, 1), shrink_rows, &to, err);
    row_stream_end(&s);
    float *less = rc == 0 ? realloc(x->x, pixels_of(&to) * (size_t)to.channels * sizeof(float)) : NULL;
    to.x = less ? less : x->x;
    *x = to;
    return rc;
}

static int run_res(struct vae *v, struct vae_map *x, const struct vae_kl_res *r, struct err *err)
{
    struct vae_map h = {NULL, 0, 0, 0};
    int rc = conv_map(v, &h, x, &r->norm1, &r->conv1, err);
    if (rc == 0 && r->shortcut.w)
        rc = shortcut(v, x, &r->shortcut, err);
    if (rc == 0)
        rc = add_conv(v, x, &h, &r->norm2, &r->conv2, err);
    free(h.x);
    return rc;
}

/* --- attention in the middle ---------------------------------------------------------------- */

static void convolve(const struct vae *v, float *y, const float *x, const struct vae_map *m, const struct vae_conv *c)
{
    const struct kern_rows in = {x, 0, m->height, m->width, m->channels};
    v->ops->conv(y, in, c->c, c->w, c->bias, 0, m->height, *c->work);
}

/* a: five arrays of the picture's size */
static void run_attention(const struct vae *v, struct vae_map *m, const struct row_scale *s, float *a, float *kept)
{
    const struct vae_kl_middle *mid = &v->middle;
    const size_t n = pixels_of(m) * (size_t)m->channels;
    const int c = m->channels, tokens = (int)pixels_of(m);
    float *q = a + n, *k = a + 2 * n, *value = a + 3 * n, *out = a + 4 * n;
    v->ops->scale_rows(a, m->x, s->scale, s->shift, pixels_of(m), c, false);
    convolve(v, q, a, m, &mid->q);
    convolve(v, k, a, m, &mid->k);
    convolve(v, value, a, m, &mid->v);
    v->ops->attend(out, kept, q, k, c, value, c, (struct kern_keys){NULL, tokens, 1},
                   (struct kern_heads){1, tokens, 1, c});
    convolve(v, a, out, m, &mid->out);
    v->ops->add(m->x, m->x, a, n);
}

static int attention(struct vae *v, struct vae_map *m, struct err *err)
{
    const size_t n = pixels_of(m);
    struct row_scale s = {NULL, NULL};
    float *a = malloc((5 * (size_t)m->channels + 1) * n * sizeof(*a));
    int rc = a ? group_scale(v, &s, m, &v->middle.norm, err) : err_set(err, ERR_MEMORY, "no memory for attention");
    if (rc == 0)
        run_attention(v, m, &s, a, a + 5 * (size_t)m->channels * n);
    free(s.scale);
    free(a);
    return rc;
}

static int run_middle(struct vae *v, struct vae_map *m, struct err *err)
{
    if (run_res(v, m, &v->middle.res[0], err) < 0 || attention(v, m, err) < 0)
        return -1;
    return run_res(v, m, &v->middle.res[1], err);
}

/* --- both ways ------------------------------------------------------------------------------ */

/* Planes through up to two convolutions into a picture in memory. */
static int begin(struct vae *v, struct vae_map *m, const float *planes, int height, int width,
                 const struct vae_conv *before, struct err *err)
{
    struct row_stream s = {NULL, v->ops};
    const int channels = before ? before->c.in : v->in.c.in;
    if (row_stream_push(&s, row_planes, planes, height, width, channels, err) < 0 ||
        (before && row_push_conv(&s, row_conv, before, err) < 0) || row_push_conv(&s, row_conv, &v->in, err) < 0) {
        row_stream_end(&s);
        return -1;
    }
    return vae_map_run(v, m, &s, err);
}

/* conv(silu(norm m)), and maybe one more, as planes. */
static int finish(struct vae *v, float *planes, const struct vae_map *m, const struct vae_conv *after, struct err *err)
{
    struct row_stream s;
    struct row_scale scale = {NULL, NULL};
    int rc = begin_conv(v, &s, &scale, m, &v->out_norm, &v->out, err);
    if (rc == 0 && after)
        rc = row_push_conv(&s, row_conv, after, err);
    if (rc == 0)
        rc = vae_planes_run(v, planes, &s, err);
    else
        row_stream_end(&s);
    free(scale.scale);
    return rc;
}

static int run_stage(struct vae *v, struct vae_map *m, int i, struct err *err)
{
    const struct vae_stage *s = &v->stage[i];
    for (int b = 0; b < s->blocks; b++)
        if (run_res(v, m, &s->res[b], err) < 0)
            return -1;
    return s->change.w ? replace_map(v, m, NULL, &s->change, err) : 0;
}

static void clamp(float *logvar, size_t n)
{
    for (size_t i = 0; i < n; i++)
        logvar[i] = logvar[i] < -30 ? -30 : logvar[i] > 20 ? 20 : logvar[i];
}

static int encode(struct vae *v, struct vae_map *m, float *z, const float *picture, int height, int width,
                  struct err *err)
{
    if (begin(v, m, picture, height, width, NULL, err) < 0)
        return -1;
    for (int i = 0; i < v->cfg.stages; i++)
        if (run_stage(v, m, i, err) < 0 || vae_observe_map(v, "encoder", m, "down_blocks", i, err) < 0)
            return -1;
    if (run_middle(v, m, err) < 0 || vae_observe_map(v, "encoder", m, "mid_block", -1, err) < 0 ||
        finish(v, z, m, &v->quant, err) < 0)
        return -1;
    const size_t n = pixels_of(m) * (size_t)v->cfg.latent;
    clamp(z + n, n);
    return 0;
}

int vae_kl_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err)
{
    struct vae_map m = {NULL, 0, 0, 0};
    const int rc = encode(v, &m, z, picture, height, width, err);
    free(m.x);
    return rc;
}

static int decode(struct vae *v, struct vae_map *m, float *picture, const float *z, int height, int width,
                  struct err *err)
{
    const int last = v->cfg.stages - 1;
    if (begin(v, m, z, height, width, &v->quant, err) < 0 || run_middle(v, m, err) < 0 ||
        vae_observe_map(v, "decoder", m, "mid_block", -1, err) < 0)
        return -1;
    for (int i = last; i >= 0; i--)
        if (run_stage(v, m, i, err) < 0 || vae_observe_map(v, "decoder", m, "up_blocks", last - i, err) < 0)
            return -1;
    return finish(v, picture, m, NULL, err);
}

int vae_kl_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err)
{
    struct vae_map m = {NULL, 0, 0, 0};
    const int rc = decode(v, &m, picture, z, height, width, err);
    free(m.x);
    return rc;
}
