/* SPDX-License-Identifier: Apache-2.0 */
/* train_draw.c - see train_draw.h */
#include "engine/train/train_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/dataset.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/sample_prompts.h"
#include "engine/train/train_base.h"
#include "engine/train/train_start.h"
#include "engine/train/train_state.h"

static int first_weights(struct train *t, struct model *m, struct err *err)
{
    const struct state_source source = {.layout = model_layout(m), .weights = model_weights(m)};
    struct state into;
    if (state_make(&into, &source, err) < 0)
        return -1;
    const int rc = train_first_weights(t, m, &into, err);
    state_free(&into);
    return rc;
}

/* The trained weights, or their EMA if the run keeps one. A rank that has only a part of them gets them from the
 * others, or from the checkpoint that all ranks have just written. */
static int last_weights(struct train *t, struct model *m, const struct train_draw *how, struct err *err)
{
    const struct layout *l = model_layout(m);
    const float *ema = optim_ema(params_optim(t->params));
    char path[CHECKPOINT_PATH + 32];
    struct checkpoint_state state;
    snprintf(path, sizeof(path), "%s/step-%08lld", t->dir, (long long)t->at);
    if (!params_updates_all(t->params) && how->gather)
        return how->gather(t, model_weights(m), err);
    if (!params_updates_all(t->params))
        return checkpoint_load(&state, path, l, model_weights(m), NULL, t->spec.optim.ema > 0, err);
    if (params_pull(t->params, err) < 0)
        return -1;
    memcpy(model_weights(m), params_view(t->params), sizeof(float) * params_floats(t->params));
    for (int i = 0; ema && i < layout_len(l); i++) {
        const struct tensor *at = layout_at(l, i);
        if (at->kind == TENSOR_PARAM)
            memcpy(model_weights(m) + at->offset, ema + at->offset, sizeof(float) * at->count);
    }
    return 0;
}

/* Weights, and the null embedding if it is none of them. */
static int load(struct train *t, struct sampler *sampler, const struct train_draw *how, struct err *err)
{
    struct model *m = sampler_model(sampler);
    float *null = sampler_null(sampler);
    const bool frozen = train_base_is_used(t);
    if (frozen)
        train_base_share(t, m, null);
    if ((how->first ? first_weights(t, m, err) : last_weights(t, m, how, err)) < 0 || model_push(m, err) < 0)
        return -1;
    return frozen || !null ? 0 : dataset_null(t->data, null, err);
}

float *train_draw(struct train *t, const struct sample_prompts *s, const struct train_draw *how, sampler_tick_fn tick,
                  void *arg, struct err *err)
{
    struct sampler_config cfg = {
        .model = t->spec.model, .limits = sample_prompts_limits(s, t->data), .method = how->method,
        .flow_shift = t->spec.flow_shift, .steps = how->steps, .cfg = how->guidance, .seed = how->seed,
    };
    struct sampler *sampler = NULL;
    float *latents = calloc(s->floats, sizeof(float));
    if (t->fit.pictures > 0 && t->fit.pictures < cfg.limits.batch)
        cfg.limits.batch = t->fit.pictures;
    int rc = latents ? sampler_create(&sampler, &cfg, err) : err_set(err, ERR_MEMORY, "out of memory to draw pictures");
    if (rc == 0)
        rc = load(t, sampler, how, err);
    if (rc == 0)
        rc = sample_prompts_draw(s, sampler, latents, tick, arg, err);
    sampler_destroy(sampler);
    if (rc == 0)
        return latents;
    free(latents);
    return NULL;
}
