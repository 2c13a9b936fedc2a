/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - samples latents for captions along the learned flow, with guidance
 *
 * Noise levels go down to 0 through sigma_i = f s / (1 + (f - 1) s), s = top (1 - i / steps),
 * f = the flow shift of training.  Each step computes the velocity v with the model.
 *   Euler: top = 1, and x moves by (sigma_next - sigma) v.
 *   flow-DPM-Solver++, as Sana's authors sample: top = 0.999; second order in the half logarithm
 *   of the signal-to-noise ratio, lambda = log((1 - sigma) / sigma), from the predicted data
 *   x - sigma v of this step and the one before; the first and the last step are of first order.
 *   Source: NVlabs/Sana, diffusion/model/dpm_solver.py (multistep, time_uniform_flow, order 2).
 * With guidance c other than 1 there are
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

/* How many of n pictures with latents of this size are drawn at once: up to 16, but one at a time from 2,048 pixels
 * on. More would take memory and save little time. */
static inline int sampler_batch(int n, int height, int width)
{
    const int64_t most = height > 0 && width > 0 ? (int64_t)4096 / ((int64_t)height * width) : 1;
    const int batch = n < SAMPLER_BATCH ? n : SAMPLER_BATCH;
    return most >= batch ? batch : most > 1 ? (int)most : 1;
}

enum sampler_method { SAMPLER_EULER, SAMPLER_FLOW_DPM };

struct sampler_config {
    struct model_config model;
    struct model_limits limits;  /* size of latents and captions; batch: pictures at once */
    enum sampler_method method;
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
/* The null embedding [caption_len, D] of a model without a weight for it, to be filled as well. NULL: it is a
 * weight. */
float *sampler_null(struct sampler *s);
struct model_limits sampler_limits(const struct sampler *s);

/* Called after each step with the share done, 0..1; false stops (ERR_CONFLICT). May be NULL. */
typedef bool (*sampler_tick_fn)(void *arg, double share);

/* Latents [n, C, height, width]. */
int sampler_draw(struct sampler *s, float *latents, const struct sampler_wish *wish,
                 sampler_tick_fn tick, void *arg, struct err *err);

#endif
