/* SPDX-License-Identifier: Apache-2.0 */
/* latent_file.h - one latent in a file: .npy [C, h, w] as Sana reads features, or .safetensors with a tensor "latent"
 *
 * Numbers are fp32, scaled as for training.
 */
#ifndef ENGINE_VAE_LATENT_FILE_H
#define ENGINE_VAE_LATENT_FILE_H

struct err;

struct latent {
    int    channels, height, width;
    float *x; /* owned */
};

/* The format follows from the extension. Written to a temporary file, then renamed. ERR_USAGE: another extension. */
int latent_file_write(const struct latent *z, const char *path, struct err *err);
/* [C, h, w] or [1, C, h, w]; the format is recognized by its bytes. ERR_DATA: not such a file. The caller frees
 * out->x. */
int latent_file_read(struct latent *out, const char *path, struct err *err);

#endif
