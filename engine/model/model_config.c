/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.c - family and sizes of a model, from JSON in the authors' keys */
#include "engine/contract/err.h"
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
