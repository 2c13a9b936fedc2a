/* SPDX-License-Identifier: Apache-2.0 */
/* fit_shape.c - see fit_shape.h */
#include "engine/optim/fit_shape.h"

#include "engine/contract/train_spec.h"

/* Pixels per latent, at most, of autoencoders that Sana and Lumina are used with. */
enum { SANA_SHRINK = 32, LUMINA_SHRINK = 8 };

/* Buckets of several shapes have about the pixels of the square; 9/16 of them are less than any has. */
static int edge_of(const struct train_spec *s, int shrink)
{
    const int edge = s->resolution / shrink;
    return s->multi_scale ? edge * 3 / 4 : edge;
}

/* Whole patches. */
static int patches(const struct train_spec *s, int edge)
{
    return edge / s->model.patch * s->model.patch;
}

bool fit_shape(struct fit_shape *out, const struct train_spec *s)
{
    int shrink = s->dct_block;
    struct fit_shape shape = {.channels = 1, .words = 1, .caption_channels = 1};
    if (s->resolution <= 0 || s->encoders == ENCODERS_FEATURES)
        return false;
    if (train_spec_encodes(s)) {
        shrink = s->encoders == ENCODERS_SANA ? SANA_SHRINK : LUMINA_SHRINK;
    } else {
        const bool random = s->encoders == ENCODERS_SYNTHETIC;
        shrink = random ? SYNTHETIC_SHRINK : shrink;
        shape.channels = random ? SYNTHETIC_CHANNELS : 3 * shrink * shrink;
        shape.words = s->caption_words;
        shape.caption_channels = s->caption_channels;
    }
    shape.height = shape.width = patches(s, edge_of(s, shrink));
    *out = shape;
    return shape.height > 0;
}
