/* SPDX-License-Identifier: Apache-2.0 */
/* train_input.c - see train_input.h */
#include "engine/train/train_input.h"

#include <stdio.h>

#include "engine/data/loader.h"
#include "engine/model/backend.h"
#include "engine/optim/step.h"
#include "engine/train/reducer.h"
#include "engine/train/train_state.h"
#include "kernels/cuda.h"

/* Noise, order and captions of prior pictures are drawn as by a run with another seed. */
enum { PRIOR_SEED = 0x5072696f };

static int open_loader(struct loader **out, struct train *t, const struct dataset *data, uint64_t seed)
{
    const struct kern_streams *streams = backend_streams();
    const struct loader_device device = {
        .pin = streams ? streams->pin : NULL, .unpin = streams ? streams->unpin : NULL,
        .bf16 = !t->env->plain_input && step_takes_bf16(backend_ops(), &t->spec.model),
        .draws = !t->env->plain_input && step_draws_noise(backend_ops()),
    };
    struct train_spec spec = t->spec;
    spec.seed = seed;
    return loader_create(out, data, &spec, &device, &t->err);
}

int train_input_open(struct train *t)
{
    if (open_loader(&t->loader, t, t->data, t->spec.seed) < 0)
        return -1;
    return t->prior.data ? open_loader(&t->prior.loader, t, t->prior.data, t->spec.seed ^ PRIOR_SEED) : 0;
}

struct train_source train_input_source(const struct train *t)
{
    return (struct train_source){.data = t->data, .loader = t->loader, .weight = 1};
}

static int read_ahead(struct train *t, const struct train_source *of, int from, int to, int micro)
{
    const int n = to - from < micro ? to - from : micro;
    return n < 1 ? 0 : loader_ahead(of->loader, train_plan_step(t), from, n, &t->err);
}

/* The first of this rank's samples in the next step. */
static int read_next_step(struct train *t, const struct train_source *of)
{
    t->at++;
    const struct reducer_slice s = t->reducer->slice(t, of);
    const int rc = t->at < t->spec.steps ? read_ahead(t, of, s.from, s.to, s.micro) : 0;
    t->at--;
    return rc;
}

int train_input_take(struct train *t, const struct train_source *of, struct step_input *in, int from, int n)
{
    const struct reducer_slice s = t->reducer->slice(t, of);
    if (loader_fill(of->loader, in, train_plan_step(t), from, n, &t->err) < 0)
        return -1;
    if (!backend_streams())
        return 0;
    return from + n < s.to ? read_ahead(t, of, from + n, s.to, s.micro) : read_next_step(t, of);
}

void train_input_summary(const struct train *t)
{
    const struct loader_counts c = loader_counts(t->loader);
    if (backend_streams())
        printf("input: %lld of %lld micro-batches were read ahead\n", (long long)c.ahead, (long long)c.all);
}
