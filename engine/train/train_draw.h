/* SPDX-License-Identifier: Apache-2.0 */
/* train_draw.h - draws latents with a run's weights, with a sampling model besides the step's
 *
 * The model is created for each call, with the present weights, or their moving average if the run keeps one. Frozen
 * weights under adapters are shared.
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
    /* Collects the weights from all ranks if this rank has only a part; NULL: takes them from the checkpoint of this
     * step, which must have been written. */
    int               (*gather)(struct train *t, float *weights, struct err *err);
};

/* Latents of all prompts; the caller frees them. NULL: *err. */
float *train_draw(struct train *t, const struct sample_prompts *s, const struct train_draw *how, sampler_tick_fn tick,
                  void *arg, struct err *err);

#endif
