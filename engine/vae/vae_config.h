/* SPDX-License-Identifier: Apache-2.0 */
/* vae_config.h - sizes of an image autoencoder: DC-AE or AutoencoderKL (SDXL's) */
#ifndef ENGINE_VAE_VAE_CONFIG_H
#define ENGINE_VAE_VAE_CONFIG_H

#include <stdbool.h>

struct err;

enum { VAE_STAGES = 8 };

enum vae_family { VAE_DCAE, VAE_KL };

struct vae_config {
    enum vae_family family;
    int    latent, stages;
    int    width[VAE_STAGES];           /* channels, from the highest resolution down */
    int    encoder_depth[VAE_STAGES], decoder_depth[VAE_STAGES]; /* blocks */
    bool   attention[VAE_STAGES];       /* DC-AE: EfficientViT blocks, else residual blocks */
    int    groups;                      /* KL: GroupNorm's groups */
    double scale;                       /* a model is trained on latents times this */
};

/* ERR_DATA: impossible widths: attention with a width that is not a multiple of 32, or shortcuts that do not divide. */
int vae_config_check(const struct vae_config *c, struct err *err);

/* Pixels per latent in each direction. */
int vae_config_factor(const struct vae_config *c);

#endif
