/* SPDX-License-Identifier: Apache-2.0 */
/* model_acts.c - memory of activations and of their gradients, one block each */
#include "engine/contract/err.h"
#include "engine/model/arena.h"
#include "engine/model/backend.h"
#include "engine/model/model_internal.h"

int model_patch_width(const struct model *m)
{
    return m->cfg.latent_channels * m->cfg.patch * m->cfg.patch;
}

size_t model_most_tokens(const struct model *m)
{
    const size_t p = (size_t)m->cfg.patch;
    return (size_t)model_limits_pixels(&m->max) / (p * p);
}

size_t model_most_rows(const struct model *m)
{
    return (size_t)m->max.batch * (size_t)m->max.text;
}

static size_t carve(struct model *m, float *base, bool back)
{
    struct arena k = {.base = base, .narrow = m->ops->narrow, .keeps = m->ops->keeps};
    (back ? m->net->carve_back : m->net->carve)(m, &k);
    return k.used;
}

int model_carve(struct model *m, struct err *err)
{
    const double most = 1e15; /* floats; far beyond any machine, far below overflow */
    const struct model_config *c = &m->cfg;
    const double M = (double)model_most_tokens(m);
    if (M * ((double)c->hidden + c->mlp_hidden + model_patch_width(m)) * c->depth > most ||
        M * m->max.text * c->heads * c->depth > most)
        return err_set(err, ERR_USAGE, "a batch of %d x %d x %d is more than memory can address",
                       m->max.batch, m->max.height, m->max.width);
    m->acts_floats = carve(m, NULL, false);
    m->back_floats = m->train ? carve(m, NULL, true) : 0;
    if (!(m->acts = backend_alloc(m->ops, m->acts_floats * sizeof(float), USE_ACTIVATIONS, err)))
        return -1;
    carve(m, m->acts, false);
    if (!m->train)
        return 0;
    if (!(m->back_acts = backend_alloc(m->ops, m->back_floats * sizeof(float), USE_BACKWARD, err)))
        return -1;
    carve(m, m->back_acts, true);
    return 0;
}
