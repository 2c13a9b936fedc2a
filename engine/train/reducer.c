/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.c - gradients added up as floats; see reducer.h */
#include "engine/train/reducer.h"

#include <math.h>

#include "engine/contract/flight.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/model/backend.h"
#include "engine/optim/step.h"
#include "engine/train/train_memory.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
#include "kernels/kernels.h"

/* About as many samples for each rank; the last rank has the most. */
static struct reducer_slice slice(const struct train *t, const struct train_source *of)
{
    const struct batch batch = batch_plan_at(loader_plan(of->loader), train_plan_step(t));
    const struct dataset_bucket b = dataset_bucket(of->data, batch.bucket);
    const int64_t all = t->spec.batch_global, world = t->env->world_size, rank = t->env->rank;
    const int micro = train_memory_micro(t, b.height, b.width);
    return (struct reducer_slice){.from = (int)(all * rank / world),
                                  .to = (int)(all * (rank + 1) / world),
                                  .micro = micro,
                                  .passes = (int)(((all + world - 1) / world + micro - 1) / micro)};
}

static void begin(struct train *t)
{
    t->loss = 0;
    step_begin(t->step);
}

static void add(struct train *t, double loss, int samples)
{
    t->loss += loss * samples / t->spec.batch_global;
}

/* The norm of a part is not enough: ranks that update parts add up their squares. */
static int norm(struct train *t, double *out)
{
    if (params_squares(t->params, out, &t->err) < 0 ||
        (!params_updates_all(t->params) && train_ranks_sum(t, out) < 0))
        return -1;
    *out = sqrt(*out);
    return 0;
}

static void *unit_out(struct train *t, struct shard_part unit, float *grads, int64_t *sums)
{
    (void)t, (void)unit, (void)sums;
    return grads;
}

static void unit_in(struct train *t, struct shard_part part, const void *numbers, size_t at)
{
    backend_ops()->ema(params_grads(t->params) + part.at, (const float *)numbers + at, 1, 1, part.to - part.from);
}

/* A failure stays in t->err, where micro() of train.c finds it. */
static void ready(void *train, size_t from)
{
    struct train *t = train;
    if (t->last_micro && t->err.code == ERR_NONE)
        exchange_send(t, from, params_grads(t->params));
}

static int finish(struct train *t)
{
    if (t->env->world_size == 1)
        return 1;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    if (exchange_send(t, 0, params_grads(t->params)) < 0 || train_ranks_sum(t, &t->loss) < 0)
        return -1;
    return t->gpus && train_ranks_wait(t) < 0 ? -1 : 1;
}

const struct reducer reducer_plain = {
    .numbers = {DIST_F32, unit_out, unit_in},
    .slice = slice,
    .begin = begin,
    .add = add,
    .ready = ready,
    .finish = finish,
    .norm = norm,
};
