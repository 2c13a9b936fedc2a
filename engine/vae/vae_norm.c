/* SPDX-License-Identifier: Apache-2.0 */
/* vae_norm.c - group norms of a picture that may never be in memory as a whole; see vae_internal.h
 *
 * Sums are taken row by row, so they have the same bits whatever the strips are, and whether the picture is stored.
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

static int add_rows(void *arg, const float *rows, int from, int to, struct err *err)
{
    const struct sums *s = arg;
    const size_t row = (size_t)s->width * (size_t)s->channels;
    (void)err;
    for (int i = 0; i < to - from; i++)
        s->ops->group_sums(s->sum, rows + (size_t)i * row, (size_t)s->width, s->channels, s->groups);
    return 0;
}

static void set_scale(struct row_scale *s, const double *sum, double count, const struct vae_norm *n, int channels,
                      int groups)
{
    const int each = channels / groups;
    for (int c = 0; c < channels; c++) {
        const double mean = sum[2 * (c / each)] / count, var = sum[2 * (c / each) + 1] / count - mean * mean;
        const double scale = (double)n->w[c] / sqrt((var > 0 ? var : 0) + EPS);
        s->scale[c] = (float)scale;
        s->shift[c] = (float)((double)n->b[c] - mean * scale);
    }
}

int vae_norm_scale(struct vae *v, struct row_scale *s, struct row_stream *of, const struct vae_norm *n,
                   struct err *err)
{
    const int channels = of->top->channels, groups = v->cfg.groups;
    const double count = (double)of->top->height * of->top->width * (channels / groups);
    struct sums sums = {v->ops, calloc(2 * (size_t)groups, sizeof(double)), of->top->width, channels, groups};
    s->scale = malloc(2 * (size_t)channels * sizeof(*s->scale));
    s->shift = s->scale ? s->scale + channels : NULL;
    int rc = sums.sum && s->scale ? row_stream_run(of, vae_stream_strip(v, of), add_rows, &sums, err)
                                  : err_set(err, ERR_MEMORY, "no memory for a norm of %d channels", channels);
    if (rc == 0)
        set_scale(s, sums.sum, count, n, channels, groups);
    free(sums.sum);
    return rc;
}
