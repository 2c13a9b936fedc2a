/* SPDX-License-Identifier: Apache-2.0 */
/* vae_image.c - see vae_image.h */
#include "engine/vae/vae_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/image/image.h"

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

static void image_from_planes(struct image *im, const float *from)
{
    const size_t n = pixels_of(im);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            const float v = (from[c * n + i] * 0.5f + 0.5f) * 255.0f;
            im->rgb[3 * i + c] = v > 0 ? (uint8_t)((v < 255 ? v : 255) + 0.5f) : 0;
        }
}

int vae_image_decode(struct vae *v, const struct vae_config *cfg, const float *z, int height, int width,
                     struct image *out, struct err *err)
{
    const int factor = vae_config_factor(cfg);
    const size_t n = (size_t)cfg->latent * (size_t)height * (size_t)width;
    if (image_create(out, width * factor, height * factor, err) < 0)
        return -1;
    float *x = malloc((3 * pixels_of(out) + n) * sizeof(*x)), *unscaled = x + 3 * pixels_of(out);
    int rc = x ? 0 : err_set(err, ERR_MEMORY, "no memory for a picture of %d x %d", out->width, out->height);
    for (size_t i = 0; rc == 0 && i < n; i++)
        unscaled[i] = z[i] / (float)cfg->scale;
    if (rc == 0)
        rc = vae_decode(v, x, unscaled, height, width, err);
    if (rc == 0)
        image_from_planes(out, x);
    else
        image_free(out);
    free(x);
    return rc;
}
