/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h */
#include "engine/optim/memory.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "kernels/tile.h"

/* Upper limits of what cuBLASLt and sums of chunks take (kernels/device.cuh). */
#define GEMM_WORKSPACE ((int64_t)32 << 20)
#define SCALARS        ((int64_t)64 << 10)
#define SUM_ROWS       32 /* rows of a chunk, at least */

/* Of a communicator: buffers of NCCL's channels, or on the CPU the shared windows. */
#define EXCHANGE_DEVICE ((int64_t)512 << 20)
#define EXCHANGE_HERE   ((int64_t)8 << 20)

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Scratch memory of CUDA kernels grows to the largest of each kind and is not freed. */
static int64_t device_workspace(const struct memory_ask *a)
{
    const struct model_config *c = &a->model;
    const struct model_limits *z = &a->limits;
    const int64_t B = z->batch, C = c->hidden, F = c->mlp_hidden;
    const int64_t M = model_limits_pixels(z) / (c->patch * c->patch), T = B * z->text;
    const int64_t rows = (M + T) / SUM_ROWS + B + 1; /* chunks of rows */
    const int64_t parts = max2(max2(rows * 3 * C, rows * 2 * F), B * GLUMBCONV_SUMS * 2 * F);
    return GEMM_WORKSPACE + SCALARS + (int64_t)sizeof(float) * parts;
}

static int64_t share_of(int64_t bytes, int ranks)
{
    return (bytes + ranks - 1) / ranks;
}

/* Bytes of the tensors of the largest block of the model; a block is a unit. */
static int64_t largest_block(const struct layout *l, const struct model_config *c)
{
    const bool adapters = c->lora.rank > 0; /* their units are all blocks */
    int64_t most = 0, floats = 0;
    for (int i = 0, unit = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        floats = t->unit == unit ? floats + (int64_t)t->count : (int64_t)t->count;
        unit = t->unit;
        if (adapters || (unit >= 1 && unit <= c->depth))
            most = max2(most, floats * (int64_t)sizeof(float));
    }
    return most;
}

/* From the memory of one rank to that of each of several: their share, and buffers for exchange. */
static void divide(struct memory_plan *p, const struct memory_ask *a, const struct layout *l)
{
    if (a->ranks < 2)
        return;
    p->bytes[USE_EXCHANGE] += a->device ? EXCHANGE_DEVICE : EXCHANGE_HERE;
    if (a->sharing == SHARING_DDP)
        return;
    p->bytes[USE_OPTIMIZER] = share_of(p->bytes[USE_OPTIMIZER], a->ranks);
    p->bytes[USE_EMA] = share_of(p->bytes[USE_EMA], a->ranks);
    if (a->sharing == SHARING_ZERO1)
        return;
    const size_t each_weight = sizeof(float) + (a->bf16 ? sizeof(uint16_t) : 0);
    const int64_t frozen = a->model.lora.rank > 0
                               ? p->bytes[USE_WEIGHTS] - (int64_t)(layout_floats(l) * each_weight) : 0;
    p->bytes[USE_WEIGHTS] = frozen + share_of(p->bytes[USE_WEIGHTS] - frozen, a->ranks);
    p->bytes[USE_GRADIENTS] = share_of(p->bytes[USE_GRADIENTS], a->ranks);
    /* One block (two between GPUs): gathered weights, and gradients, as integers too. */
    const int64_t block = largest_block(l, &a->model);
    const int64_t each = 2 * block + (a->bf16 ? block / 2 : 0) + (a->reproducible ? 2 * block : 0);
    p->bytes[USE_EXCHANGE] += a->device ? 2 * each : each;
}

/* Gradient checkpointing: all blocks but the last run forward once more. */
static double work_again(const struct memory_ask *a)
{
    struct model_config one = a->model;
    const struct model_limits *z = &a->limits;
    if (!z->recompute)
        return 0;
    one.depth = 1;
    const double all = model_forward_flops(&a->model, 1, z->height, z->width, z->text);
    return (all - model_forward_flops(&one, 1, z->height, z->width, z->text)) / (3 * all);
}

/* The memory of a sampler's model, in addition to the step's. */
static int add_pictures(struct memory_plan *p, const struct memory_ask *a, struct err *err)
{
    struct backend_count count;
    struct model *m = NULL;
    struct model_limits z = a->limits;
    if (a->pictures == 0)
        return 0;
    z.batch = a->pictures;
    z.pixels = 0;
    z.recompute = false;
    backend_count_begin(&count, a->device, a->bf16);
    const int r = model_create(&m, &a->model, &z, false, err);
    model_destroy(m);
    backend_count_end();
    for (int i = 0; i < USES; i++)
        p->bytes[i == USE_HOST ? USE_HOST : USE_PICTURES] += count.bytes[i];
    return r;
}

static void measure_state(struct memory_plan *p, struct step *step)
{
    const struct layout *l = model_layout(step_model(step));
    struct optim *o = params_optim(step_params(step));
    p->params = layout_params(l);
    for (int i = 0; i < layout_len(l); i++)
        p->checkpoint += (int64_t)(layout_at(l, i)->count * sizeof(float));
    for (int i = 0; i < optim_state_len(o); i++)
        p->checkpoint += optim_state_at(o, i)->count * (int64_t)sizeof(float);
}

int memory_micro(int micro, int64_t pixels_most, int height, int width)
{
    const int64_t n = pixels_most / ((int64_t)height * width);
    return pixels_most <= 0 || n >= micro ? micro : n < 1 ? 1 : (int)n;
}

/* At least one sample of the largest size. */
static int64_t pixels_of(const struct memory_ask *a)
{
    const int64_t one = (int64_t)a->limits.height * a->limits.width;
    return a->pixels_most <= 0 ? 0 : a->pixels_most > one ? a->pixels_most : one;
}

int memory_plan(struct memory_plan *out, const struct memory_ask *asked, struct err *err)
{
    struct memory_ask with = *asked;
    const struct memory_ask *ask = &with;
    with.limits.pixels = pixels_of(asked);
    struct memory_plan p = {.limits = with.limits};
    struct backend_count count;
    struct step *step = NULL;
    if (add_pictures(&p, ask, err) < 0)
        return -1;
    backend_count_begin(&count, ask->device, ask->bf16);
    const int r = step_create(&step, &ask->model, &ask->limits, &ask->optim, 1, NULL, err);
    if (r == 0) {
        for (int i = 0; i < USES; i++)
            p.bytes[i] += count.bytes[i];
        if (ask->reproducible) /* 64-bit sums (fixed_point_sum.h) */
            p.bytes[USE_GRADIENTS] += 2 * p.bytes[USE_GRADIENTS];
        if (ask->device)
            p.bytes[USE_WORKSPACE] = device_workspace(ask);
        divide(&p, ask, model_layout(step_model(step)));
        for (int i = 0; i < USES; i++)
            p.total += i == USE_HOST ? 0 : p.bytes[i];
        p.again = work_again(ask);
        measure_state(&p, step);
        *out = p;
    }
    step_destroy(step);
    backend_count_end();
    return r;
}

int memory_largest_micro(struct memory_plan *out, const struct memory_ask *ask, int most, int64_t room, struct err *err)
{
    struct memory_ask a = *ask;
    struct memory_plan p;
    int fits = 0, over = most + 1;
    a.limits.batch = 1;
    if (memory_plan(out, &a, err) < 0)
        return -1;
    if (out->total > room)
        return 0;
    for (fits = 1; over - fits > 1;) {
        a.limits.batch = fits + (over - fits) / 2;
        if (memory_plan(&p, &a, NULL) == 0 && p.total <= room) {
            fits = a.limits.batch;
            *out = p;
        } else {
            over = a.limits.batch;
        }
    }
    return fits;
}
