/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - see sampler.h */
#include "engine/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "engine/err.h"
#include "engine/layout.h"
#include "kernels/rng.h"

struct sampler {
    struct sampler_config cfg;
    struct model         *model;
    float                *v, *v_null; /* [batch, C, H, W] */
    float                *null;       /* [batch, text, D] */
    float                *time;       /* [batch] */
};

int sampler_create(struct sampler **out, const struct sampler_config *cfg, struct err *err)
{
    struct sampler *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for sampling");
    s->cfg = *cfg;
    size_t batch = (size_t)cfg->limits.batch;
    size_t latent = (size_t)cfg->model.latent_channels * (size_t)cfg->limits.height *
                    (size_t)cfg->limits.width;
    size_t row = (size_t)cfg->limits.text * (size_t)cfg->model.caption_channels;
    s->v = calloc(batch * latent, sizeof(float));
    s->v_null = calloc(batch * latent, sizeof(float));
    s->null = calloc(batch * row, sizeof(float));
    s->time = calloc(batch, sizeof(float));
    if (!s->v || !s->v_null || !s->null || !s->time)
        err_set(err, ERR_MEMORY, "out of memory for sampling %d at once", cfg->limits.batch);
    else if (model_create(&s->model, &cfg->model, &cfg->limits, false, err) == 0) {
        *out = s;
        return 0;
    }
    sampler_destroy(s);
    return -1;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    model_destroy(s->model);
    free(s->v);
    free(s->v_null);
    free(s->null);
    free(s->time);
    free(s);
}

struct model *sampler_model(struct sampler *s)
{
    return s->model;
}

struct model_limits sampler_limits(const struct sampler *s)
{
    return s->cfg.limits;
}

/* Rows of the null embedding for every sample of a batch. */
static int fill_null(struct sampler *s, struct err *err)
{
    const struct layout *l = model_layout(s->model);
    int i = layout_find(l, "y_embedder.y_embedding");
    size_t row = (size_t)s->cfg.limits.text * (size_t)s->cfg.model.caption_channels;
    if (i < 0 || layout_at(l, i)->count < row)
        return err_set(err, ERR_BUG, "the model has no null embedding of %d words",
                       s->cfg.limits.text);
    for (int b = 0; b < s->cfg.limits.batch; b++)
        memcpy(s->null + (size_t)b * row, model_weights(s->model) + layout_at(l, i)->offset,
               sizeof(float) * row);
    return 0;
}

static double sigma_at(const struct sampler_config *c, int i)
{
    double s = 1 - (double)i / c->steps;
    return c->flow_shift * s / (1 + (c->flow_shift - 1) * s);
}

/* x by one step; `in` is the batch but for the time. */
static int euler(struct sampler *s, float *x, struct model_input *in, int i, struct err *err)
{
    double sigma = sigma_at(&s->cfg, i), next = sigma_at(&s->cfg, i + 1);
    double t = sigma * 1000 < 999 ? sigma * 1000 : 999; /* training knows 0..999 */
    size_t count = (size_t)in->batch * (size_t)s->cfg.model.latent_channels * (size_t)in->height *
                   (size_t)in->width;
    for (int b = 0; b < in->batch; b++)
        s->time[b] = (float)(int)t;
    if (model_forward_here(s->model, in, s->v, err) < 0)
        return -1;
    if (s->cfg.cfg != 1) {
        struct model_input unguided = *in;
        unguided.y = s->null;
        if (model_forward_here(s->model, &unguided, s->v_null, err) < 0)
            return -1;
        float c = (float)s->cfg.cfg;
        for (size_t k = 0; k < count; k++)
            s->v[k] = s->v_null[k] + c * (s->v[k] - s->v_null[k]);
    }
    float dt = (float)(next - sigma);
    for (size_t k = 0; k < count; k++)
        x[k] += dt * s->v[k];
    return 0;
}

int sampler_draw(struct sampler *s, float *latents, const struct sampler_wish *w,
                 sampler_tick_fn tick, void *arg, struct err *err)
{
    const struct model_limits *m = &s->cfg.limits;
    size_t latent = (size_t)s->cfg.model.latent_channels * (size_t)w->height * (size_t)w->width;
    size_t words = (size_t)m->text, row = words * (size_t)s->cfg.model.caption_channels;
    if (fill_null(s, err) < 0)
        return -1;
    for (int from = 0; from < w->n; from += m->batch) {
        int len = w->n - from < m->batch ? w->n - from : m->batch;
        float *x = latents + (size_t)from * latent;
        struct model_input in = {.batch = len, .height = w->height, .width = w->width,
                                 .text = m->text, .x = x, .timestep = s->time,
                                 .y = w->y + (size_t)from * row,
                                 .mask = w->mask + (size_t)from * words};
        for (int b = 0; b < len; b++) {
            struct rng r = rng_make(s->cfg.seed, 0, (uint64_t)w->ids[from + b], RNG_SAMPLING);
            rng_normal(&r, x + (size_t)b * latent, 0, latent);
        }
        for (int i = 0; i < s->cfg.steps; i++) {
            if (euler(s, x, &in, i, err) < 0)
                return -1;
            if (tick)
                tick(arg, (from + (double)len * (i + 1) / s->cfg.steps) / w->n);
        }
    }
    return 0;
}
