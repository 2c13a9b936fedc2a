/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - see step.h */
#include "engine/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/err.h"
#include "engine/layout.h"
#include "kernels/kernels.h"

struct step {
    struct model          *model;
    struct optim          *optim;
    const struct kern_ops *ops;
    struct flow            flow;
    struct model_limits    max;
    const float           *null_caption; /* [L, D] among the weights */
    float                 *x_t, *out, *dout; /* [B, channels, H, W] */
    float                 *y;                /* [B, text, D] with captions dropped */
    float                 *alpha, *sigma, *timestep; /* [B] */
    double                *per_sample;       /* [B] */
    step_backward_fn       on_backward;
    void                  *on_backward_arg;
};

static float *alloc_floats(size_t n)
{
    const size_t bytes = (n * sizeof(float) + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    if (p)
        memset(p, 0, bytes);
    return p;
}

static int alloc_scratch(struct step *s, struct err *err)
{
    const struct model_config *c = model_config(s->model);
    const size_t B = (size_t)s->max.batch;
    const size_t latent =
        B * (size_t)c->latent_channels * (size_t)s->max.height * (size_t)s->max.width;
    s->x_t = alloc_floats(latent);
    s->out = alloc_floats(latent);
    s->dout = alloc_floats(latent);
    s->y = alloc_floats(B * (size_t)s->max.text * (size_t)c->caption_channels);
    s->alpha = alloc_floats(B);
    s->sigma = alloc_floats(B);
    s->timestep = alloc_floats(B);
    s->per_sample = calloc(B, sizeof(*s->per_sample));
    if (s->x_t && s->out && s->dout && s->y && s->alpha && s->sigma && s->timestep &&
        s->per_sample)
        return 0;
    return err_set(err, ERR_MEMORY, "no memory for a batch of %d", s->max.batch);
}

int step_create(struct step **out, const struct model_config *cfg, const struct model_limits *max,
                const struct optim_config *opt, double flow_shift, struct err *err)
{
    if (!(flow_shift > 0))
        return err_set(err, ERR_USAGE, "flow_shift is %g; it must be above 0", flow_shift);
    struct step *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "no memory for a training step");
    s->ops = kern_cpu();
    s->max = *max;
    flow_init(&s->flow, flow_shift);
    if (model_create(&s->model, cfg, max, true, err) < 0 ||
        optim_create(&s->optim, opt, model_layout(s->model), err) < 0 ||
        alloc_scratch(s, err) < 0) {
        step_destroy(s);
        return -1;
    }
    const struct layout *l = model_layout(s->model);
    s->null_caption = model_weights(s->model) +
                      layout_at(l, layout_find(l, "y_embedder.y_embedding"))->offset;
    *out = s;
    return 0;
}

void step_destroy(struct step *s)
{
    if (!s)
        return;
    optim_destroy(s->optim);
    model_destroy(s->model);
    free(s->x_t);
    free(s->out);
    free(s->dout);
    free(s->y);
    free(s->alpha);
    free(s->sigma);
    free(s->timestep);
    free(s->per_sample);
    free(s);
}

struct model *step_model(struct step *s)
{
    return s->model;
}

struct optim *step_optim(struct step *s)
{
    return s->optim;
}

void step_begin(struct step *s)
{
    s->ops->zero(model_grads(s->model), layout_floats(model_layout(s->model)));
}

static int check_input(const struct step *s, const struct step_input *in, struct err *err)
{
    const int64_t pixels = (int64_t)in->height * in->width;
    if (in->batch < 1 || in->batch > s->max.batch || in->text < 1 || in->text > s->max.text ||
        pixels < 1 || pixels > (int64_t)s->max.height * s->max.width)
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d with %d caption tokens is larger "
                       "than the %d x %d x %d with %d that the step was made for", in->batch,
                       in->height, in->width, in->text, s->max.batch, s->max.height, s->max.width,
                       s->max.text);
    for (int b = 0; b < in->batch; b++)
        if (in->t_index[b] < 0 || in->t_index[b] >= FLOW_STEPS)
            return err_set(err, ERR_USAGE, "timestep index %d of sample %d is not from 0 to %d",
                           in->t_index[b], b, FLOW_STEPS - 1);
    return 0;
}

/* The caption features, or the null embedding where a caption is dropped. The mask stays. */
static const float *drop_captions(struct step *s, const struct step_input *in)
{
    const size_t n = (size_t)in->text * (size_t)model_config(s->model)->caption_channels;
    bool any = false;
    for (int b = 0; in->drop && b < in->batch; b++)
        any = any || in->drop[b];
    if (!any)
        return in->y;
    for (int b = 0; b < in->batch; b++)
        s->ops->copy(s->y + (size_t)b * n, in->drop[b] ? s->null_caption : in->y + (size_t)b * n,
                     n);
    return s->y;
}

int step_micro(struct step *s, const struct step_input *in, double weight, double *loss,
               float *per_sample, struct err *err)
{
    if (check_input(s, in, err) < 0)
        return -1;
    const size_t n = (size_t)model_config(s->model)->latent_channels * (size_t)in->height *
                     (size_t)in->width;
    for (int b = 0; b < in->batch; b++) {
        s->alpha[b] = s->flow.alpha[in->t_index[b]];
        s->sigma[b] = s->flow.sigma[in->t_index[b]];
        s->timestep[b] = s->flow.t_model[in->t_index[b]];
    }
    s->ops->flow_noise(s->x_t, in->x0, in->noise, s->alpha, s->sigma, in->batch, n);
    const struct model_input input = {
        .batch = in->batch, .height = in->height, .width = in->width, .text = in->text,
        .x = s->x_t, .timestep = s->timestep, .y = drop_captions(s, in), .mask = in->mask,
    };
    if (model_forward(s->model, &input, s->out, err) < 0)
        return -1;
    s->ops->flow_loss(s->per_sample, s->dout, s->out, in->x0, in->noise, weight, in->batch, n);
    double total = 0;
    for (int b = 0; b < in->batch; b++) {
        total += s->per_sample[b];
        if (per_sample)
            per_sample[b] = (float)s->per_sample[b];
    }
    *loss = total / in->batch;
    if (s->on_backward)
        s->on_backward(s->on_backward_arg);
    return model_backward(s->model, &input, s->dout, NULL, err);
}

void step_on_backward(struct step *s, step_backward_fn fn, void *arg)
{
    s->on_backward = fn;
    s->on_backward_arg = arg;
}

const float *step_output(const struct step *s)
{
    return s->out;
}

int step_end(struct step *s, double lr, double *grad_norm, struct err *err)
{
    float *grads = model_grads(s->model);
    *grad_norm = optim_grad_norm(model_layout(s->model), grads);
    if (!isfinite(*grad_norm))
        return err_set(err, ERR_DATA, "the norm of the gradients is %g; nothing was updated",
                       *grad_norm);
    optim_step(s->optim, model_weights(s->model), grads, *grad_norm, lr);
    return 0;
}
