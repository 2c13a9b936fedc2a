/* SPDX-License-Identifier: Apache-2.0 */
/* train_pictures.c - see train_pictures.h */
#include "engine/train/train_pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/flight.h"
#include "engine/contract/scratch.h"
#include "engine/data/dataset.h"
#include "engine/model/layout.h"
#include "engine/model/sampler.h"
#include "engine/optim/step.h"
#include "engine/train/sample_grid.h"
#include "engine/train/sample_prompts.h"
#include "engine/train/train_base.h"
#include "engine/train/train_events.h"
#include "engine/train/train_start.h"
#include "engine/train/train_state.h"

static void tick(void *arg, double share)
{
    struct train *t = arg;
    flight_work(t->flight, (uint64_t)(1000 * share), 1000);
}

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

/* The trained weights, or their EMA if the run keeps one. A rank that has only a part of them reads the
 * checkpoint that all ranks have just written. */
static int last_weights(struct train *t, struct model *m, struct err *err)
{
    const struct layout *l = model_layout(m);
    const float *ema = optim_ema(params_optim(t->params));
    char path[CHECKPOINT_PATH + 32];
    struct checkpoint_state state;
    snprintf(path, sizeof(path), "%s/step-%08lld", t->dir, (long long)t->at);
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

/* Latents of all prompts; the caller frees them. `first`: with the weights of a fresh run. */
static float *draw(struct train *t, const struct sample_prompts *s, bool first, struct err *err)
{
    struct sampler_config cfg = {
        .model = t->spec.model,
        .limits = sample_prompts_limits(s, t->data),
        .flow_shift = t->spec.flow_shift,
        .steps = t->spec.sample_steps,
        .cfg = t->spec.sample_cfg,
        .seed = t->spec.seed,
    };
    struct sampler *sampler = NULL;
    float *latents = calloc(s->floats, sizeof(float));
    if (!latents)
        err_set(err, ERR_MEMORY, "out of memory to draw pictures");
    else if (sampler_create(&sampler, &cfg, err) == 0) {
        struct model *m = sampler_model(sampler);
        const bool frozen = train_base_is_used(t);
        if (frozen)
            train_base_share(t, m, sampler_null(sampler));
        if ((first ? first_weights(t, m, err) : last_weights(t, m, err)) == 0 &&
            model_push(m, err) == 0 &&
            (frozen || !sampler_null(sampler) || dataset_null(t->data, sampler_null(sampler), err) == 0))
            sample_prompts_draw(s, sampler, latents, tick, t, err);
    }
    sampler_destroy(sampler);
    if (err->code != ERR_NONE) {
        free(latents);
        return NULL;
    }
    return latents;
}

static int show(struct train *t, const struct sample_prompts *s, const float *before,
                const float *after,
                const char *name, struct err *err)
{
    char dir[CHECKPOINT_PATH + 16], path[CHECKPOINT_PATH + 64];
    const struct sample_grid_pictures all = {s->original, before, after};
    snprintf(dir, sizeof(dir), "%s/samples", t->dir);
    snprintf(path, sizeof(path), "%s/%s.png", dir, name);
    int rc = scratch_mkdirs(dir, err);
    if (rc == 0)
        rc = sample_grid_write(t->data, s, &all, path, err);
    if (rc == 0) {
        progress_sample(t->progress, t->at, path);
        train_events_picture(t, before && !after ? "samples/before" : "samples/after", path);
        printf("pictures: %s\n", path);
    }
    return rc;
}

static int warn(struct train *t, const struct err *err)
{
    if (err->code == ERR_NONE)
        return 0;
    progress_warning(t->progress, "no pictures: %s", err->text);
    fprintf(stderr, "no pictures: %s\n", err->text);
    return 0;
}

int train_pictures_before(struct train *t)
{
    struct sample_prompts s = {0};
    struct err err = {0};
    if (!t->spec.sample_before || !t->fresh)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    if (sample_prompts_of_data(&s, t->data, t->spec.sample_count, &err) == 0 &&
        (t->before = draw(t, &s, true, &err)))
        show(t, &s, t->before, NULL, "before", &err);
    sample_prompts_free(&s);
    return warn(t, &err);
}

int train_pictures_after(struct train *t)
{
    struct sample_prompts s = {0};
    struct sample_grid_score score;
    struct err err = {0};
    char name[32];
    float *after = NULL;
    if (!t->spec.sample_after)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    snprintf(name, sizeof(name), "step-%08lld", (long long)t->at);
    if (sample_prompts_of_data(&s, t->data, t->spec.sample_count, &err) < 0)
        goto out;
    if (t->spec.sample_before && !t->before) /* a run that was resumed */
        t->before = draw(t, &s, true, &err);
    if (err.code == ERR_NONE && (after = draw(t, &s, false, &err)) &&
        show(t, &s, t->before, after, name, &err) == 0 &&
        sample_grid_score(&score, t->data, &s, after, &err) == 0)
        printf("pictures: %d of %d are nearest to their own original, %.1f dB on average\n",
               score.nearest_own, score.samples, score.psnr);
out:
    free(after);
    sample_prompts_free(&s);
    return warn(t, &err);
}
