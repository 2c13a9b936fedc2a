/* SPDX-License-Identifier: Apache-2.0 */
/* picture_decoder.h - decodes a run's latents to pictures, by the built-in DCT or the autoencoder that encoded the data
 *
 * The autoencoder's decoder is in memory from open to close, on the GPU if there is one: Sana's takes 0.64 GB, 0.32 GB
 * in bf16.
 */
#ifndef ENGINE_TRAIN_PICTURE_DECODER_H
#define ENGINE_TRAIN_PICTURE_DECODER_H

#include "engine/encode/encoder_pair.h"
#include "engine/vae/vae_config.h"

struct dataset;
struct err;
struct image;
struct train_spec;
struct vae;

struct picture_decoder {
    const struct dataset *data; /* NULL: `vae` */
    struct vae           *vae;
    struct vae_config     cfg;
    char                  path[ENCODER_PAIR_PATH]; /* of the autoencoder */
};

/* `data` must outlive it. ERR_USAGE: features computed by other programs. */
int picture_decoder_open(struct picture_decoder *out, const struct dataset *data, const struct train_spec *s,
                         struct err *err);
/* For the autoencoder `path` (vae_source.h), without data. */
int picture_decoder_of_vae(struct picture_decoder *out, const char *path, struct err *err);
void picture_decoder_close(struct picture_decoder *p); /* accepts a zeroed struct */

/* latent [C, height, width]; the caller frees the picture. If the GPU has no memory for the autoencoder, this picture
 * and all later ones are decoded on the CPU. */
int picture_decoder_draw(struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err);
/* Only its size, which the autoencoder need not compute; free it too. */
int picture_decoder_size(const struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err);

#endif
