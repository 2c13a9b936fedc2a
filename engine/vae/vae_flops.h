/* SPDX-License-Identifier: Apache-2.0 */
/* vae_flops.h - operation count of an autoencoder's encoder: convolutions, linear layers and attention
 *
 * Pure: no clock, no I/O.
 * A multiplication and an addition count as two. dc-ae-f32c32-sana: 1.29e12 for 512 x 512 pixels; SDXL's: 1.12e12.
 */
#ifndef ENGINE_VAE_VAE_FLOPS_H
#define ENGINE_VAE_VAE_FLOPS_H

#include "engine/vae/vae_config.h"

double vae_flops_encode(const struct vae_config *c, int height, int width);

#endif
