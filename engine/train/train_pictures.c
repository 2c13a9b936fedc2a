/* SPDX-License-Identifier: Apache-2.0 */
/* train_pictures.c - see train_pictures.h */
#include "engine/train/train_pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/flight.h"
#include "engine/contract/scratch.h"
#include "engine/data/dataset.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/sample_grid.h"
#include "engine/train/sample_prompts.h"
#include "engine/train/train_draw.h"
#include "engine/train/train_events.h"
#include "engine/train/train_state.h"

static bool tick(void *arg, double share)
{
    struct train *t = arg;
    flight_work(t->flight, (uint64_t)(1000 * share), 1000);
    return true;
}

static float *draw(struct train *t, const struct sample_prompts *s, bool first, struct err *err)
{
    const struct train_draw how = {.steps = t->spec.sample_steps, .guidance = t->spec.sample_cfg,
                                   .method = SAMPLER_EULER, .seed = t->spec.seed, .first = first};
    return train_draw(t, s, &how, tick, t, err);
}

/* A grid of all prompts. */
static int write_grid(struct train *t, const struct sample_prompts *s, const struct sample_grid_pictures *all,
                      const char *path, struct err *err)
{
    struct picture_decoder decoder;
    if (picture_decoder_open(&decoder, t->data, &t->spec, err) < 0)
        return -1;
    const int rc = sample_grid_write(&decoder, s, all, path, err);
    picture_decoder_close(&decoder);
    return rc;
}

static int show(struct train *t, const struct sample_prompts *s, const float *before, const float *after,
                const char *name, struct err *err)
{
    char dir[CHECKPOINT_PATH + 16], path[CHECKPOINT_PATH + 64];
    const struct sample_grid_pictures all = {s->original, before, after};
    snprintf(dir, sizeof(dir), "%s/samples", t->dir);
    snprintf(path, sizeof(path), "%s/%s.png", dir, name);
    int rc = scratch_mkdirs(dir, err);
    if (rc == 0)
        rc = write_grid(t, s, &all, path, err);
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
        show(t, &s, t->before, after, name, &err) == 0 && !train_spec_encodes(&t->spec) &&
        sample_grid_score(&score, t->data, &s, after, &err) == 0)
        printf("pictures: %d of %d are nearest to their own original, %.1f dB on average\n",
               score.nearest_own, score.samples, score.psnr);
out:
    free(after);
    sample_prompts_free(&s);
    return warn(t, &err);
}
