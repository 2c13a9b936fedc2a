/* SPDX-License-Identifier: Apache-2.0 */
/* resample.h - resizes pictures, bit for bit as Pillow's Image.resize() does
 *
 * A pass along rows, then one along columns, each rounded to 8 bits; a pass whose size does not change is left out.
 * With scale = in / out and s = max(scale, 1), output pixel x is the sum over the source pixels i of
 *
 *     f((i + 0.5 - c) / s),   c = (x + 0.5) scale,   int(c - r s + 0.5) <= i < int(c + r s + 0.5), within the picture,
 *
 * divided by the sum of these weights in double precision, and rounded to 22 bits behind the point, halves away from
 * zero.  f: 1 - |x| with r = 1; the cubic convolution with a = -0.5, r = 2; sinc(x) sinc(x / 3), r = 3.
 */
#ifndef ENGINE_IMAGE_RESAMPLE_H
#define ENGINE_IMAGE_RESAMPLE_H

struct err;
struct image;

enum resample_filter { RESAMPLE_BILINEAR, RESAMPLE_BICUBIC, RESAMPLE_LANCZOS };

/* Creates *out, which image_free() frees. */
int resample_image(struct image *out, const struct image *in, int width, int height, enum resample_filter filter,
                   struct err *err);

const char *resample_name(enum resample_filter filter); /* "bilinear", ... */

#endif
