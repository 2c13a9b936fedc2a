/* SPDX-License-Identifier: Apache-2.0 */
/* dct.h - the built-in image codec: an orthonormal DCT of blocks of pixels, and its inverse
 *
 * A picture of W x H pixels becomes a latent of 3 b^2 channels on (H/b) x (W/b)
 * positions: channel c b^2 + u b + v is frequency (u down, v right) of colour c of a
 * block.  Pixels are scaled to -1..1 first.  The transform is orthonormal: its transpose
 * is its inverse, and squared errors are preserved.  A latent decodes to a picture exactly, and
 * a loss on latents is a loss on pixels.
 */
#ifndef ENGINE_IMAGE_DCT_H
#define ENGINE_IMAGE_DCT_H

struct err;
struct image;

/* latent: [3 b^2][H/b][W/b]; b divides both edges of the picture. */
int dct_encode(float *latent, const struct image *im, int b, struct err *err);

/* h, w: size of the latent. Creates *out; clamps pixels to 0..255. */
int dct_decode(struct image *out, const float *latent, int b, int h, int w, struct err *err);

#endif
