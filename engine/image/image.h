/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - pictures of 8-bit RGB: read PNG, JPEG and WebP, scale and crop, write PNG
 *
 * A file's first bytes determine its format, not its name. Transparent pixels are
 * blended with white. Camera orientation tags are ignored.
 */
#ifndef ENGINE_IMAGE_IMAGE_H
#define ENGINE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { IMAGE_MAX_EDGE = 16384 };

struct image {
    int      width, height;
    uint8_t *rgb; /* height x width x 3, owned */
};

/* A white picture. On failure *out is empty, which image_free() accepts. */
int image_create(struct image *out, int width, int height, struct err *err);
void image_free(struct image *im);

/* A file that is not a picture, is truncated or too large is an ERR_DATA that names it. */
int image_read(struct image *out, const char *path, struct err *err);
/* The same on bytes in memory; `name` is for the sentence. */
int image_decode(struct image *out, const void *bytes, size_t size, const char *name, struct err *err);
/* The same, with the colours of Pillow's convert("RGB"): transparency dropped, gamma and colour profiles ignored, 16
 * bits cut to the upper 8 (of a grey picture: values above 255 are white), CMYK by the plain formula. */
int image_decode_rgb(struct image *out, const void *bytes, size_t size, const char *name, struct err *err);
/* The size of a picture, from its header; the other bytes may be missing. */
int image_measure(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err);
/* The bytes of a file, at most 256 MiB; the caller frees them. */
int image_load(void **bytes, size_t *size, const char *path, struct err *err);
bool image_name_ok(const char *name); /* ends in .png .jpg .jpeg .webp, any case */

/* Scale to cover width x height (area average to shrink, linear to enlarge),
 * and crop to the centre. */
int image_fit(struct image *out, const struct image *in, int width, int height, struct err *err);

/* Written to a temporary file, then renamed: the file is complete or absent. */
int image_write_png(const struct image *im, const char *path, struct err *err);

/* Copies `in` to (x, y), each pixel `zoom` times; clips at the edges. */
void image_blit(struct image *to, const struct image *in, int x, int y, int zoom);
void image_fill(struct image *to, int x, int y, int w, int h, uint32_t rgb);

#endif
