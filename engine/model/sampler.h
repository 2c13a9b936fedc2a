/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - sample latents for captions: Euler steps along the learned flow, with guidance
 *
 * Noise levels go from 1 to 0 through sigma_i = f s / (1 + (f - 1) s), s = 1 - i / steps,
 * f = the flow shift of training.  Each step computes the velocity v with the model and
 * moves x by (sigma_next - sigma) v.  With guidance c other than 1 there are
 * two forward passes, v = v_null + c (v_caption - v_null); "null" is the embedding that training
 * puts in place of dropped captions.  The start noise of a sample follows from (seed, id).
 */
#ifndef ENGINE_MODEL_SAMPLER_H
#define ENGINE_MODEL_SAMPLER_H

#include <stdint.h>

#include "engine/model/model.h"

struct err;
struct layout;

enum { SAMPLER_BATCH = 16 }; /* most pictures per batch */

struct sampler_config {
    struct model_config model;
    struct model_limits limits;  /* size of latents and captions; batch: pictures at once */
    double              flow_shift;
    int                 steps;
    double              cfg;
    uint64_t            seed;
};

/* A request: n captions, all pictures of one shape within the limits. */
struct sampler_wish {
    int            n, height, width; /* latent size */
    const float   *y, *mask;         /* [n, text, D], [n, text] */
    const int64_t *ids;              /* [n], keys of the start noise */
};

struct sampler;

int sampler_create(struct sampler **out, const struct sampler_config *cfg, struct err *err);
void sampler_destroy(struct sampler *s);

/* The weights to sample with: fill and push them before sampling. */
struct model *sampler_model(struct sampler *s);
/* The null embedding [caption_len, D] of a model without a weight for it: fill it too. NULL: it is
 * a weight. */
float *sampler_null(struct sampler *s);
struct model_limits sampler_limits(const struct sampler *s);

/* Called between steps with the share done, 0..1; may be NULL. */
typedef void (*sampler_tick_fn)(void *arg, double share);

/* Latents [n, C, height, width]. */
int sampler_draw(struct sampler *s, float *latents, const struct sampler_wish *wish,
                 sampler_tick_fn tick, void *arg, struct err *err);

#endif
