/* SPDX-License-Identifier: Apache-2.0 */
/* encode_memory.c - see encode_memory.h */
#include "engine/encode/encode_memory.h"

#include <math.h>

#include "engine/encode/encode_internal.h"
#include "kernels/kernels.h"

/* Pixels of a strip on a device (engine/vae/vae_map.c, vae_vit.c). */
enum { STRIP = 131072, VIT_STRIP = 16384 };

/* Of the largest picture. */
static double most_pixels(const struct encode *e)
{
    double most = 0;
    for (int64_t i = 0; i < e->set->samples; i++)
        most = fmax(most, (double)e->set->sample[i].height * e->set->sample[i].width);
    return most * e->encoders.factor * e->encoders.factor;
}

/* The first stage that has the picture as a whole in memory: at the first attention of DC-AE, at full size of KL. */
static int whole_from(const struct vae_config *c)
{
    int at = 0;
    while (c->family == VAE_DCAE && at + 1 < c->stages && !c->attention[at])
        at++;
    return at;
}

/* 1.6 times the weights, which are packed, and three times the picture where it is as a whole in memory. So much was
 * measured (docs/BENCHMARKS.md), a tenth less or more. */
static int64_t vae_on_host(const struct encode *e)
{
    const struct vae_config *c = &e->encoders.vae_config;
    const int at = whole_from(c);
    return (int64_t)(1.6 * (double)e->encoders.vae_bytes +
                     3 * most_pixels(e) / pow(4, at) * c->width[at] * (double)sizeof(float));
}

/* Weights, two windows for each layer that runs over strips, the picture as above, and of a strip of an attention what
 * is wide: 16 times its channels. */
static int64_t vae_on_device(const struct encode *e, bool bf16)
{
    const struct vae_config *c = &e->encoders.vae_config;
    const double pixels = most_pixels(e), strip = fmin(STRIP, pixels);
    const int at = whole_from(c);
    double floats = 0;
    for (int i = 0; i <= at && i < c->stages; i++)
        floats += strip / pow(4, i) * c->width[i] * (2 * c->encoder_depth[i] + 1);
    floats += 3 * pixels / pow(4, at) * c->width[at];
    for (int i = at; i < c->stages; i++)
        floats += c->attention[i] ? 16 * fmin(VIT_STRIP, pixels / pow(4, i)) * c->width[i] : 0;
    return (int64_t)((double)e->encoders.vae_bytes * (bf16 ? 0.5 : 1) + floats * (double)sizeof(float));
}

int64_t encode_memory_vae(const struct encode *e, bool device, bool bf16)
{
    return device ? vae_on_device(e, bf16) : vae_on_host(e);
}

/* A device has the matrices, two operations for each number of two bytes; the embedding stays in its file. Of the rest
 * the work of products is most: the widest has four times the encoder's channels. */
int64_t encode_memory_text(const struct encode *e, bool device)
{
    const int64_t rows = 4 * (int64_t)e->encoders.rows * e->encoders.width * 8;
    if (!device)
        return e->encoders.text_bytes + rows;
    return (int64_t)e->encoders.token_flops + rows + (int64_t)(KERN_BF16_WORK(4 * e->encoders.width) * sizeof(float));
}
