/* SPDX-License-Identifier: Apache-2.0 */
/* image_internal.h - internals of pictures, shared by image*.c only */
#ifndef ENGINE_IMAGE_IMAGE_INTERNAL_H
#define ENGINE_IMAGE_IMAGE_INTERNAL_H

#include <stddef.h>

struct err;
struct image;

/* "NAME is not a readable PNG picture: WHY" */
int image_broken(const char *name, const char *kind, const char *why, struct err *err);

/* See image_decode_rgb() and image_measure() */
int image_png_rgb(struct image *out, const void *bytes, size_t size, const char *name, struct err *err);
int image_png_measure(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err);

#endif
