/* SPDX-License-Identifier: Apache-2.0 */
/* train_input.c - see train_input.h */
#include "engine/train/train_input.h"

#include <stdio.h>

#include "engine/data/loader.h"
#include "engine/model/backend.h"
#include "engine/train/reducer.h"
#include "engine/train/train_state.h"
#include "kernels/cuda.h"

int train_input_open(struct train *t)
{
    const struct kern_streams *streams = backend_streams();
    const struct loader_memory memory = {streams ? streams->pin : NULL, streams ? streams->unpin : NULL};
    return loader_create(&t->loader, t->data, &t->spec, &memory, &t->err);
}

static int read_ahead(struct train *t, int from, int to, int micro)
{
    const int n = to - from < micro ? to - from : micro;
    return n < 1 ? 0 : loader_ahead(t->loader, train_plan_step(t), from, n, &t->err);
}

/* The first of this rank's samples in the next step. */
static int read_next_step(struct train *t)
{
    t->at++;
    const struct reducer_slice s = t->reducer->slice(t);
    const int rc = t->at < t->spec.steps ? read_ahead(t, s.from, s.to, s.micro) : 0;
    t->at--;
    return rc;
}

int train_input_take(struct train *t, struct step_input *in, int from, int n)
{
    const struct reducer_slice s = t->reducer->slice(t);
    if (loader_fill(t->loader, in, train_plan_step(t), from, n, &t->err) < 0)
        return -1;
    if (!backend_streams())
        return 0;
    return from + n < s.to ? read_ahead(t, from + n, s.to, s.micro) : read_next_step(t);
}

void train_input_summary(const struct train *t)
{
    const struct loader_counts c = loader_counts(t->loader);
    if (backend_streams())
        printf("input: %lld of %lld micro-batches were read ahead\n", (long long)c.ahead, (long long)c.all);
}
