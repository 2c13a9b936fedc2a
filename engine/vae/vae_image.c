/* SPDX-License-Identifier: Apache-2.0 */
/* vae_image.c - see vae_image.h */
#include "engine/vae/vae_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/image.h"

size_t vae_image_count(const struct vae_config *cfg, int height, int width)
{
    const int factor = vae_config_factor(cfg);
    return (size_t)cfg->latent * (size_t)(height / factor) * (size_t)(width / factor);
}

static size_t pixels_of(const struct image *im)
{
    return (size_t)im->width * (size_t)im->height;
}

/* [3, height, width] in -1 .. 1 */
static void planes_from_image(float *to, const struct image *im)
{
    const size_t n = pixels_of(im);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            to[c * n + i] = ((float)im->rgb[3 * i + c] / 255.0f - 0.5f) / 0.5f;
}

static void take(const struct vae_config *cfg, const float *both, size_t n, float *z, float *deviation)
{
    const float scale = (float)cfg->scale;
    for (size_t i = 0; i < n; i++)
        z[i] = both[i] * scale;
    for (size_t i = 0; deviation && i < n; i++)
        deviation[i] = cfg->family == VAE_KL ? expf(0.5f * both[n + i]) * scale : 0;
}

int vae_image_encode(struct vae *v, const struct vae_config *cfg, const struct image *im, float *z, float *deviation,
                     struct err *err)
{
    const size_t n = vae_image_count(cfg, im->height, im->width);
    float *x = malloc(3 * pixels_of(im) * sizeof(*x));
    float *both = malloc(2 * n * sizeof(*both)); /* of KL mean and logarithm of the variance */
    int rc = x && both ? 0 : err_set(err, ERR_MEMORY, "no memory for a picture of %d x %d", im->width, im->height);
    if (rc == 0) {
        planes_from_image(x, im);
        rc = vae_encode(v, both, x, im->height, im->width, err);
    }
    if (rc == 0)
        take(cfg, both, n, z, deviation);
    free(both);
    free(x);
    return rc;
}
