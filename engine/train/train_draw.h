/* SPDX-License-Identifier: Apache-2.0 */
/* train_draw.h - latents drawn with the weights of a run: a model for sampling beside that of the step
 *
 * It is made anew for each call, with the weights of the moment, or their moving average if the run keeps one. The
 * frozen weights below adapters are shared.
 */
#ifndef ENGINE_TRAIN_TRAIN_DRAW_H
#define ENGINE_TRAIN_TRAIN_DRAW_H

#include "engine/model/sampler.h"

struct err;
struct sample_prompts;
struct train;

struct train_draw {
    int                 steps;
    double              guidance;
    enum sampler_method method;
    uint64_t            seed;
    bool                first; /* with the weights of a fresh run */
    /* Gets the weights of this rank, which has only a part of them, from all; NULL: from the
     * checkpoint of this step, which must have been written. */
    int               (*gather)(struct train *t, float *weights, struct err *err);
};

/* Latents of all prompts; the caller frees them. NULL: *err. */
float *train_draw(struct train *t, const struct sample_prompts *s, const struct train_draw *how, sampler_tick_fn tick,
                  void *arg, struct err *err);

#endif
