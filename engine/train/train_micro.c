/* SPDX-License-Identifier: Apache-2.0 */
/* train_micro.c - this rank's part of a global batch, micro-batch by micro-batch */
#include "engine/contract/flight.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/sample_log.h"
#include "engine/optim/step.h"
#include "engine/train/train_internal.h"

int train_micro(struct train *t, int from, int n, int index, double *loss)
{
    struct step_input in;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_DATA);
    if (loader_fill(t->loader, &in, train_plan_step(t), from, n, &t->err) < 0 ||
        sample_log_add(t->samples, loader_slots(t->loader), n, in.height, in.width, &t->err) < 0)
        return -1;
    flight_micro(t->flight, (uint64_t)index, (uint64_t)in.height, (uint64_t)in.width);
    if (train_memory_take(t, in.height, in.width, n) < 0)
        return -1;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_FORWARD);
    if (step_micro(t->step, &in, (double)n / t->spec.batch_global, loss, NULL, &t->err) < 0)
        return -1;
    return t->err.code == ERR_NONE ? 0 : -1; /* of what ranks did meanwhile */
}

/* Micro-batches of the rank that has most samples: the last one. */
static int most_passes(const struct train *t, int micro)
{
    const int share = (t->spec.batch_global + t->env->world_size - 1) / t->env->world_size;
    return (share + micro - 1) / micro;
}

int train_accumulate(struct train *t)
{
    const struct batch batch = batch_plan_at(loader_plan(t->loader), train_plan_step(t));
    const struct dataset_bucket b = dataset_bucket(t->data, batch.bucket);
    const int micro = train_memory_micro(t, b.height, b.width);
    int first, end;
    t->loss = 0;
    step_begin(t->step);
    sample_log_begin(t->samples);
    train_sums_begin_step(t);
    train_units_begin_step(t);
    train_ranks_slice(t, &first, &end);
    for (int from = first; from < end; from += micro) {
        int n = end - from < micro ? end - from : micro;
        double loss;
        t->last_micro = from + n == end;
        if (train_micro(t, from, n, (from - first) / micro, &loss) < 0)
            return -1;
        t->loss += loss * n / t->spec.batch_global;
    }
    if (t->err.code != ERR_NONE || train_snapshot_settle(t) < 0 ||
        train_units_idle(t, most_passes(t, micro) - (end - first + micro - 1) / micro) < 0)
        return -1;
    return train_sums_finish(t);
}
