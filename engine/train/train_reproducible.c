/* SPDX-License-Identifier: Apache-2.0 */
/* train_reproducible.c - reproducible: true; the same bits on any number of ranks; see train.h
 *
 * The global batch is a fixed list of micro-batches, whoever computes them; their
 * gradients are added as integers (fixed_point_sum.h), where the kernels have them.  All else is
 * the same on every rank anyway.  What the bits still depend on is the kind of processor: its
 * kernels are noted in each checkpoint, and another kind does not go on from it in this mode.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/contract/flight.h"
#include "engine/data/sample_log.h"
#include "engine/dist/dist.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/optim/fixed_point_sum.h"
#include "engine/optim/step.h"
#include "engine/train/train_internal.h"
#include "kernels/kernels.h"

enum { TRIES = 4 };

static void name_kernels(char *text, size_t size)
{
    if (backend_ops()->host)
        snprintf(text, size, "%s, OpenBLAS %s", backend_ops()->name, openblas_get_corename());
    else
        snprintf(text, size, "%s, %.80s%s", backend_ops()->name, backend_device(),
                 backend_is_bf16() ? ", bf16" : "");
}

void train_reproducible_ways(const struct train *t)
{
    if (t->spec.reproducible && !getenv("JOBCTL_CUDA_WAYS"))
        setenv("JOBCTL_CUDA_WAYS", "graph tensor bgrad", 1); /* all but tune */
}

static int micro_batches(const struct train *t)
{
    return (t->spec.batch_global + t->spec.batch_micro - 1) / t->spec.batch_micro;
}

int train_reproducible_open(struct train *t)
{
    if (micro_batches(t) > FIXED_POINT_SUM_ADDENDS)
        return err_set(&t->err, ERR_USAGE,
                       "train.batch.micro: %d makes %d micro-batches of a step; reproducible: true "
                       "allows %d at most",
                       t->spec.batch_micro, micro_batches(t), FIXED_POINT_SUM_ADDENDS);
    return fixed_point_sum_create(&t->exact, model_layout(step_model(t->step)), params_floats(t->params),
                                  &t->err);
}

json_t *train_reproducible_notes(struct train *t)
{
    char kernels[128];
    size_t n;
    if (!t->exact)
        return NULL;
    const int32_t *exponent = fixed_point_sum_exponents(t->exact, &n);
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer(exponent[i]));
    name_kernels(kernels, sizeof(kernels));
    return json_pack("{s:s, s:i, s:o}", "kernels", kernels, "micro", t->spec.batch_micro,
                     "exponents", list);
}

int train_reproducible_resume(struct train *t, const char *dir)
{
    char kernels[128];
    size_t n;
    int32_t *exponent = fixed_point_sum_exponents(t->exact, &n);
    json_t *state = checkpoint_notes(dir, &t->err);
    json_t *notes = json_object_get(state, "exact");
    const char *was = json_string_value(json_object_get(notes, "kernels"));
    const json_t *list = json_object_get(notes, "exponents");
    int rc = -1;
    name_kernels(kernels, sizeof(kernels));
    if (!state)
        goto out;
    if (!notes) { /* of a run that was not reproducible: it is from here on */
        rc = 0;
        goto out;
    }
    if (!was || strcmp(was, kernels) != 0) {
        err_set(&t->err, ERR_USAGE,
                "train.reproducible: the checkpoint was made with other kernels (%.60s) than this "
                "machine has (%.60s), so the bits would differ; use a machine of that kind, or "
                "reproducible: false",
                was ? was : "unknown", kernels);
        goto out;
    }
    if (json_array_size(list) != n) {
        err_set(&t->err, ERR_DATA, "checkpoint %s: state.json has %zu exponents, expected %zu", dir,
                json_array_size(list), n);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        exponent[i] = (int32_t)json_integer_value(json_array_get(list, i));
    rc = 0;
out:
    json_decref(state);
    return rc;
}

/* This rank's micro-batches of the list; with fsdp the model hands its gradients over itself
 * (train_units.c). */
static int add_all(struct train *t)
{
    int all = micro_batches(t), micro = t->spec.batch_micro, global = t->spec.batch_global;
    int world = t->env->world_size, most = (all + world - 1) / world;
    int first = (int)((int64_t)all * t->env->rank / world);
    int end = (int)((int64_t)all * (t->env->rank + 1) / world);
    fixed_point_sum_begin(t->exact);
    sample_log_begin(t->samples);
    train_units_begin_step(t);
    for (int k = first; k < end; k++) {
        int from = k * micro, n = global - from < micro ? global - from : micro;
        double loss;
        step_begin(t->step);
        if (train_micro(t, from, n, k - first, &loss) < 0)
            return -1;
        loss *= (double)n / global;
        if (!params_has_all(t->params))
            fixed_point_sum_add_loss(t->exact, loss);
        else
            fixed_point_sum_add(t->exact, params_grads(t->params), loss);
    }
    return train_units_idle(t, most - (end - first));
}

/* A few numbers of this process's memory. */
static int add_up(struct train *t, int64_t *sums, size_t n)
{
    return dist_all_reduce(t->dist, sums, n, DIST_I64, DIST_SUM, &t->err) < 0 ? train_ranks_failed(t)
                                                                              : 0;
}

/* Gradients as far as this rank needs them, between those whose kernels have them; loss and maxima for
 * all. */
static int combine(struct train *t)
{
    struct bucket_plan plan = train_sums_buckets(t, DIST_I64);
    size_t n, k;
    if (train_snapshot_settle(t) < 0)
        return -1;
    int64_t *sums = fixed_point_sum_sums(t->exact, &n);
    if (t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    if (add_up(t, fixed_point_sum_loss(t->exact), 1) < 0 ||
        (params_has_all(t->params) &&
         train_sums_hand_over(t, &plan, 0, sums, DIST_I64) < 0))
        return -1;
    /* waits for this rank's kernels, not for others */
    float *maxima = fixed_point_sum_maxima(t->exact, &k);
    if (dist_all_reduce(t->dist, maxima, k, DIST_F32, DIST_MAX, &t->err) < 0)
        return train_ranks_failed(t);
    return train_ranks_wait(t);
}

/* A part of the layout whose gradients this rank updates. */
typedef void (*part_fn)(struct train *t, float *grads, const int64_t *sums, size_t from, size_t to);

static void for_parts(struct train *t, part_fn fn)
{
    size_t n;
    const int64_t *sums = fixed_point_sum_sums(t->exact, &n);
    for (int u = 0; u < shard_units(params_shard(t->params)); u++) {
        const struct shard_part p = params_part(t->params, u);
        fn(t, params_grads(t->params) + p.at, sums + p.at, p.from, p.to);
    }
}

static void take_result(struct train *t, float *grads, const int64_t *sums, size_t from, size_t to)
{
    fixed_point_sum_result(t->exact, grads, sums, from, to);
}

int train_reproducible_accumulate(struct train *t)
{
    for (int i = 0; i < TRIES; i++) {
        if (add_all(t) < 0 || combine(t) < 0)
            return -1;
        if (fixed_point_sum_settle(t->exact, &t->loss)) {
            for_parts(t, take_result);
            return backend_check(backend_ops(), &t->err);
        }
    }
    return err_set(&t->err, ERR_BUG, "the exponents of step %lld do not settle",
                   (long long)t->at + 1);
}

static void take_squares(struct train *t, float *grads, const int64_t *sums, size_t from,
                         size_t to)
{
    (void)sums;
    fixed_point_sum_add_squares(t->exact, grads, from, to, micro_batches(t));
}

int train_reproducible_norm(struct train *t, double *norm)
{
    size_t n;
    for_parts(t, take_squares);
    int64_t *squares = fixed_point_sum_squares(t->exact, &n);
    if (!params_updates_all(t->params) && t->env->world_size > 1 &&
        (add_up(t, squares, n) < 0 || train_ranks_wait(t) < 0))
        return -1;
    *norm = fixed_point_sum_norm(t->exact, micro_batches(t));
    return 0;
}
