/* SPDX-License-Identifier: Apache-2.0 */
/* picture_decoder.c - see picture_decoder.h */
#include "engine/train/picture_decoder.h"

#include <stdio.h>

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/encode/encoder_pair.h"
#include "engine/image/image.h"
#include "engine/vae/vae_image.h"
#include "engine/vae/vae_source.h"

int picture_decoder_of_vae(struct picture_decoder *out, const char *path, struct err *err)
{
    *out = (struct picture_decoder){0};
    if (snprintf(out->path, sizeof(out->path), "%s", path) >= (int)sizeof(out->path))
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    struct err why = {0};
    if (vae_source_open(&out->vae, &out->cfg, path, VAE_DECODER, &why) == 0)
        return 0;
    if (why.code == ERR_DEVICE_MEMORY)
        return vae_source_open_host(&out->vae, &out->cfg, path, VAE_DECODER, err);
    if (err)
        *err = why;
    return -1;
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

/* From now on. */
static int go_to_host(struct picture_decoder *p, struct err *err)
{
    vae_destroy(p->vae);
    p->vae = NULL;
    return vae_source_open_host(&p->vae, &p->cfg, p->path, VAE_DECODER, err);
}

int picture_decoder_draw(struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err)
{
    struct err why = {0};
    if (!p->path[0])
        return dataset_picture(p->data, out, latent, height, width, err);
    if (p->vae && vae_image_decode(p->vae, &p->cfg, latent, height, width, out, &why) == 0)
        return 0;
    if (p->vae && why.code != ERR_DEVICE_MEMORY) {
        if (err)
            *err = why;
        return -1;
    }
    return go_to_host(p, err) < 0 ? -1 : vae_image_decode(p->vae, &p->cfg, latent, height, width, out, err);
}

int picture_decoder_size(const struct picture_decoder *p, struct image *out, const float *latent, int height, int width,
                         struct err *err)
{
    if (!p->path[0])
        return dataset_picture(p->data, out, latent, height, width, err);
    *out = (struct image){.width = width * vae_config_factor(&p->cfg), .height = height * vae_config_factor(&p->cfg)};
    return 0;
}
