/* SPDX-License-Identifier: Apache-2.0 */
/* sample_prompts.h - the pictures to sample: captions, shapes and noise
 *
 * Either samples of the data, with their originals for comparison, or the user's captions. Latents are stored one after
 * another, each with its own shape.
 */
#ifndef ENGINE_TRAIN_SAMPLE_PROMPTS_H
#define ENGINE_TRAIN_SAMPLE_PROMPTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/model/sampler.h"

struct dataset;
struct err;

struct subject {
    const char *caption; /* not owned */
    int64_t     sample;  /* index in the data, or -1 */
    int64_t     id;      /* key of the noise */
    int         height, width;
    size_t      at;      /* offset of its latent, in floats */
};

struct sample_prompts {
    int             n;
    struct subject *of;
    size_t          floats;   /* floats of all latents */
    float          *captions, *masks;
    float          *original; /* latents, or NULL */
};

/* The first `most` samples of one bucket; with several buckets the same number, evenly spread over them. */
int sample_prompts_of_data(struct sample_prompts *out, const struct dataset *d, int most, struct err *err);
/* The key of a text's noise. */
int64_t sample_prompts_id(const char *text);
/* In the shape of the data, of its largest pictures. `captions` must outlive *out. */
int sample_prompts_of_captions(struct sample_prompts *out, const struct dataset *d,
                               const char *const *captions, int n, struct err *err);
void sample_prompts_free(struct sample_prompts *s);

/* Limits of a model that draws them in batches. */
struct model_limits sample_prompts_limits(const struct sample_prompts *s, const struct dataset *d);

/* Draws all latents [floats]; `tick` may be NULL. */
int sample_prompts_draw(const struct sample_prompts *s, struct sampler *sampler, float *latents,
                        sampler_tick_fn tick, void *arg, struct err *err);

#endif
