/* SPDX-License-Identifier: Apache-2.0 */
/* train_pictures.c - pictures drawn before and after training; see train.h
 *
 * What cannot be drawn or written is a warning: a picture is not worth a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/dataset.h"
#include "engine/flight.h"
#include "engine/gallery.h"
#include "engine/layout.h"
#include "engine/progress.h"
#include "engine/sampler.h"
#include "engine/scratch.h"
#include "engine/step.h"
#include "engine/train_parts.h"

/* Captions and originals of the first samples. */
struct wanted {
    int      n;
    size_t   latent, row, words; /* floats of one */
    float   *original, *caption, *mask;
    int64_t *ids;
};

static void wanted_free(struct wanted *w)
{
    free(w->original);
    free(w->caption);
    free(w->mask);
    free(w->ids);
}

static int wanted_make(struct wanted *w, const struct train *t, struct err *err)
{
    struct dataset_shape s = dataset_shape(t->data);
    *w = (struct wanted){.n = t->spec.sample_count,
                         .latent = (size_t)s.channels * (size_t)s.height * (size_t)s.width,
                         .row = (size_t)s.words * (size_t)s.caption_channels,
                         .words = (size_t)s.words};
    if (w->n > s.samples)
        w->n = (int)s.samples;
    w->original = calloc((size_t)w->n * w->latent, sizeof(float));
    w->caption = calloc((size_t)w->n * w->row, sizeof(float));
    w->mask = calloc((size_t)w->n * w->words, sizeof(float));
    w->ids = calloc((size_t)w->n, sizeof(*w->ids));
    if (!w->original || !w->caption || !w->mask || !w->ids)
        return err_set(err, ERR_MEMORY, "out of memory to draw pictures");
    for (int i = 0; i < w->n; i++) {
        w->ids[i] = i;
        if (dataset_get(t->data, i, w->original + (size_t)i * w->latent,
                        w->caption + (size_t)i * w->row, w->mask + (size_t)i * w->words, err) < 0)
            return -1;
    }
    return 0;
}

static void tick(void *arg, double share)
{
    struct train *t = arg;
    flight_work(t->flight, (uint64_t)(1000 * share), 1000);
}

/* Latents for all wanted captions; the caller frees. `first`: the weights a run begins with. */
static float *draw(struct train *t, const struct wanted *w, bool first, struct err *err)
{
    struct dataset_shape s = dataset_shape(t->data);
    struct model *trained = step_model(t->step);
    const struct layout *l = model_layout(trained);
    struct sampler_config cfg = {
        .model = t->spec.model,
        .limits = {w->n < 16 ? w->n : 16, s.height, s.width, s.words},
        .flow_shift = t->spec.flow_shift,
        .steps = t->spec.sample_steps,
        .cfg = t->spec.sample_cfg,
        .seed = t->spec.seed,
    };
    struct sampler *sampler = NULL;
    float *latents = calloc((size_t)w->n * w->latent, sizeof(float));
    if (!latents)
        err_set(err, ERR_MEMORY, "out of memory to draw pictures");
    else if (sampler_create(&sampler, &cfg, err) == 0) {
        struct model *m = sampler_model(sampler);
        int null = layout_find(l, "y_embedder.y_embedding");
        const float *ema = optim_ema(step_optim(t->step));
        if (model_pull(trained, err) == 0)
            optim_pull(step_optim(t->step), err);
        memcpy(model_weights(m), model_weights(trained), sizeof(float) * layout_floats(l));
        for (int i = 0; ema && !first && i < layout_len(l); i++) {
            const struct tensor *at = layout_at(l, i);
            if (at->kind == TENSOR_PARAM)
                memcpy(model_weights(m) + at->offset, ema + at->offset, sizeof(float) * at->count);
        }
        if (first) {
            model_init_weights(m, t->spec.seed);
            if (null >= 0)
                memcpy(model_weights(m) + layout_at(l, null)->offset,
                       model_weights(trained) + layout_at(l, null)->offset,
                       sizeof(float) * layout_at(l, null)->count);
            if (t->spec.load_from[0])
                checkpoint_load_weights(t->spec.load_from, l, model_weights(m), err);
        }
        if (err->code == ERR_NONE && model_push(m, err) == 0)
            sampler_draw(sampler, latents, w->n, w->caption, w->mask, w->ids, tick, t, err);
    }
    sampler_destroy(sampler);
    if (err->code != ERR_NONE) {
        free(latents);
        return NULL;
    }
    return latents;
}

static int show(struct train *t, const struct wanted *w, const float *before, const float *after,
                const char *name, struct err *err)
{
    char dir[CHECKPOINT_PATH + 16], path[CHECKPOINT_PATH + 64];
    struct gallery_row *rows = calloc((size_t)w->n, sizeof(*rows));
    if (!rows)
        return err_set(err, ERR_MEMORY, "out of memory to draw pictures");
    for (int i = 0; i < w->n; i++) {
        size_t at = (size_t)i * w->latent;
        rows[i] = (struct gallery_row){.caption = dataset_caption(t->data, i),
                                       .original = w->original + at,
                                       .before = before ? before + at : NULL,
                                       .after = after ? after + at : NULL};
    }
    snprintf(dir, sizeof(dir), "%s/samples", t->dir);
    snprintf(path, sizeof(path), "%s/%s.png", dir, name);
    int rc = scratch_mkdirs(dir, err);
    if (rc == 0)
        rc = gallery_write(t->data, rows, w->n, path, err);
    if (rc == 0) {
        progress_sample(t->progress, t->at, path);
        printf("pictures: %s\n", path);
    }
    free(rows);
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
    struct wanted w = {0};
    struct err err = {0};
    if (!t->spec.sample_before || !t->fresh)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    if (wanted_make(&w, t, &err) == 0 && (t->before = draw(t, &w, true, &err)))
        show(t, &w, t->before, NULL, "before", &err);
    wanted_free(&w);
    return warn(t, &err);
}

int train_pictures_after(struct train *t)
{
    struct wanted w = {0};
    struct gallery_score score;
    struct err err = {0};
    char name[32];
    float *after = NULL;
    if (!t->spec.sample_after)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    snprintf(name, sizeof(name), "step-%08lld", (long long)t->at);
    if (wanted_make(&w, t, &err) < 0)
        goto out;
    if (t->spec.sample_before && !t->before) /* a run that was resumed */
        t->before = draw(t, &w, true, &err);
    if (err.code == ERR_NONE && (after = draw(t, &w, false, &err)) &&
        show(t, &w, t->before, after, name, &err) == 0 &&
        gallery_score(&score, t->data, after, w.n, &err) == 0)
        printf("pictures: %d of %d are nearest to their own original, %.1f dB on average\n",
               score.nearest_own, score.samples, score.psnr);
out:
    free(after);
    wanted_free(&w);
    return warn(t, &err);
}
