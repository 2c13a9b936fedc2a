/* SPDX-License-Identifier: Apache-2.0 */
/* vae_flops.c - see vae_flops.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/vae/vae_flops.h"

/* Products per pixel of a block of width w. EfficientViT: qkv 3 w w, the second scale 75 w and 96 w, proj 2 w w, the
 * gated convolution 8 w w, 72 w and 4 w w. */
static double block(double w, bool attention)
{
    return attention ? 17 * w * w + 243 * w : 18 * w * w;
}

/* Two convolutions 3x3, and one 1x1 where the width changes. */
static double kl_block(double in, double out)
{
    return 9 * in * out + 9 * out * out + (in != out ? in * out : 0);
}

static double kl_stage(const struct vae_config *c, int i)
{
    double sum = 0;
    for (int k = 0; k < c->encoder_depth[i]; k++)
        sum += kl_block(k == 0 && i > 0 ? c->width[i - 1] : c->width[i], c->width[i]);
    return sum;
}

/* Per pixel of a stage. */
static double stage(const struct vae_config *c, int i)
{
    double sum = c->family == VAE_KL ? kl_stage(c, i) : c->encoder_depth[i] * block(c->width[i], c->attention[i]);
    if (i + 1 < c->stages) /* to half the size */
        sum += 9.0 / 4 * c->width[i] * c->width[c->family == VAE_KL ? i : i + 1];
    return sum;
}

/* Behind the last stage: per pixel, and for each pair of pixels. */
static double last(const struct vae_config *c, double pixels)
{
    const double w = c->width[c->stages - 1];
    if (c->family != VAE_KL)
        return pixels * 9 * w * c->latent;
    return pixels * (2 * kl_block(w, w) + 4 * w * w + 18 * w * c->latent) + 2 * pixels * pixels * w;
}

double vae_flops_encode(const struct vae_config *c, int height, int width)
{
    double pixels = (double)height * width, sum = pixels * 27 * c->width[0];
    for (int i = 0; i < c->stages; i++, pixels /= 4)
        sum += pixels * stage(c, i);
    return 2 * (sum + last(c, 4 * pixels));
}
