/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.c - family and sizes of a model, from JSON in the authors' keys */
#include "engine/base/err.h"
#include "engine/model/arena.h"
#include "engine/model/backend.h"
#include "engine/model/model_internal.h"

const struct model_net *model_net(enum model_family family)
{
    return family == MODEL_NEXTDIT ? &nextdit_net : &sana_net;
}

/* Only Next-DiT has this key for its number of layers. */
static enum model_family family_of(const json_t *config)
{
    const json_t *model = json_object_get(config, "model");
    return json_object_get(model, "n_layers") ? MODEL_NEXTDIT : MODEL_SANA;
}

int model_config_parse(struct model_config *cfg, const json_t *config, struct err *err)
{
    struct model_config c = {.family = MODEL_SANA};
    if (!json_is_object(config))
        return err_set(err, ERR_USAGE, "the configuration is not a JSON object");
    const enum model_family family = family_of(config);
    if (model_net(family)->config_parse(&c, config, err) < 0)
        return -1;
    c.family = family;
    if (model_config_check(&c, err) < 0)
        return -1;
    *cfg = c;
    return 0;
}

int model_config_check(const struct model_config *c, struct err *err)
{
    return model_net(c->family)->config_check(c, err);
}

bool model_rounds_captions(const struct model_config *cfg)
{
    return cfg->family == MODEL_SANA;
}

int64_t model_limits_pixels(const struct model_limits *max)
{
    const int64_t all = (int64_t)max->batch * max->height * max->width;
    return max->pixels > 0 && max->pixels < all ? max->pixels : all;
}

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
