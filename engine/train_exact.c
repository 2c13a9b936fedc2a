/* SPDX-License-Identifier: Apache-2.0 */
/* train_exact.c - reproducible: true; the same bits on any number of ranks; see train.h
 *
 * The global batch is a fixed list of micro-batches, whoever computes them; their
 * gradients are added as integers (exact.h).  All else is the same on every rank
 * anyway.  What the bits still depend on is the kind of processor: its kernels are noted
 * in each checkpoint, and another kind does not go on from it in this mode.
 */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/checkpoint.h"
#include "engine/dist.h"
#include "engine/exact.h"
#include "engine/flight.h"
#include "engine/sample_log.h"
#include "engine/step.h"
#include "engine/train_parts.h"
#include "kernels/kernels.h"

enum { BUCKET = 1 << 19, TRIES = 4 };

static void name_kernels(char *text, size_t size)
{
    snprintf(text, size, "%s, OpenBLAS %s", backend_ops()->name, openblas_get_corename());
}

static int micro_batches(const struct train *t)
{
    return (t->spec.batch_global + t->spec.batch_micro - 1) / t->spec.batch_micro;
}

int train_exact_open(struct train *t)
{
    if (!backend_ops()->host)
        return err_set(&t->err, ERR_USAGE, "train.reproducible: true is not supported yet on a "
                                           "GPU; use resources.gpus: 0");
    if (micro_batches(t) > EXACT_ADDENDS)
        return err_set(&t->err, ERR_USAGE,
                       "train.batch.micro: %d makes %d micro-batches of a step; reproducible: true "
                       "allows %d at most",
                       t->spec.batch_micro, micro_batches(t), EXACT_ADDENDS);
    return exact_create(&t->exact, model_layout(step_model(t->step)), &t->err);
}

json_t *train_exact_notes(struct train *t)
{
    char kernels[128];
    size_t n;
    if (!t->exact)
        return NULL;
    const int32_t *exponent = exact_exponents(t->exact, &n);
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer(exponent[i]));
    name_kernels(kernels, sizeof(kernels));
    return json_pack("{s:s, s:i, s:o}", "kernels", kernels, "micro", t->spec.batch_micro,
                     "exponents", list);
}

int train_exact_resume(struct train *t, const char *dir)
{
    char kernels[128];
    size_t n;
    int32_t *exponent = exact_exponents(t->exact, &n);
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

/* This rank's micro-batches of the list. */
static int add_all(struct train *t)
{
    int all = micro_batches(t), micro = t->spec.batch_micro, global = t->spec.batch_global;
    int first = (int)((int64_t)all * t->env->rank / t->env->world_size);
    int end = (int)((int64_t)all * (t->env->rank + 1) / t->env->world_size);
    exact_begin(t->exact);
    sample_log_begin(t->samples);
    for (int k = first; k < end; k++) {
        int from = k * micro, n = global - from < micro ? global - from : micro;
        double loss;
        step_begin(t->step);
        if (train_micro(t, from, n, k - first, &loss) < 0)
            return -1;
        exact_add(t->exact, model_grads(step_model(t->step)), loss * n / global);
    }
    return 0;
}

static int combine(struct train *t)
{
    size_t n, k;
    int64_t *sums = exact_sums(t->exact, &n);
    float *maxima = exact_maxima(t->exact, &k);
    if (t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    for (size_t from = 0; from < n; from += BUCKET) {
        size_t some = n - from < BUCKET ? n - from : BUCKET;
        if (dist_all_reduce(t->dist, sums + from, some, DIST_I64, DIST_SUM, &t->err) < 0)
            return train_ranks_failed(t);
    }
    if (dist_all_reduce(t->dist, maxima, k, DIST_F32, DIST_MAX, &t->err) < 0)
        return train_ranks_failed(t);
    return train_ranks_wait(t);
}

int train_exact_accumulate(struct train *t)
{
    for (int i = 0; i < TRIES; i++) {
        if (add_all(t) < 0 || combine(t) < 0)
            return -1;
        if (exact_end(t->exact, model_grads(step_model(t->step)), &t->loss))
            return 0;
    }
    return err_set(&t->err, ERR_BUG, "the exponents of step %lld do not settle",
                   (long long)t->at + 1);
}
