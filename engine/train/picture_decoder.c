/* SPDX-License-Identifier: Apache-2.0 */
/* picture_decoder.c - see picture_decoder.h */
#include "engine/train/picture_decoder.h"

#include "engine/contract/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/data/image.h"
#include "engine/encode/encoder_pair.h"
#include "engine/vae/vae_image.h"
#include "engine/vae/vae_source.h"

int picture_decoder_of_vae(struct picture_decoder *out, const char *path, struct err *err)
{
    *out = (struct picture_decoder){0};
    return vae_source_open(&out->vae, &out->cfg, path, VAE_DECODER, err);
}

int picture_decoder_open(struct picture_decoder *out, const struct dataset *data, const struct train_spec *s,
                         struct err *err)
{
    struct encoder_pair pair;
    *out = (struct picture_decoder){.data = data};
    if (!train_spec_encodes(s))
        return 0;
    if (encoder_pair_find(&pair, s, err) < 0)
        return -1;
    const int rc = picture_decoder_of_vae(out, pair.vae, err);
    encoder_pair_free(&pair);
    return rc;
}

void picture_decoder_close(struct picture_decoder *p)
{
    vae_destroy(p->vae);
    *p = (struct picture_decoder){0};
}

int picture_decoder_draw(const struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err)
{
    return p->vae ? vae_image_decode(p->vae, &p->cfg, latent, height, width, out, err)
                  : dataset_picture(p->data, out, latent, height, width, err);
}

int picture_decoder_size(const struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err)
{
    if (!p->vae)
        return dataset_picture(p->data, out, latent, height, width, err);
    *out = (struct image){.width = width * vae_config_factor(&p->cfg), .height = height * vae_config_factor(&p->cfg)};
    return 0;
}
