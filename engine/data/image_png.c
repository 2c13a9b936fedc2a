/* SPDX-License-Identifier: Apache-2.0 */
/* image_png.c - PNG with the colours that are in the file: no gamma, no transparency; see image_decode_rgb() */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "engine/contract/err.h"
#include "engine/data/image.h"
#include "engine/data/image_internal.h"

/* What libpng reads from, and where it returns to when it fails. */
struct png_trap {
    jmp_buf              back;
    char                 why[128];
    const unsigned char *at;
    size_t               left;
    uint8_t             *rows; /* here, because locals of a function are lost by the jump */
    png_bytepp           row;
};

static void fail(png_structp png, png_const_charp why)
{
    struct png_trap *trap = png_get_error_ptr(png);
    snprintf(trap->why, sizeof(trap->why), "%s", why);
    longjmp(trap->back, 1);
}

static void ignore(png_structp png, png_const_charp why)
{
    (void)png, (void)why;
}

static void take(png_structp png, png_bytep to, size_t n)
{
    struct png_trap *trap = png_get_io_ptr(png);
    if (n > trap->left)
        png_error(png, "its data is truncated");
    memcpy(to, trap->at, n);
    trap->at += n;
    trap->left -= n;
}

/* Values of 16 bits of grey: above 255 is white. */
static void clip_grey(uint8_t *rgb, const uint8_t *wide, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        memset(rgb + 3 * i, wide[2 * i] ? 255 : wide[2 * i + 1], 3);
}

/* Rows of RGB, or of 16-bit grey; how libpng has to change what is in the file. */
static bool transform(png_structp png, png_infop info)
{
    const int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    const bool wide_grey = type == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (type & PNG_COLOR_MASK_ALPHA)
        png_set_strip_alpha(png);
    if (depth == 16 && !wide_grey)
        png_set_strip_16(png);
    if (!(type & PNG_COLOR_MASK_COLOR) && !wide_grey)
        png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return wide_grey;
}

/* Everything that libpng may jump out of. What comes after the last row is not read, so IEND may be missing, as by Pillow. Palettes with transparency give RGBA: `stride` has room for it. */
static void read_rows(png_structp png, png_infop info, struct image *out, struct png_trap *t)
{
    const size_t w = (size_t)out->width, h = (size_t)out->height;
    const bool wide_grey = transform(png, info);
    const size_t stride = png_get_rowbytes(png, info), channels = png_get_channels(png, info);
    t->rows = malloc(stride * h);
    t->row = malloc(sizeof(*t->row) * h);
    if (!t->rows || !t->row)
        png_error(png, "out of memory");
    for (size_t y = 0; y < h; y++)
        t->row[y] = t->rows + y * stride;
    png_read_image(png, t->row);
    for (size_t y = 0; y < h; y++) {
        uint8_t *to = out->rgb + y * w * 3;
        if (wide_grey)
            clip_grey(to, t->row[y], w);
        else
            for (size_t x = 0; x < w; x++)
                memcpy(to + 3 * x, t->row[y] + channels * x, 3);
    }
}

/* Reads the header, and with `out` the picture. */
static int read_png(struct image *out, int size_of[2], struct png_trap *trap, const char *name, struct err *err)
{
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, trap, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile int rc = -1;
    if (!info) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", name);
    } else if (setjmp(trap->back)) {
        rc = image_broken(name, "PNG", trap->why, err);
    } else {
        png_set_read_fn(png, trap, take);
        png_read_info(png, info);
        size_of[0] = (int)png_get_image_width(png, info);
        size_of[1] = (int)png_get_image_height(png, info);
        rc = out ? image_create(out, size_of[0], size_of[1], err) : 0;
        if (rc < 0)
            err_prefix(err, "%s: ", name);
        else if (out)
            read_rows(png, info, out, trap);
    }
    png_destroy_read_struct(&png, &info, NULL);
    free(trap->rows);
    free(trap->row);
    return rc;
}

int image_png_rgb(struct image *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    struct png_trap trap = {.at = bytes, .left = size};
    int size_of[2];
    *out = (struct image){0};
    const int rc = read_png(out, size_of, &trap, name, err);
    if (rc < 0)
        image_free(out);
    return rc;
}

int image_png_measure(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err)
{
    struct png_trap trap = {.at = bytes, .left = size};
    int size_of[2] = {0};
    const int rc = read_png(NULL, size_of, &trap, name, err);
    *width = size_of[0];
    *height = size_of[1];
    return rc;
}
