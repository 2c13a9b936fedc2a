/* SPDX-License-Identifier: Apache-2.0 */
/* vae_image.h - converts 8-bit RGB pictures to the latents that a model is trained on, and back
 *
 * Pixels become (x / 255 - 0.5) / 0.5, as in the authors' programs.
 */
#ifndef ENGINE_VAE_VAE_IMAGE_H
#define ENGINE_VAE_VAE_IMAGE_H

#include <stddef.h>

#include "engine/vae/vae.h"

struct err;
struct image;

/* The number of latent values of a picture, whose edges are multiples of the factor. */
size_t vae_image_count(const struct vae_config *cfg, int height, int width);

/* z: vae_image_count() numbers, scaled; for KL the mean. `deviation` (or NULL), the same count: for KL the
 * distribution's standard deviation, scaled; for DC-AE zeros. */
int vae_image_encode(struct vae *v, const struct vae_config *cfg, const struct image *im, float *z, float *deviation,
                     struct err *err);
/* The picture of a scaled latent [channels, height, width]; the caller frees it. */
int vae_image_decode(struct vae *v, const struct vae_config *cfg, const float *z, int height, int width,
                     struct image *out, struct err *err);

#endif
