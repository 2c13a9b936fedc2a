/* SPDX-License-Identifier: Apache-2.0 */
/* train_micro.c - this rank's part of a global batch, micro-batch by micro-batch */
#include "engine/contract/flight.h"
#include "engine/data/loader.h"
#include "engine/data/sample_log.h"
#include "engine/optim/step.h"
#include "engine/train/exchange.h"
#include "engine/train/reducer.h"
#include "engine/train/train_internal.h"

enum { TRIES = 4 };

/* Samples [from, from + n) of the global batch, forward and backward. */
static int micro(struct train *t, int from, int n, int index, double *loss)
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
    return t->err.code == ERR_NONE ? 0 : -1; /* a callback of the backward pass may have failed */
}

/* The collectives of a pass need all ranks: passes without samples. Without callbacks of units they do nothing. */
static int idle(struct train *t, int passes)
{
    for (int i = 0; i < passes; i++)
        model_pass_idle(step_model(t->step));
    return t->err.code == ERR_NONE ? 0 : -1;
}

/* As reducer.finish(). A rank with fewer micro-batches than others makes up for them with idle passes (fsdp). */
static int accumulate(struct train *t)
{
    const struct reducer_slice s = t->reducer->slice(t);
    int index = 0;
    t->reducer->begin(t);
    t->exchange->begin(t);
    sample_log_begin(t->samples);
    for (int from = s.from; from < s.to; from += s.micro, index++) {
        const int n = s.to - from < s.micro ? s.to - from : s.micro;
        double loss;
        t->last_micro = from + n == s.to;
        if (micro(t, from, n, index, &loss) < 0)
            return -1;
        t->reducer->add(t, loss, n);
    }
    if (train_snapshot_settle(t) < 0 || idle(t, s.passes - index) < 0)
        return -1;
    return t->reducer->finish(t);
}

int train_accumulate(struct train *t)
{
    int done = 0;
    for (int i = 0; i < TRIES && done == 0; i++)
        done = accumulate(t);
    if (done == 0)
        err_set(&t->err, ERR_BUG, "the exponents of step %lld do not converge", (long long)t->at + 1);
    return done > 0 ? 0 : -1;
}
