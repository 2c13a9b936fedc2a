/* SPDX-License-Identifier: Apache-2.0 */
/* vae_image.h - a picture of 8-bit RGB as the latent that a model is trained on, and back
 *
 * Pixels become (x / 255 - 0.5) / 0.5, as the authors' programs have them.
 */
#ifndef ENGINE_VAE_VAE_IMAGE_H
#define ENGINE_VAE_VAE_IMAGE_H

#include <stddef.h>

#include "engine/vae/vae.h"

struct err;
struct image;

/* Numbers of the latent of a picture, whose edges are multiples of the factor. */
size_t vae_image_count(const struct vae_config *cfg, int height, int width);

/* z: vae_image_count() numbers, scaled; of KL the mean. `deviation`, the same number: of KL that of the distribution,
 * scaled, of DC-AE zeros; or NULL. */
int vae_image_encode(struct vae *v, const struct vae_config *cfg, const struct image *im, float *z, float *deviation,
                     struct err *err);
/* The picture of a scaled latent [channels, height, width]; the caller frees it. */
int vae_image_decode(struct vae *v, const struct vae_config *cfg, const float *z, int height, int width,
                     struct image *out, struct err *err);

#endif
