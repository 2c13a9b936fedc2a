/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_fsdp.c - units of the model exchanged between ranks when the model needs them; see exchange.h
 *
 * The model calls need() before it computes with a unit, which gathers its weights, and done() when its gradients
 * are complete, which sends them to their owners.  All ranks make the same number of passes: a rank without samples
 * left in a step makes idle ones.
 *
 * Between GPUs, NCCL does the same on device arrays and overlaps with compute: during one unit, the next is
 * gathered and the sums of the one before are sent, on a stream of their own (dist_nccl.c).  That needs two
 * slots for weights and for gradients.
 */
#include <stdlib.h>

#include "engine/dist/prefetch.h"
#include "engine/model/backend.h"
#include "engine/optim/step.h"
#include "engine/train/exchange.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
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

struct exchange_units {
    struct prefetch   turns;
    struct gathered   gathered[UNIT_SLOTS];
    struct leaving    leaving[UNIT_SLOTS];
    void             *array[4 * UNIT_SLOTS]; /* all of them, to release */
    int               arrays;
};

static void begin_gather(struct train *t, struct unit_fetch f)
{
    const struct shard_part u = shard_unit(params_shard(t->params), f.unit), p = params_part(t->params, f.unit);
    struct gathered *g = &t->units->gathered[f.slot];
    backend_ops()->copy(g->weights + (p.from - u.from), params_weights(t->params) + p.at, p.to - p.from);
    if (exchange_gather(t, f.unit, g->weights) < 0)
        train_ranks_failed(t);
    g->call = dist_begun(exchange_ranks(t));
    g->here = false;
}

static void await(struct train *t, struct gathered *g, struct shard_part u)
{
    if (!g->here && train_ranks_wait_call(t, exchange_ranks(t), g->call) == 0 && !backend_ops()->host)
        backend_ops()->round(g->narrow, g->weights, u.to - u.from);
    g->here = true;
}

/* A failure stays in t->err, where the caller of the model finds it. */
static void need(void *arg, int unit, float **weights, void **narrow, float **grads)
{
    struct train *t = arg;
    struct exchange_units *x = t->units;
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
    if (l->unit < 0 || t->err.code != ERR_NONE || train_ranks_wait_call(t, exchange_ranks(t), l->call) < 0)
        return;
    const struct shard_part u = shard_unit(params_shard(t->params), l->unit), p = params_part(t->params, l->unit);
    t->numbers->unit_in(t, p, l->numbers, p.from - u.from);
    l->unit = -1;
}

/* With two slots, the unit before this one was sent during its backward pass. */
static void done(void *arg, int unit)
{
    struct train *t = arg;
    struct exchange_units *x = t->units;
    struct leaving *l = &x->leaving[unit % x->turns.slots];
    const struct shard_part u = shard_unit(params_shard(t->params), unit);
    if (t->err.code != ERR_NONE)
        return;
    l->numbers = t->numbers->unit_out(t, u, l->grads, l->sums);
    if (exchange_sum_to_owners(t, l->numbers, u.to - u.from) < 0) {
        train_ranks_failed(t);
        return;
    }
    l->unit = unit;
    l->call = dist_begun(exchange_ranks(t));
    if (x->turns.slots > 1)
        arrive(t, &x->leaving[(unit + 1) % x->turns.slots]);
    if (x->turns.slots == 1 || unit == 0)
        arrive(t, l);
}

/* A kernel array, or NULL with t->err. */
static void *array_of(struct train *t, size_t bytes)
{
    void *p = t->err.code == ERR_NONE ? backend_alloc(backend_ops(), bytes, USE_EXCHANGE, &t->err) : NULL;
    t->units->array[t->units->arrays++] = p;
    return p;
}

static int alloc_units(struct train *t, struct exchange_units *x, size_t floats)
{
    const size_t narrow = backend_ops()->narrow;
    for (int i = 0; i < x->turns.slots; i++) {
        struct gathered *g = &x->gathered[i];
        struct leaving *l = &x->leaving[i];
        g->weights = array_of(t, floats * sizeof(*g->weights));
        g->narrow = narrow < sizeof(float) ? array_of(t, floats * narrow) : g->weights;
        l->grads = array_of(t, floats * sizeof(*l->grads));
        l->sums = t->numbers->type == DIST_I64 ? array_of(t, floats * sizeof(*l->sums)) : NULL;
    }
    return t->err.code == ERR_NONE ? 0 : -1;
}

static int open(struct train *t)
{
    struct exchange_units *x = calloc(1, sizeof(*x));
    const struct model_units units = {need, done, t};
    if (!x)
        return err_set(&t->err, ERR_MEMORY, "no memory for units of the model");
    t->units = x;
    x->turns.slots = t->gpus ? UNIT_SLOTS : 1;
    model_on_units(step_model(t->step), &units);
    return alloc_units(t, x, shard_widest(params_shard(t->params)));
}

void exchange_fsdp_close(struct train *t)
{
    for (int i = 0; t->units && i < t->units->arrays; i++)
        backend_ops()->release(t->units->array[i]);
    free(t->units);
}

static void begin(struct train *t)
{
    struct exchange_units *x = t->units;
    x->turns = prefetch_begin(x->turns.slots);
    for (int i = 0; i < UNIT_SLOTS; i++)
        x->leaving[i].unit = -1;
}

/* Each rank has what it needs. */
static int updated(struct train *t)
{
    (void)t;
    return 0;
}

const struct exchange exchange_fsdp = {open, begin, exchange_sum_to_owners, updated};
