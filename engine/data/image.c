/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - see image.h; the file formats are in image_codec.c */
#include "engine/data/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/image_internal.h"

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
