/* SPDX-License-Identifier: Apache-2.0 */
/* vae.h - image autoencoders, pictures to latents and back: DC-AE (Sana), and SDXL's AutoencoderKL (Lumina-Next)
 *
 * Computed by the backend's kernels (backend.h): on a GPU, weights are uploaded once, and pictures are copied from and
 * to host memory; with precision bf16, products use bf16, and weights are kept as bf16.
 *
 * A picture is [3, height, width] in -1 .. 1, a latent [channels, height / factor, width / factor], before scaling: a
 * model is trained on latents times cfg.scale.  Sizes are multiples of the factor.
 *
 * Results are exact, without tiling: layers run over strips of rows with the halos that their windows need
 * (vae_internal.h), and sums of linear attention and statistics of norms cover the whole picture. So memory is needed
 * for the weights, for the whole picture where attention needs it (at 1/8 of the edges: two such arrays for DC-AE,
 * three for KL), for strips, which grow only with the width, and for KL as set by vae_set_memory().
 *
 * DC-AE (dc_ae.py, ops.py of efficientvit): residual blocks x + RMS(conv(silu(conv x))); EfficientViT blocks of ReLU
 * linear attention at two scales and a gated convolution; shortcuts around changes of resolution.
 * KL (autoencoder_kl.py, vae.py, resnet.py of diffusers): residual blocks with GroupNorm, softmax attention in the
 * middle; the encoder gives mean and logarithm of the variance, clamped to -30 .. 20, 2 * channels of them.
 */
#ifndef ENGINE_VAE_VAE_H
#define ENGINE_VAE_VAE_H

#include <stddef.h>

#include "engine/vae/vae_config.h"

struct kern_ops;
struct vae;

struct vae_weights {
    /* Returns the rows x each floats of a tensor (each is 1 for one dimension): in `scratch`, which has room for them,
     * or in its own memory. NULL with an error: not there, or of another size. The names are the authors' (DC-AE) or
     * diffusers' (KL). */
    const float *(*tensor)(void *arg, const char *name, size_t rows, size_t each, float *scratch, struct err *err);
    void *arg;
    const struct kern_ops *ops; /* NULL: the backend's kernels */
};

enum vae_half { VAE_ENCODER, VAE_DECODER };

/* Loads one half. ERR_DEVICE_MEMORY: the GPU's memory is too small; the same for the functions below. */
int vae_create(struct vae **out, const struct vae_config *cfg, enum vae_half half, const struct vae_weights *weights,
               struct err *err);
void vae_destroy(struct vae *v); /* accepts NULL */

/* Rows of pixels per strip at the highest resolution; 0: chosen by the width. For tests. */
void vae_set_strip(struct vae *v, int rows);
/* KL: bytes for whole pictures between layers. What does not fit is recomputed from strips, once for each norm after
 * it: less memory costs time, but never changes the result. 0: VAE_MEMORY. */
enum { VAE_MEMORY = 3 << 29 };
void vae_set_memory(struct vae *v, size_t bytes);
/* Called with every intermediate result, [height, width, channels], by the authors' name of its layer. */
typedef int vae_observer_fn(void *arg, const char *name, const float *x, int height, int width, int channels,
                            struct err *err);
void vae_observe(struct vae *v, vae_observer_fn *fn, void *arg);

/* z: latent channels, or mean and logvar of KL. ERR_USAGE: the size is not a multiple of the factor. */
int vae_encode(struct vae *v, float *z, const float *picture, int height, int width, struct err *err);
/* Sizes are the latent's. Nothing is clamped. */
int vae_decode(struct vae *v, float *picture, const float *z, int height, int width, struct err *err);

#endif
