/* SPDX-License-Identifier: Apache-2.0 */
/* train_units.c - ranks that share the state of a run, unit by unit; see shard.h
 *
 * zero1   every rank has all weights and gradients, and its part of the optimizer's state: gradients
 *         are reduced to the rank that owns them, which updates its weights, which all gather.
 * fsdp    a rank has its part of everything.  The model asks for a unit before it computes with it
 *         and tells when its gradients are complete: here they are gathered, and given up.
 *
 * With fsdp all ranks make the same passes: one that has no more samples in a step passes
 * idle, and adds nothing.
 *
 * Between GPUs the same is asked of NCCL, on arrays of theirs.
 *
 * An optimizer that needs whole tensors has parts of unequal length, which collectives do not know:
 * there each rank broadcasts its part, and sums go to all.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/dist.h"
#include "engine/err.h"
#include "engine/exact.h"
#include "engine/flight.h"
#include "engine/layout.h"
#include "engine/shard.h"
#include "engine/step.h"
#include "engine/train_parts.h"
#include "kernels/kernels.h"

struct train_units {
    float   *weights, *grads; /* of one unit; kernel arrays */
    void    *narrow;          /* the weights, narrow; themselves where that is fp32 */
    int64_t *sums;            /* of one unit, where the run is reproducible; a kernel array */
    int      held;            /* the unit whose weights are in `weights`, or -1 */
    int      in_hand;         /* the unit of the backward pass */
    int      sent;            /* zero1: gradients of units from this one on are handed over */
};

static bool is_shared(const struct train *t, enum sharing how)
{
    return step_sharing(t->step) == how;
}

static struct shard_part mine_of(const struct train *t, int unit)
{
    return shard_part(step_shard(t->step), unit, t->env->rank);
}

/* Between those whose kernels have the numbers. */
static struct dist *numbers(const struct train *t)
{
    return t->gpus ? t->gpus : t->dist;
}

/* All of a unit to `block`, where this rank's part is in its place. */
static int gather(struct train *t, int unit, float *block)
{
    const struct shard *s = step_shard(t->step);
    const struct shard_part u = shard_unit(s, unit);
    struct dist *d = numbers(t);
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

/* The sum of a unit over ranks, of which this rank's part is valid. */
static int reduce(struct train *t, int unit, void *block, enum dist_type type)
{
    const struct shard *s = step_shard(t->step);
    const struct shard_part u = shard_unit(s, unit);
    struct dist *d = numbers(t);
    if (shard_cut(s) == SHARD_EVEN)
        return dist_reduce_scatter(d, block, u.to - u.from, type, DIST_SUM, &t->err);
    return dist_all_reduce(d, block, u.to - u.from, type, DIST_SUM, &t->err);
}

/* --- fsdp: the model asks ---------------------------------------------------------------- */

/* What fails stays in t->err, where the caller of the model finds it. */
static void need(void *arg, int unit, float **weights, void **narrow, float **grads)
{
    struct train *t = arg;
    struct train_units *x = t->units;
    const struct kern_ops *ops = backend_ops();
    const struct shard_part u = shard_unit(step_shard(t->step), unit), p = mine_of(t, unit);
    *weights = x->weights;
    *narrow = x->narrow;
    if (x->held != unit && t->err.code == ERR_NONE) {
        ops->copy(x->weights + (p.from - u.from), step_kernel_weights(t->step) + p.at, p.to - p.from);
        if (gather(t, unit, x->weights) < 0)
            train_ranks_failed(t);
        else if (train_ranks_wait(t) == 0 && !ops->host)
            ops->round(x->narrow, x->weights, u.to - u.from);
    }
    x->held = unit;
    if (!grads)
        return;
    ops->zero(x->grads, u.to - u.from);
    *grads = x->grads;
    x->in_hand = unit;
}

static void done(void *arg, int unit)
{
    struct train *t = arg;
    struct train_units *x = t->units;
    const struct kern_ops *ops = backend_ops();
    const struct shard_part u = shard_unit(step_shard(t->step), unit), p = mine_of(t, unit);
    const size_t n = u.to - u.from, own = p.to - p.from;
    size_t floats;
    if (t->err.code != ERR_NONE)
        return;
    if (t->exact) {
        ops->zero((float *)(void *)x->sums, 2 * n);
        exact_round(t->exact, x->sums, x->grads, u.from, u.to);
    }
    if (reduce(t, unit, t->exact ? (void *)x->sums : x->grads, t->exact ? DIST_I64 : DIST_F32) < 0)
        train_ranks_failed(t);
    else if (train_ranks_wait(t) < 0)
        return;
    else if (t->exact)
        ops->fixed_join(exact_sums(t->exact, &floats) + p.at, x->sums + (p.from - u.from), own);
    else
        ops->ema(step_kernel_grads(t->step) + p.at, x->grads + (p.from - u.from), 1, 1,
                           own); /* their sum */
}

static int alloc_unit(struct train *t, struct train_units *x, size_t floats)
{
    const struct kern_ops *ops = backend_ops();
    const size_t bytes = floats * sizeof(float);
    void *weights = NULL, *grads = NULL, *narrow = NULL, *sums = NULL;
    int r = backend_alloc(ops, &weights, bytes, USE_EXCHANGE, &t->err);
    if (r == 0)
        r = backend_alloc(ops, &grads, bytes, USE_EXCHANGE, &t->err);
    if (r == 0 && ops->narrow < sizeof(float))
        r = backend_alloc(ops, &narrow, floats * ops->narrow, USE_EXCHANGE, &t->err);
    x->weights = weights;
    x->grads = grads;
    x->narrow = narrow ? narrow : weights;
    if (r == 0 && t->spec.reproducible)
        r = backend_alloc(ops, &sums, floats * sizeof(*x->sums), USE_EXCHANGE, &t->err);
    x->sums = sums;
    return r;
}

int train_units_open(struct train *t)
{
    const size_t widest = shard_widest(step_shard(t->step));
    struct train_units *x = calloc(1, sizeof(*x));
    if (!x)
        return err_set(&t->err, ERR_MEMORY, "no memory for units of the model");
    t->units = x;
    x->held = -1;
    if (!is_shared(t, SHARING_FSDP))
        return 0;
    if (alloc_unit(t, x, widest) < 0)
        return -1;
    const struct model_units units = {need, done, t};
    model_on_units(step_model(t->step), &units);
    return 0;
}

void train_units_close(struct train *t)
{
    if (!t->units)
        return;
    if (t->units->narrow != t->units->weights)
        backend_ops()->release(t->units->narrow);
    backend_ops()->release(t->units->weights);
    backend_ops()->release(t->units->grads);
    backend_ops()->release(t->units->sums);
    free(t->units);
}

int train_units_idle(struct train *t, int passes)
{
    for (int i = 0; i < passes && is_shared(t, SHARING_FSDP); i++)
        model_pass_idle(step_model(t->step));
    return t->err.code == ERR_NONE ? 0 : -1;
}

/* --- zero1: gradients to their owners, weights to all ------------------------------------- */

void train_units_begin_step(struct train *t)
{
    t->units->sent = shard_units(step_shard(t->step));
    t->units->held = -1;
}

int train_units_ready(struct train *t, size_t from)
{
    struct train_units *x = t->units;
    const struct shard *s = step_shard(t->step);
    float *grads = model_kernel_grads(step_model(t->step));
    for (; x->sent > 0 && shard_unit(s, x->sent - 1).from >= from; x->sent--)
        if (reduce(t, x->sent - 1, grads + shard_unit(s, x->sent - 1).from, DIST_F32) < 0)
            return train_ranks_failed(t);
    return dist_poll(numbers(t), &t->err) < 0 ? train_ranks_failed(t) : 0;
}

int train_units_reduce_sums(struct train *t, int64_t *sums)
{
    const struct shard *s = step_shard(t->step);
    for (int u = 0; u < shard_units(s); u++)
        if (reduce(t, u, sums + shard_unit(s, u).from, DIST_I64) < 0)
            return train_ranks_failed(t);
    return 0;
}

int train_units_gather(struct train *t)
{
    const struct shard *s = step_shard(t->step);
    struct model *m = step_model(t->step);
    if (!is_shared(t, SHARING_ZERO1) || t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    for (int u = 0; u < shard_units(s); u++)
        if (gather(t, u, model_kernel_weights(m) + shard_unit(s, u).from) < 0)
            return train_ranks_failed(t);
    if (train_ranks_wait(t) < 0)
        return -1;
    if (t->gpus) /* of what others have updated there is no narrow copy yet */
        backend_ops()->round(model_kernel_narrow(m), model_kernel_weights(m),
                             layout_floats(model_layout(m)));
    return 0;
}
