/* SPDX-License-Identifier: Apache-2.0 */
/* train_units.c - zero1 and fsdp: units of the model exchanged between ranks; see shard.h
 *
 * zero1   every rank has all weights and gradients, and its part of the optimizer's state.  Gradients
 *         are reduced to the rank that owns them; it updates its weights, and all ranks gather them.
 * fsdp    a rank has its part of everything.  The model calls need() before it computes with a unit, which
 *         gathers its weights, and done() when its gradients are complete, which sends them to their owners.
 *
 * With fsdp all ranks make the same number of passes: a rank without samples left in a step makes idle ones.
 *
 * Between GPUs, NCCL does the same on device arrays and overlaps with compute: during one unit, the next is
 * gathered and the sums of the one before are sent, on a stream of their own (dist_nccl.c).  That needs two
 * slots for weights and for gradients.
 *
 * An optimizer that needs whole tensors has parts of unequal length, for which there are no collectives:
 * each rank broadcasts its part, and sums go to all ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/flight.h"
#include "engine/dist/dist.h"
#include "engine/dist/prefetch.h"
#include "engine/dist/shard.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/reducer.h"
#include "engine/train/train_internal.h"
#include "kernels/kernels.h"

/* All weights of a unit, gathered or being gathered. */
struct gathered {
    float   *weights;
    void    *narrow;   /* the weights, narrow; themselves where that is fp32 */
    uint64_t call;     /* the last call of the gather */
    bool     here;
};

/* Gradients of a unit, being computed or sent. */
struct leaving {
    float   *grads;
    int64_t *sums;     /* the reducer adds integers; else NULL */
    void    *numbers;  /* what is sent: grads or sums */
    int      unit;     /* being sent; or -1 */
    uint64_t call;
};

struct train_units {
    struct prefetch   turns;
    struct gathered   gathered[UNIT_SLOTS];
    struct leaving    leaving[UNIT_SLOTS];
    void             *array[4 * UNIT_SLOTS]; /* all of them, to release */
    int               arrays;
};

/* The ranks whose device has the numbers. */
static struct dist *device_ranks(const struct train *t)
{
    return t->gpus ? t->gpus : t->dist;
}

/* Gathers a unit in `block`, which has this rank's part in its place. */
static int gather(struct train *t, int unit, float *block)
{
    const struct shard *s = params_shard(t->params);
    const struct shard_part u = shard_unit(s, unit);
    struct dist *d = device_ranks(t);
    if (shard_cut(s) == SHARD_EVEN)
        return dist_all_gather(d, block, u.to - u.from, DIST_F32, &t->err);
    for (int r = 0; r < shard_world(s); r++) {
        const struct shard_part p = shard_part(s, unit, r);
        if (p.to > p.from && dist_broadcast(d, block + (p.from - u.from), p.to - p.from,
                                            DIST_F32, r, &t->err) < 0)
            return -1;
    }
    return 0;
}

int train_units_reduce(struct train *t, int unit, void *block)
{
    const struct shard *s = params_shard(t->params);
    const struct shard_part u = shard_unit(s, unit);
    struct dist *d = device_ranks(t);
    if (shard_cut(s) == SHARD_EVEN)
        return dist_reduce_scatter(d, block, u.to - u.from, t->reducer->type, DIST_SUM, &t->err);
    return dist_all_reduce(d, block, u.to - u.from, t->reducer->type, DIST_SUM, &t->err);
}

/* --- fsdp: callbacks of the model -------------------------------------------------------- */

static void begin_gather(struct train *t, struct unit_fetch f)
{
    const struct shard_part u = shard_unit(params_shard(t->params), f.unit), p = params_part(t->params, f.unit);
    struct gathered *g = &t->units->gathered[f.slot];
    backend_ops()->copy(g->weights + (p.from - u.from), params_weights(t->params) + p.at,
                        p.to - p.from);
    if (gather(t, f.unit, g->weights) < 0)
        train_ranks_failed(t);
    g->call = dist_begun(device_ranks(t));
    g->here = false;
}

static void await(struct train *t, struct gathered *g, struct shard_part u)
{
    if (!g->here && train_ranks_wait_call(t, device_ranks(t), g->call) == 0 && !backend_ops()->host)
        backend_ops()->round(g->narrow, g->weights, u.to - u.from);
    g->here = true;
}

/* A failure stays in t->err, where the caller of the model finds it. */
static void need(void *arg, int unit, float **weights, void **narrow, float **grads)
{
    struct train *t = arg;
    struct train_units *x = t->units;
    const struct shard_part u = shard_unit(params_shard(t->params), unit);
    const int next = grads ? unit - 1 : unit + 1 < shard_units(params_shard(t->params)) ? unit + 1 : -1;
    struct unit_fetch fetch[UNIT_SLOTS];
    const int fetches = prefetch_take(&x->turns, unit, next, fetch);
    struct gathered *g = &x->gathered[x->turns.now];
    for (int i = 0; i < fetches && t->err.code == ERR_NONE; i++)
        begin_gather(t, fetch[i]);
    if (t->err.code == ERR_NONE)
        await(t, g, u);
    *weights = g->weights;
    *narrow = g->narrow;
    if (!grads)
        return;
    struct leaving *l = &x->leaving[unit % x->turns.slots];
    backend_ops()->zero(l->grads, u.to - u.from);
    *grads = l->grads;
}

/* Waits for the sum of a unit and adds this rank's part to the gradients of the step. */
static void arrive(struct train *t, struct leaving *l)
{
    if (l->unit < 0 || t->err.code != ERR_NONE || train_ranks_wait_call(t, device_ranks(t), l->call) < 0)
        return;
    const struct shard_part u = shard_unit(params_shard(t->params), l->unit), p = params_part(t->params, l->unit);
    t->reducer->unit_in(t, p, l->numbers, p.from - u.from);
    l->unit = -1;
}

/* With two slots, the unit before this one was sent during its backward pass. */
static void done(void *arg, int unit)
{
    struct train *t = arg;
    struct train_units *x = t->units;
    struct leaving *l = &x->leaving[unit % x->turns.slots];
    const struct shard_part u = shard_unit(params_shard(t->params), unit);
    if (t->err.code != ERR_NONE)
        return;
    l->numbers = t->reducer->unit_out(t, u, l->grads, l->sums);
    if (train_units_reduce(t, unit, l->numbers) < 0) {
        train_ranks_failed(t);
        return;
    }
    l->unit = unit;
    l->call = dist_begun(device_ranks(t));
    if (x->turns.slots > 1)
        arrive(t, &x->leaving[(unit + 1) % x->turns.slots]);
    if (x->turns.slots == 1 || unit == 0)
        arrive(t, l);
}

/* A kernel array, or NULL with t->err. */
static void *array_of(struct train *t, size_t bytes)
{
    void *p = NULL;
    if (t->err.code == ERR_NONE)
        backend_alloc(backend_ops(), &p, bytes, USE_EXCHANGE, &t->err);
    t->units->array[t->units->arrays++] = p;
    return p;
}

static int alloc_units(struct train *t, struct train_units *x, size_t floats)
{
    const size_t narrow = backend_ops()->narrow;
    for (int i = 0; i < x->turns.slots; i++) {
        struct gathered *g = &x->gathered[i];
        struct leaving *l = &x->leaving[i];
        g->weights = array_of(t, floats * sizeof(*g->weights));
        g->narrow = narrow < sizeof(float) ? array_of(t, floats * narrow) : g->weights;
        l->grads = array_of(t, floats * sizeof(*l->grads));
        l->sums = t->reducer->type == DIST_I64 ? array_of(t, floats * sizeof(*l->sums)) : NULL;
    }
    return t->err.code == ERR_NONE ? 0 : -1;
}

int train_units_open(struct train *t)
{
    const size_t widest = shard_widest(params_shard(t->params));
    struct train_units *x = calloc(1, sizeof(*x));
    if (!x)
        return err_set(&t->err, ERR_MEMORY, "no memory for units of the model");
    t->units = x;
    x->turns.slots = t->gpus ? UNIT_SLOTS : 1;
    if (params_has_all(t->params))
        return 0;
    if (alloc_units(t, x, widest) < 0)
        return -1;
    const struct model_units units = {need, done, t};
    model_on_units(step_model(t->step), &units);
    return 0;
}

void train_units_close(struct train *t)
{
    if (!t->units)
        return;
    for (int i = 0; i < t->units->arrays; i++)
        backend_ops()->release(t->units->array[i]);
    free(t->units);
}

int train_units_idle(struct train *t, int passes)
{
    for (int i = 0; i < passes && !params_has_all(t->params); i++)
        model_pass_idle(step_model(t->step));
    return t->err.code == ERR_NONE ? 0 : -1;
}

void train_units_begin_step(struct train *t)
{
    struct train_units *x = t->units;
    x->turns = prefetch_begin(x->turns.slots);
    for (int i = 0; i < UNIT_SLOTS; i++)
        x->leaving[i].unit = -1;
}

/* --- zero1: weights to all ranks --------------------------------------------------------- */

int train_units_gather(struct train *t)
{
    const struct shard *s = params_shard(t->params);
    struct model *m = step_model(t->step);
    if (!params_has_all(t->params) || params_updates_all(t->params) || t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    for (int u = 0; u < shard_units(s); u++)
        if (gather(t, u, model_kernel_weights(m) + shard_unit(s, u).from) < 0)
            return train_ranks_failed(t);
    if (train_ranks_wait(t) < 0)
        return -1;
    if (t->gpus) /* the weights of other ranks have no narrow copy yet */
        backend_ops()->round(model_kernel_narrow(m), model_kernel_weights(m),
                             layout_floats(model_layout(m)));
    return 0;
}
