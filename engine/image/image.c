/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - see image.h; the file formats are in image_codec.c */
#include "engine/image/image.h"

#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/image/image_internal.h"

int image_broken(const char *name, const char *kind, const char *why, struct err *err)
{
    return err_set(err, ERR_DATA, "%s is not a readable %s picture: %s", name, kind, why);
}

int image_create(struct image *out, int width, int height, struct err *err)
{
    *out = (struct image){0};
    if (width < 1 || height < 1 || width > IMAGE_MAX_EDGE || height > IMAGE_MAX_EDGE)
        return err_set(err, ERR_DATA, "a picture of %d x %d pixels is out of range (1 to %d)",
                       width, height, IMAGE_MAX_EDGE);
    size_t n = (size_t)width * (size_t)height * 3;
    out->rgb = malloc(n);
    if (!out->rgb)
        return err_set(err, ERR_MEMORY, "out of memory for a picture of %d x %d", width, height);
    memset(out->rgb, 255, n);
    out->width = width;
    out->height = height;
    return 0;
}

void image_free(struct image *im)
{
    free(im->rgb);
    *im = (struct image){0};
}

/* Weights of the source pixels [first, first + n) for output pixel o along one axis of the
 * part [from, from + len) that is kept. The triangle is as wide as the larger of the two pixels. */
static int taps(float *w, int *first, int o, double scale, int from, int len, int most)
{
    double half = scale > 1 ? scale : 1;
    double centre = (o + 0.5) * scale;
    int lo = (int)floor(centre - half);
    int hi = (int)ceil(centre + half);
    lo = lo < 0 ? 0 : lo;
    hi = hi > len ? len : hi;
    if (hi - lo > most)
        hi = lo + most;
    double sum = 0;
    for (int i = lo; i < hi; i++) {
        double d = fabs(i + 0.5 - centre) / half;
        w[i - lo] = (float)(d < 1 ? 1 - d : 0);
        sum += w[i - lo];
    }
    for (int i = lo; i < hi; i++)
        w[i - lo] = sum > 0 ? (float)(w[i - lo] / sum) : 1.0f / (float)(hi - lo);
    *first = from + lo;
    return hi - lo;
}

static uint8_t to_byte(float x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : lrintf(x));
}

/* Scales along rows: [in height][width]. */
static void fit_rows(float *to, const struct image *in, int width, double scale, float *w, int most)
{
    int len = (int)lround(width * scale);
    len = len > in->width ? in->width : len;
    for (int x = 0; x < width; x++) {
        int first;
        int n = taps(w, &first, x, scale, (in->width - len) / 2, len, most);
        for (int y = 0; y < in->height; y++)
            for (int c = 0; c < 3; c++) {
                float s = 0;
                for (int i = 0; i < n; i++)
                    s += w[i] * in->rgb[((size_t)y * (size_t)in->width + (size_t)(first + i)) * 3 +
                                        (size_t)c];
                to[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c] = s;
            }
    }
}

/* Scales along columns of the output of fit_rows(). */
static void fit_columns(struct image *out, const float *rows, int in_height, double scale, float *w, int most)
{
    size_t row = (size_t)out->width * 3;
    int len = (int)lround(out->height * scale);
    len = len > in_height ? in_height : len;
    for (int y = 0; y < out->height; y++) {
        int first;
        int n = taps(w, &first, y, scale, (in_height - len) / 2, len, most);
        for (size_t i = 0; i < row; i++) {
            float s = 0;
            for (int k = 0; k < n; k++)
                s += w[k] * rows[(size_t)(first + k) * row + i];
            out->rgb[(size_t)y * row + i] = to_byte(s);
        }
    }
}

int image_fit(struct image *out, const struct image *in, int width, int height, struct err *err)
{
    *out = (struct image){0};
    double x = (double)in->width / width, y = (double)in->height / height;
    double scale = x < y ? x : y;
    int most = 2 * (int)ceil(scale > 1 ? scale : 1) + 3;
    float *w = malloc(sizeof(*w) * (size_t)most);
    float *rows = malloc(sizeof(*rows) * (size_t)width * (size_t)in->height * 3);
    int rc = -1;
    if (!w || !rows) {
        err_set(err, ERR_MEMORY, "out of memory to scale a picture");
    } else if (image_create(out, width, height, err) == 0) {
        fit_rows(rows, in, width, scale, w, most);
        fit_columns(out, rows, in->height, scale, w, most);
        rc = 0;
    }
    free(w);
    free(rows);
    return rc;
}

void image_blit(struct image *to, const struct image *in, int x, int y, int zoom)
{
    for (int r = 0; r < in->height * zoom; r++)
        for (int c = 0; c < in->width * zoom; c++) {
            if (y + r < 0 || y + r >= to->height || x + c < 0 || x + c >= to->width)
                continue;
            memcpy(to->rgb + ((size_t)(y + r) * (size_t)to->width + (size_t)(x + c)) * 3,
                   in->rgb + ((size_t)(r / zoom) * (size_t)in->width + (size_t)(c / zoom)) * 3, 3);
        }
}

void image_fill(struct image *to, int x, int y, int w, int h, uint32_t rgb)
{
    uint8_t px[3] = {(uint8_t)(rgb >> 16), (uint8_t)(rgb >> 8), (uint8_t)rgb};
    for (int r = y < 0 ? 0 : y; r < y + h && r < to->height; r++)
        for (int c = x < 0 ? 0 : x; c < x + w && c < to->width; c++)
            memcpy(to->rgb + ((size_t)r * (size_t)to->width + (size_t)c) * 3, px, 3);
}

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
