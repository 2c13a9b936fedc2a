/* SPDX-License-Identifier: Apache-2.0 */
/* vae_source.h - an autoencoder from a file or folder of weights
 *
 * Family and sizes are read from names and shapes; "scaling_factor" and "norm_num_groups" from a config.json next to
 * the weights, if there is one.
 */
#ifndef ENGINE_VAE_VAE_SOURCE_H
#define ENGINE_VAE_VAE_SOURCE_H

#include "engine/base/digest.h"
#include "engine/vae/vae.h"

struct err;
struct weights_source;

/* ERR_DATA: not a supported autoencoder. */
int vae_source_config(struct vae_config *out, const struct weights_source *w, struct err *err);
/* Opens a half of the autoencoder `name`: a file, a folder with one, or a pipeline with a folder vae; or such a name
 * on a hub, if it is in the cache (engine/hub/hub_cache.h). */
int vae_source_open(struct vae **out, struct vae_config *cfg, const char *name, enum vae_half half, struct err *err);
/* The same on the CPU, whatever the backend is. */
int vae_source_open_host(struct vae **out, struct vae_config *cfg, const char *name, enum vae_half half,
                         struct err *err);
/* The digest of everything that latents depend on: sizes, scale and the encoder's weights (as slow as reading them). */
int vae_source_digest(char text[DIGEST_TEXT], const char *path, struct err *err);
/* The digest of the encoder's weights as floats. */
int64_t vae_source_bytes(const struct weights_source *w);
/* The same with random weights of the real sizes, for measurements. */
int vae_source_random(struct vae **out, const struct vae_config *cfg, enum vae_half half, struct err *err);
/* dc-ae-f32c32-sana-1.0 and 1.1, and SDXL's. */
extern const struct vae_config vae_source_dcae, vae_source_sdxl;

#endif
