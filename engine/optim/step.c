/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - see step.h */
#include "engine/optim/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/graph.h"
#include "engine/model/layout.h"
#include "engine/model/text_rows.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

struct step {
    struct model          *model;
    struct params         *params;
    const struct kern_ops *ops;
    struct flow            flow;
    struct model_limits    max;
    float                 *null_own;     /* [L, D]: the null embedding where it is not a weight */
    uint16_t              *null_bf16;    /* the same, rounded when it is used first; or NULL */
    bool                   null_rounded;
    /* kernel arrays */
    float                 *x_t, *out, *dout; /* [B, channels, H, W] */
    float                 *y, *mask;         /* [rows, D], [rows]: packed, with captions dropped; y may be of bf16 */
    int                   *first;            /* [B + 1]: see text_rows.h */
    double                *per_sample;       /* [B] */
    float                 *alpha, *sigma, *timestep; /* [B] */
    float                 *x0, *noise;       /* copies of an input, or drawn; NULL on the CPU */
    struct rng            *streams;          /* [B]; NULL on the CPU */
    /* this process's memory */
    double                *host_losses;      /* [B] */
    float                 *host_times;       /* [B]: what goes to alpha, sigma, timestep */
    float                 *host_mask;        /* [rows] */
    int                   *host_first;       /* [B + 1] */
    int                    row_step;         /* packed captions are a multiple of this many rows */
    float                 *host_out;         /* of step_output() */
    size_t                 out_count;        /* numbers of the last output */
    step_backward_fn       on_backward;
    void                  *on_backward_arg;
    struct graphs         *graphs;           /* NULL: no recording */
};

static void *array_of(const struct step *s, size_t bytes, struct err *err)
{
    return backend_alloc(s->ops, bytes, USE_INPUTS, err);
}

/* Next-DiT does not mask padding, so captions have none; and it has no weight for a dropped caption. */
static bool captions_are_exact(const struct step *s)
{
    return model_config(s->model)->family == MODEL_NEXTDIT;
}

static int alloc_scratch(struct step *s, struct err *err)
{
    const struct model_config *c = model_config(s->model);
    const size_t B = (size_t)s->max.batch, text = B * (size_t)s->max.text;
    const size_t latents = (size_t)c->latent_channels * (size_t)model_limits_pixels(&s->max);
    const size_t latent = latents * sizeof(float), token = (size_t)c->caption_channels * sizeof(float);
    const bool exact = captions_are_exact(s), host = s->ops->host;
    if (!(s->x_t = array_of(s, latent, err)) || !(s->out = array_of(s, latent, err)) ||
        !(s->dout = array_of(s, latent, err)) || !(s->y = array_of(s, text * token, err)) ||
        !(s->mask = array_of(s, text * sizeof(*s->mask), err)) ||
        !(s->alpha = array_of(s, B * sizeof(*s->alpha), err)) ||
        !(s->sigma = array_of(s, B * sizeof(*s->sigma), err)) ||
        !(s->timestep = array_of(s, B * sizeof(*s->timestep), err)) ||
        !(s->per_sample = array_of(s, B * sizeof(*s->per_sample), err)) ||
        !(s->first = array_of(s, (B + 1) * sizeof(*s->first), err)) ||
        (!host && (!(s->x0 = array_of(s, latent, err)) || !(s->noise = array_of(s, latent, err)) ||
                   !(s->streams = array_of(s, B * sizeof(*s->streams), err)))))
        return -1;
    s->row_step = exact ? 1 : text_rows_step(s->max.batch, s->max.text);
    s->host_losses = calloc(B, sizeof(*s->host_losses));
    s->host_times = calloc(B, sizeof(*s->host_times));
    s->host_mask = calloc(text, sizeof(*s->host_mask));
    s->host_first = calloc(B + 1, sizeof(*s->host_first));
    s->host_out = host ? NULL : calloc(latents, sizeof(*s->host_out));
    const bool own = exact || model_lora(s->model);
    s->null_own = own ? calloc((size_t)c->caption_len, token) : NULL;
    s->null_bf16 = own && step_takes_bf16(s->ops, c) ? calloc((size_t)c->caption_len, token / 2) : NULL;
    if (s->host_losses && s->host_times && s->host_mask && s->host_first && (s->host_out || host) &&
        (s->null_own || !own) && (s->null_bf16 || !own || !step_takes_bf16(s->ops, c)))
        return 0;
    return err_set(err, ERR_MEMORY, "no memory for a batch of %d", s->max.batch);
}

bool step_draws_noise(const struct kern_ops *ops)
{
    return !ops->host;
}

bool step_takes_bf16(const struct kern_ops *ops, const struct model_config *cfg)
{
    return ops->narrow == sizeof(uint16_t) && model_rounds_captions(cfg);
}

static const float *null_weight(const struct step *s)
{
    const struct layout *l = model_layout(s->model);
    return params_tensor(s->params, layout_at(l, layout_find(l, "y_embedder.y_embedding")));
}

/* The first n numbers of the empty caption: a weight, or our own. */
static void take_null(const struct step *s, float *to, size_t n)
{
    if (s->null_own)
        s->ops->upload(to, s->null_own, n * sizeof(*to));
    else
        s->ops->copy(to, null_weight(s), n);
}

static void take_null_bf16(struct step *s, uint16_t *to, size_t n)
{
    if (!s->null_own) {
        s->ops->round(to, null_weight(s), n);
        return;
    }
    if (!s->null_rounded)
        bf16_round(s->null_bf16, s->null_own, (size_t)s->max.text * (size_t)model_config(s->model)->caption_channels);
    s->null_rounded = true;
    s->ops->upload(to, s->null_bf16, n * sizeof(*to));
}

float *step_null(struct step *s)
{
    s->null_rounded = false; /* the caller may change it */
    return s->null_own;
}

int step_create(struct step **out, const struct model_config *cfg, const struct model_limits *max,
                const struct optim_config *opt, double flow_shift, const struct params_share *share, struct err *err)
{
    if (!(flow_shift > 0))
        return err_set(err, ERR_USAGE, "flow_shift is %g; it must be above 0", flow_shift);
    struct step *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "no memory for a training step");
    s->ops = backend_ops();
    s->max = *max;
    s->graphs = graphs_create(backend_graphs());
    s->max.by_unit = params_by_unit(share);
    flow_init(&s->flow, flow_shift);
    if (model_create(&s->model, cfg, &s->max, true, err) < 0 ||
        params_create(&s->params, s->model, opt, share, err) < 0 || alloc_scratch(s, err) < 0) {
        step_destroy(s);
        return -1;
    }
    *out = s;
    return 0;
}

void step_destroy(struct step *s)
{
    if (!s)
        return;
    graphs_destroy(s->graphs);
    params_destroy(s->params);
    model_destroy(s->model);
    void *const arrays[] = {s->x_t,   s->out, s->dout,  s->y,    s->per_sample, s->alpha,
                            s->sigma, s->timestep, s->x0, s->noise, s->mask,  s->first, s->streams};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        s->ops->release(arrays[i]);
    free(s->null_own);
    free(s->null_bf16);
    free(s->host_losses);
    free(s->host_times);
    free(s->host_mask);
    free(s->host_first);
    free(s->host_out);
    free(s);
}

struct model *step_model(struct step *s)
{
    return s->model;
}

struct params *step_params(struct step *s)
{
    return s->params;
}

void step_begin(struct step *s)
{
    s->ops->zero(params_grads(s->params), params_floats(s->params));
}

static int check_input(const struct step *s, const struct step_input *in, struct err *err)
{
    const int64_t pixels = (int64_t)in->height * in->width;
    if (in->batch < 1 || in->batch > s->max.batch || in->text < 1 || in->text > s->max.text ||
        pixels < 1 || pixels > (int64_t)s->max.height * s->max.width ||
        in->batch * pixels > model_limits_pixels(&s->max))
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d with %d caption tokens is larger "
                       "than the %d x %d x %d with %d that the step was made for", in->batch,
                       in->height, in->width, in->text, s->max.batch, s->max.height, s->max.width,
                       s->max.text);
    if (in->streams && !step_draws_noise(s->ops))
        return err_set(err, ERR_BUG, "a batch without noise for a device that draws none");
    for (int b = 0; b < in->batch; b++)
        if (in->t_index[b] < 0 || in->t_index[b] >= FLOW_STEPS)
            return err_set(err, ERR_USAGE, "timestep index %d of sample %d is not from 0 to %d",
                           in->t_index[b], b, FLOW_STEPS - 1);
    return 0;
}

/* An input as a kernel array: copied to `to`, or the input itself on the CPU. */
static const float *stage(const struct step *s, float *to, const float *from, size_t count)
{
    if (s->ops->host)
        return from;
    s->ops->upload(to, from, count * sizeof(float));
    return to;
}

/* Noise as a kernel array: that of the input, or drawn now, outside of what graph.h records. */
static const float *stage_noise(const struct step *s, const struct step_input *in, size_t per_sample)
{
    if (!in->streams)
        return stage(s, s->noise, in->noise, (size_t)in->batch * per_sample);
    s->ops->upload(s->streams, in->streams, (size_t)in->batch * sizeof(*s->streams));
    s->ops->draw_normal(s->noise, s->streams, 0, in->batch, per_sample);
    return s->noise;
}

/* The values of a flow table at the batch's timesteps. */
static void stage_times(struct step *s, float *to, const float *table, const struct step_input *in)
{
    for (int b = 0; b < in->batch; b++)
        s->host_times[b] = table[in->t_index[b]];
    s->ops->upload(to, s->host_times, (size_t)in->batch * sizeof(float));
}

/* Caption b, n numbers, from number `at` on. */
static void take_caption(struct step *s, const struct step_input *in, size_t b, size_t at, size_t n)
{
    const size_t from = b * (size_t)in->text * (size_t)model_config(s->model)->caption_channels;
    const bool dropped = in->drop && in->drop[b];
    uint16_t *half = (uint16_t *)(void *)s->y + at;
    if (in->y_bf16 && dropped)
        take_null_bf16(s, half, n);
    else if (in->y_bf16)
        s->ops->upload(half, in->y_bf16 + from, n * sizeof(*half));
    else if (dropped)
        take_null(s, s->y + at, n);
    else
        s->ops->upload(s->y + at, in->y + from, n * sizeof(*s->y));
}

/* Captions without padding; a dropped one becomes the null embedding and keeps its mask.
 * The longest length is rounded up to whole tiles, so that graph.h records few different batches. */
static void pack_captions(struct step *s, struct model_input *to, const struct step_input *in)
{
    enum { TILE = 64 };
    const size_t D = (size_t)model_config(s->model)->caption_channels, text = (size_t)in->text;
    const int most = (in->text + TILE - 1) / TILE * TILE;
    int *first = s->host_first;
    to->rows = text_rows_find(first, in->mask, in->batch, in->text, s->row_step);
    for (size_t b = 0; b < (size_t)in->batch; b++) {
        const size_t n = (size_t)(first[b + 1] - first[b]), at = (size_t)first[b];
        take_caption(s, in, b, at * D, n * D);
        memcpy(s->host_mask + at, in->mask + b * text, n * sizeof(float));
    }
    s->ops->upload(s->mask, s->host_mask, (size_t)to->rows * sizeof(float));
    s->ops->upload(s->first, first, ((size_t)in->batch + 1) * sizeof(*first));
    to->text = most < s->max.text ? most : s->max.text;
    to->y = in->y_bf16 ? NULL : s->y;
    to->y_narrow = in->y_bf16 ? s->y : NULL;
    to->mask = s->mask;
    to->first = s->first;
}

/* Waits for the device. */
static double take_losses(struct step *s, int batch, float *per_sample)
{
    double total = 0;
    s->ops->download(s->host_losses, s->per_sample, (size_t)batch * sizeof(*s->per_sample));
    for (int b = 0; b < batch; b++) {
        total += s->host_losses[b];
        if (per_sample)
            per_sample[b] = (float)s->host_losses[b];
    }
    return total / batch;
}

/* A micro-batch as kernel arrays. */
struct pass {
    struct step       *step;
    struct model_input input;
    const float       *x0, *noise;
    const float       *from, *to; /* the two of them that the model's velocity leads between */
    size_t             numbers; /* of a sample */
    double             weight;
};

enum { FORWARD, BACKWARD };

static int forward(void *arg, struct err *err)
{
    const struct pass *p = arg;
    struct step *s = p->step;
    const int batch = p->input.batch;
    s->ops->flow_noise(s->x_t, p->x0, p->noise, s->alpha, s->sigma, batch, p->numbers);
    if (model_forward(s->model, &p->input, s->out, err) < 0)
        return -1;
    s->ops->flow_loss(s->per_sample, s->dout, s->out, p->from, p->to, p->weight, batch, p->numbers);
    return 0;
}

static int backward(void *arg, struct err *err)
{
    const struct pass *p = arg;
    return model_backward(p->step->model, &p->input, p->step->dout, NULL, err);
}

/* Mid-pass callbacks rule out graph replay. */
static int run(struct pass *p, int part, struct err *err)
{
    struct step *s = p->step;
    const struct model_input *in = &p->input;
    const struct graph_key key = {
        .part = part, .batch = in->batch, .height = in->height, .width = in->width,
        .text = in->text, .rows = in->rows, .weight = p->weight,
    };
    return graphs_run(model_calls_back(s->model) ? NULL : s->graphs, &key,
                      part == FORWARD ? forward : backward, p, err);
}

int step_micro(struct step *s, const struct step_input *in, double weight, double *loss,
               float *per_sample, struct err *err)
{
    if (check_input(s, in, err) < 0)
        return -1;
    const size_t n = (size_t)model_config(s->model)->latent_channels * (size_t)in->height *
                     (size_t)in->width;
    const size_t all = n * (size_t)in->batch;
    const bool to_data = model_goes_to_data(s->model);
    stage_times(s, s->alpha, s->flow.alpha, in);
    stage_times(s, s->sigma, s->flow.sigma, in);
    stage_times(s, s->timestep, to_data ? s->flow.alpha : s->flow.t_model, in);
    struct pass p = {
        .step = s, .x0 = stage(s, s->x0, in->x0, all), .noise = stage_noise(s, in, n),
        .numbers = n, .weight = weight,
        .input = {
            .batch = in->batch, .height = in->height, .width = in->width, .x = s->x_t,
            .timestep = s->timestep,
        },
    };
    p.from = to_data ? p.noise : p.x0;
    p.to = to_data ? p.x0 : p.noise;
    pack_captions(s, &p.input, in);
    s->out_count = all;
    if (model_set_sizes(s->model, &p.input, err) < 0 || run(&p, FORWARD, err) < 0)
        return -1;
    if (s->on_backward)
        s->on_backward(s->on_backward_arg);
    /* Reading the loss waits for the device, so it comes after the backward pass is queued. */
    if (run(&p, BACKWARD, err) < 0)
        return -1;
    *loss = take_losses(s, in->batch, per_sample);
    return backend_check(s->ops, err);
}

void step_on_backward(struct step *s, step_backward_fn fn, void *arg)
{
    s->on_backward = fn;
    s->on_backward_arg = arg;
}

const float *step_output(struct step *s)
{
    if (s->ops->host)
        return s->out;
    s->ops->download(s->host_out, s->out, s->out_count * sizeof(float));
    return s->host_out;
}

int step_end(struct step *s, double lr, double *grad_norm, struct err *err)
{
    if (params_squares(s->params, grad_norm, err) < 0)
        return -1;
    *grad_norm = sqrt(*grad_norm);
    return params_update(s->params, lr, *grad_norm, err);
}
