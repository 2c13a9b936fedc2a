/* SPDX-License-Identifier: Apache-2.0 */
/* vae_norm.c - group norms of a picture that may never be in memory as a whole; see vae_internal.h
 *
 * On the CPU sums are taken row by row, so they have the same bits whatever the strips are, and whether the picture is
 * stored.
 */
#include <math.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/vae/vae_internal.h"

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
