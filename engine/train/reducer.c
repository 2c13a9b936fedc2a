/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.c - gradients added up as floats; see reducer.h */
#include "engine/train/reducer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/flight.h"
#include "engine/base/json_make.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/model/backend.h"
#include "engine/optim/fixed_point_sum.h"
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

static void name_kernels(char *text, size_t size)
{
    if (backend_ops()->host)
        snprintf(text, size, "%s", backend_ops()->name);
    else
        snprintf(text, size, "%s, %.80s%s", backend_ops()->name, backend_device(), backend_is_bf16() ? ", bf16" : "");
}

void reducer_fixed_environment(const struct train *t)
{
    if (t->spec.reproducible && !getenv("JOBCTL_CUDA_WAYS"))
        setenv("JOBCTL_CUDA_WAYS", "graph tensor bgrad", 1); /* all but tune */
}

static int micro_batches(const struct train *t)
{
    return (t->spec.batch_global + t->spec.batch_micro - 1) / t->spec.batch_micro;
}

int reducer_fixed_open(struct train *t)
{
    if (!t->spec.reproducible)
        return 0;
    if (micro_batches(t) > FIXED_POINT_SUM_ADDENDS)
        return err_set(&t->err, ERR_USAGE,
                       "train.batch.micro: %d splits a step into %d micro-batches; reproducible: true "
                       "allows %d at most",
                       t->spec.batch_micro, micro_batches(t), FIXED_POINT_SUM_ADDENDS);
    return fixed_point_sum_create(&t->fixed_sum, model_layout(step_model(t->step)), params_floats(t->params), &t->err);
}

/* --- what a step is saved with ----------------------------------------------------------- */

int32_t *reducer_fixed_exponents(const struct train *t, size_t *n)
{
    *n = 0;
    return t->fixed_sum ? fixed_point_sum_exponents(t->fixed_sum, n) : NULL;
}

json_t *reducer_fixed_notes(const struct train *t)
{
    char kernels[128];
    size_t n;
    const int32_t *exponent = reducer_fixed_exponents(t, &n);
    if (!exponent)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer(exponent[i]));
    name_kernels(kernels, sizeof(kernels));
    return json_make("{s:s, s:i, s:o}", "kernels", kernels, "micro", t->spec.batch_micro,
                     "exponents", list);
}

static int read_notes(struct train *t, const json_t *notes, const char *dir)
{
    char kernels[128];
    size_t n;
    int32_t *exponent = reducer_fixed_exponents(t, &n);
    const char *was = json_string_value(json_object_get(notes, "kernels"));
    const json_t *list = json_object_get(notes, "exponents");
    name_kernels(kernels, sizeof(kernels));
    if (!was || strcmp(was, kernels) != 0)
        return err_set(&t->err, ERR_USAGE,
                       "train.reproducible: the checkpoint was made with kernels (%.60s) that this "
                       "machine does not use (%.60s), so the bits would differ; use a machine of that kind, or "
                       "reproducible: false",
                       was ? was : "unknown", kernels);
    if (json_array_size(list) != n)
        return err_set(&t->err, ERR_DATA, "checkpoint %s: state.json has %zu exponents, expected %zu", dir,
                       json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        exponent[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return 0;
}

/* A run that was not reproducible so far has no notes; it is reproducible from here on. */
int reducer_fixed_resume(struct train *t, const char *dir)
{
    if (!t->fixed_sum)
        return 0;
    json_t *state = checkpoint_notes(dir, &t->err);
    const json_t *notes = json_object_get(state, "exact");
    const int rc = !state ? -1 : notes ? read_notes(t, notes, dir) : 0;
    json_decref(state);
    return rc;
}

/* --- the reducer ------------------------------------------------------------------------- */

/* Whole micro-batches of the fixed list, about as many for each rank. */
static struct reducer_slice fixed_slice(const struct train *t, const struct train_source *of)
{
    (void)of;
    const int64_t all = micro_batches(t), world = t->env->world_size, rank = t->env->rank;
    const int micro = t->spec.batch_micro, to = (int)(all * (rank + 1) / world) * micro;
    return (struct reducer_slice){.from = (int)(all * rank / world) * micro,
                                  .to = to < t->spec.batch_global ? to : t->spec.batch_global,
                                  .micro = micro,
                                  .passes = (int)((all + world - 1) / world)};
}

static void fixed_begin(struct train *t)
{
    fixed_point_sum_begin(t->fixed_sum);
    step_begin(t->step);
}

/* With fsdp, fixed_unit_out() has added the gradients. */
static void fixed_add(struct train *t, double loss, int samples)
{
    loss *= (double)samples / t->spec.batch_global;
    if (!params_has_all(t->params)) {
        fixed_point_sum_add_loss(t->fixed_sum, loss);
        return;
    }
    fixed_point_sum_add(t->fixed_sum, params_grads(t->params), loss);
    step_begin(t->step);
}

static void *fixed_unit_out(struct train *t, struct shard_part unit, float *grads, int64_t *sums)
{
    backend_ops()->zero((float *)(void *)sums, 2 * (unit.to - unit.from));
    fixed_point_sum_round(t->fixed_sum, sums, grads, unit.from, unit.to);
    return sums;
}

static void fixed_unit_in(struct train *t, struct shard_part part, const void *numbers, size_t at)
{
    size_t n;
    int64_t *sums = fixed_point_sum_sums(t->fixed_sum, &n);
    backend_ops()->fixed_join(sums + part.at, (const int64_t *)numbers + at, part.to - part.from);
}

/* Sums a few numbers in host memory. */
static int add_up(struct train *t, int64_t *sums, size_t n)
{
    return dist_all_reduce(t->dist, sums, n, DIST_I64, DIST_SUM, &t->err) < 0 ? train_ranks_failed(t)
                                                                              : 0;
}

/* Gradients go where their owners need them; loss and maxima go to all ranks. */
static int exchange(struct train *t)
{
    size_t n, k;
    int64_t *sums = fixed_point_sum_sums(t->fixed_sum, &n);
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    if (add_up(t, fixed_point_sum_loss(t->fixed_sum), 1) < 0 || exchange_send(t, 0, sums) < 0)
        return -1;
    /* waits for this rank's kernels, not for other ranks */
    float *maxima = fixed_point_sum_maxima(t->fixed_sum, &k);
    if (dist_all_reduce(t->dist, maxima, k, DIST_F32, DIST_MAX, &t->err) < 0)
        return train_ranks_failed(t);
    return train_ranks_wait(t);
}

static int fixed_finish(struct train *t)
{
    size_t n;
    const int64_t *sums = fixed_point_sum_sums(t->fixed_sum, &n);
    if (t->env->world_size > 1 && exchange(t) < 0)
        return -1;
    if (!fixed_point_sum_settle(t->fixed_sum, &t->loss))
        return 0;
    for (int u = 0; u < shard_units(params_shard(t->params)); u++) {
        const struct shard_part p = params_part(t->params, u);
        fixed_point_sum_result(t->fixed_sum, params_grads(t->params) + p.at, sums + p.at, p.from, p.to);
    }
    return backend_check(backend_ops(), &t->err) < 0 ? -1 : 1;
}

static int fixed_norm(struct train *t, double *out)
{
    size_t n;
    for (int u = 0; u < shard_units(params_shard(t->params)); u++) {
        const struct shard_part p = params_part(t->params, u);
        fixed_point_sum_add_squares(t->fixed_sum, params_grads(t->params) + p.at, p.from, p.to, micro_batches(t));
    }
    int64_t *squares = fixed_point_sum_squares(t->fixed_sum, &n);
    if (!params_updates_all(t->params) && (add_up(t, squares, n) < 0 || train_ranks_wait(t) < 0))
        return -1;
    *out = fixed_point_sum_norm(t->fixed_sum, micro_batches(t));
    return 0;
}

const struct reducer reducer_fixed_point = {
    .numbers = {DIST_I64, fixed_unit_out, fixed_unit_in},
    .slice = fixed_slice,
    .begin = fixed_begin,
    .add = fixed_add,
    .finish = fixed_finish,
    .norm = fixed_norm,
};
