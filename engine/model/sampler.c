/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - see sampler.h */
#include "engine/model/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/model/text_rows.h"
#include "kernels/rng.h"

struct sampler {
    struct sampler_config cfg;
    struct model         *model;
    float                *v, *v_null; /* [batch, C, H, W] */
    float                *data;       /* the same: predicted in the step before (flow-DPM-Solver++) */
    float                *y, *null, *mask; /* [rows, D], [rows, D], [rows]: packed (text_rows.h) */
    float                *null_own;   /* [L, D]: see sampler_null() */
    int                  *first;      /* [batch + 1] */
    float                *time;       /* [batch] */
};

/* If the model has no weight for the null embedding. */
static int make_null(struct sampler *s, struct err *err)
{
    const size_t row = (size_t)s->cfg.model.caption_channels;
    if (layout_find(model_layout(s->model), "y_embedder.y_embedding") >= 0)
        return 0;
    s->null_own = calloc((size_t)s->cfg.model.caption_len * row, sizeof(float));
    return s->null_own ? 0 : err_set(err, ERR_MEMORY, "out of memory for an empty caption");
}

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
    s->data = calloc(cfg->method == SAMPLER_FLOW_DPM ? batch * latent : 1, sizeof(float));
    s->y = calloc(batch * row, sizeof(float));
    s->null = calloc(batch * row, sizeof(float));
    s->mask = calloc(batch * (size_t)cfg->limits.text, sizeof(float));
    s->first = calloc(batch + 1, sizeof(*s->first));
    s->time = calloc(batch, sizeof(float));
    if (!s->v || !s->v_null || !s->data || !s->y || !s->null || !s->mask || !s->first || !s->time)
        err_set(err, ERR_MEMORY, "out of memory for sampling %d at once", cfg->limits.batch);
    else if (model_create(&s->model, &cfg->model, &cfg->limits, false, err) == 0 &&
             make_null(s, err) == 0) {
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
    free(s->data);
    free(s->y);
    free(s->null);
    free(s->null_own);
    free(s->mask);
    free(s->first);
    free(s->time);
    free(s);
}

float *sampler_null(struct sampler *s)
{
    return s->null_own;
}

struct model *sampler_model(struct sampler *s)
{
    return s->model;
}

struct model_limits sampler_limits(const struct sampler *s)
{
    return s->cfg.limits;
}

/* The embedding of a dropped caption, [caption_len, D]; NULL: the model's is too short. */
static const float *null_caption(struct sampler *s, struct err *err)
{
    const struct layout *l = model_layout(s->model);
    int i = layout_find(l, "y_embedder.y_embedding");
    if (s->null_own)
        return s->null_own;
    size_t row = (size_t)s->cfg.limits.text * (size_t)s->cfg.model.caption_channels;
    if (i >= 0 && layout_at(l, i)->count >= row)
        return model_weights(s->model) + layout_at(l, i)->offset;
    err_set(err, ERR_BUG, "the model has no null embedding of %d words", s->cfg.limits.text);
    return NULL;
}

/* Packs the captions of a batch, and as many rows of the null embedding. */
static void pack(struct sampler *s, struct model_input *in, const float *y, const float *mask, const float *null)
{
    const struct model_limits *m = &s->cfg.limits;
    const size_t D = (size_t)s->cfg.model.caption_channels, words = (size_t)m->text;
    in->rows = text_rows_find(s->first, mask, in->batch, m->text, s->null_own ? 1 : text_rows_step(m->batch, m->text));
    for (size_t b = 0; b < (size_t)in->batch; b++) {
        const size_t at = (size_t)s->first[b], n = (size_t)s->first[b + 1] - at;
        memcpy(s->y + at * D, y + b * words * D, sizeof(float) * n * D);
        memcpy(s->null + at * D, null, sizeof(float) * n * D);
        memcpy(s->mask + at, mask + b * words, sizeof(float) * n);
    }
    in->y = s->y;
    in->mask = s->mask;
    in->first = s->first;
}

static double sigma_at(const struct sampler_config *c, int i)
{
    double s = (c->method == SAMPLER_FLOW_DPM ? 0.999 : 1.0) * (1 - (double)i / c->steps);
    return c->flow_shift * s / (1 + (c->flow_shift - 1) * s);
}

static size_t floats_of(const struct sampler *s, const struct model_input *in)
{
    return (size_t)in->batch * (size_t)s->cfg.model.latent_channels * (size_t)in->height * (size_t)in->width;
}

/* s->v: the velocity at noise level sigma, with guidance; `in` is the batch except for the time. */
static int velocity(struct sampler *s, struct model_input *in, double sigma, struct err *err)
{
    double t = sigma * 1000 < 999 ? sigma * 1000 : 999; /* training uses 0..999 only */
    const bool to_data = model_goes_to_data(s->model);
    for (int b = 0; b < in->batch; b++)
        s->time[b] = to_data ? (float)(1 - sigma) : (float)(int)t;
    if (model_forward_host(s->model, in, s->v, err) < 0)
        return -1;
    if (s->cfg.cfg == 1)
        return 0;
    struct model_input unguided = *in;
    unguided.y = s->null;
    if (model_forward_host(s->model, &unguided, s->v_null, err) < 0)
        return -1;
    const float c = (float)s->cfg.cfg;
    for (size_t k = 0; k < floats_of(s, in); k++)
        s->v[k] = s->v_null[k] + c * (s->v[k] - s->v_null[k]);
    return 0;
}

static void euler(struct sampler *s, float *x, size_t count, double sigma, double next)
{
    const float dt = (float)(model_goes_to_data(s->model) ? sigma - next : next - sigma);
    for (size_t k = 0; k < count; k++)
        x[k] += dt * s->v[k];
}

static double lambda(double sigma)
{
    return log((1 - sigma) / sigma);
}

/* x = sigma' / sigma x + (b + c) data - c data_before, b = -alpha' expm1(-h), c = b h / (2 h_before). */
static void flow_dpm(struct sampler *s, float *x, size_t count, int i)
{
    const double sigma = sigma_at(&s->cfg, i), next = sigma_at(&s->cfg, i + 1), h = lambda(next) - lambda(sigma);
    const double b = -(1 - next) * expm1(-h);
    const bool first = i == 0 || i + 1 == s->cfg.steps;
    const double c = first ? 0 : b * h / (2 * (lambda(sigma) - lambda(sigma_at(&s->cfg, i - 1))));
    const float to = (float)(model_goes_to_data(s->model) ? sigma : -sigma);
    const float keep = (float)(next / sigma), now = (float)(b + c), before = (float)-c;
    for (size_t k = 0; k < count; k++) {
        const float data = x[k] + to * s->v[k];
        x[k] = keep * x[k] + now * data + (first ? 0 : before * s->data[k]);
        s->data[k] = data;
    }
}

/* Moves x by one step. */
static int move(struct sampler *s, float *x, struct model_input *in, int i, struct err *err)
{
    const double sigma = sigma_at(&s->cfg, i);
    if (velocity(s, in, sigma, err) < 0)
        return -1;
    if (s->cfg.method == SAMPLER_FLOW_DPM)
        flow_dpm(s, x, floats_of(s, in), i);
    else
        euler(s, x, floats_of(s, in), sigma, sigma_at(&s->cfg, i + 1));
    return 0;
}

int sampler_draw(struct sampler *s, float *latents, const struct sampler_wish *w,
                 sampler_tick_fn tick, void *arg, struct err *err)
{
    const struct model_limits *m = &s->cfg.limits;
    size_t latent = (size_t)s->cfg.model.latent_channels * (size_t)w->height * (size_t)w->width;
    size_t words = (size_t)m->text, row = words * (size_t)s->cfg.model.caption_channels;
    const float *null = null_caption(s, err);
    if (!null)
        return -1;
    for (int from = 0; from < w->n; from += m->batch) {
        int len = w->n - from < m->batch ? w->n - from : m->batch;
        float *x = latents + (size_t)from * latent;
        struct model_input in = {.batch = len, .height = w->height, .width = w->width,
                                 .text = m->text, .x = x, .timestep = s->time};
        pack(s, &in, w->y + (size_t)from * row, w->mask + (size_t)from * words, null);
        for (int b = 0; b < len; b++) {
            struct rng r = rng_make(s->cfg.seed, 0, (uint64_t)w->ids[from + b], RNG_SAMPLING);
            rng_normal(&r, x + (size_t)b * latent, 0, latent);
        }
        for (int i = 0; i < s->cfg.steps; i++) {
            if (move(s, x, &in, i, err) < 0)
                return -1;
            if (tick && !tick(arg, (from + (double)len * (i + 1) / s->cfg.steps) / w->n))
                return err_set(err, ERR_CONFLICT, "stopped while pictures are drawn");
        }
    }
    return 0;
}
