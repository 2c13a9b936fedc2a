/* SPDX-License-Identifier: Apache-2.0 */
/* resample.c - see resample.h */
#include "engine/image/resample.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/image/image.h"

enum { BITS = 22 };

/* The source pixels of one output pixel. */
struct span {
    int first, len;
};

/* All output pixels of one axis: `most` weights each, as fixed-point numbers. */
struct taps {
    struct span *span;
    int32_t     *weight;
    double      *exact; /* of the pixel in hand */
    int          most;
};

const char *resample_name(enum resample_filter filter)
{
    static const char *const names[] = {"bilinear", "bicubic", "Lanczos"};
    return names[filter];
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double cubic(double x)
{
    const double a = -0.5;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double weight_at(enum resample_filter filter, double x)
{
    if (filter == RESAMPLE_LANCZOS)
        return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    x = fabs(x);
    if (filter == RESAMPLE_BICUBIC)
        return cubic(x);
    return x < 1 ? 1 - x : 0;
}

static int32_t fixed(double w)
{
    return (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << BITS));
}

/* Weights of output pixel o. */
static void aim(struct taps *t, int o, int in, double scale, double stretch, enum resample_filter filter)
{
    const double support = (double)(filter + 1) * stretch, centre = (o + 0.5) * scale;
    int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
    double sum = 0;
    lo = lo < 0 ? 0 : lo;
    hi = hi > in ? in : hi;
    for (int i = lo; i < hi; i++) {
        t->exact[i - lo] = weight_at(filter, (i - centre + 0.5) * (1 / stretch));
        sum += t->exact[i - lo];
    }
    for (int i = 0; i < hi - lo; i++)
        t->weight[(size_t)o * (size_t)t->most + (size_t)i] = fixed(sum != 0 ? t->exact[i] / sum : t->exact[i]);
    t->span[o] = (struct span){lo, hi - lo};
}

static void taps_free(struct taps *t)
{
    free(t->span);
    free(t->weight);
    free(t->exact);
}

static int taps_make(struct taps *t, int in, int out, enum resample_filter filter, struct err *err)
{
    const double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    t->most = (int)ceil((double)(filter + 1) * stretch) * 2 + 1;
    t->span = calloc((size_t)out, sizeof(*t->span));
    t->weight = calloc((size_t)out * (size_t)t->most, sizeof(*t->weight));
    t->exact = calloc((size_t)t->most, sizeof(*t->exact));
    if (!t->span || !t->weight || !t->exact)
        return err_set(err, ERR_MEMORY, "out of memory to scale a picture");
    for (int o = 0; o < out; o++)
        aim(t, o, in, scale, stretch, filter);
    return 0;
}

static uint8_t to_byte(int32_t sum)
{
    const int32_t x = sum >> BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static void scale_row(uint8_t *to, const uint8_t *from, int width, const struct taps *t)
{
    for (int x = 0; x < width; x++) {
        const int32_t *w = t->weight + (size_t)x * (size_t)t->most;
        const uint8_t *p = from + (size_t)t->span[x].first * 3;
        int32_t r = 1 << (BITS - 1), g = r, b = r;
        for (int i = 0; i < t->span[x].len; i++, p += 3) {
            r += p[0] * w[i];
            g += p[1] * w[i];
            b += p[2] * w[i];
        }
        *to++ = to_byte(r);
        *to++ = to_byte(g);
        *to++ = to_byte(b);
    }
}

static int scale_rows(struct image *out, const struct image *in, int width, enum resample_filter filter,
                      struct err *err)
{
    struct taps t = {0};
    int rc = taps_make(&t, in->width, width, filter, err);
    if (rc == 0)
        rc = image_create(out, width, in->height, err);
    for (int y = 0; rc == 0 && y < in->height; y++)
        scale_row(out->rgb + (size_t)y * (size_t)width * 3, in->rgb + (size_t)y * (size_t)in->width * 3, width, &t);
    taps_free(&t);
    return rc;
}

/* One row of the output, from the rows of its span; `sum` has room for a row. */
static void scale_column_row(uint8_t *to, const struct image *in, const struct taps *t, int y, int32_t *sum)
{
    const size_t n = (size_t)in->width * 3;
    for (size_t x = 0; x < n; x++)
        sum[x] = 1 << (BITS - 1);
    for (int i = 0; i < t->span[y].len; i++) {
        const int32_t w = t->weight[(size_t)y * (size_t)t->most + (size_t)i];
        const uint8_t *from = in->rgb + (size_t)(t->span[y].first + i) * n;
        for (size_t x = 0; x < n; x++)
            sum[x] += from[x] * w;
    }
    for (size_t x = 0; x < n; x++)
        to[x] = to_byte(sum[x]);
}

static int scale_columns(struct image *out, const struct image *in, int height, enum resample_filter filter,
                         struct err *err)
{
    struct taps t = {0};
    int32_t *sum = calloc((size_t)in->width * 3, sizeof(*sum));
    int rc = sum ? taps_make(&t, in->height, height, filter, err)
                 : err_set(err, ERR_MEMORY, "out of memory to scale a picture");
    if (rc == 0)
        rc = image_create(out, in->width, height, err);
    for (int y = 0; rc == 0 && y < height; y++)
        scale_column_row(out->rgb + (size_t)y * (size_t)in->width * 3, in, &t, y, sum);
    taps_free(&t);
    free(sum);
    return rc;
}

static int copy(struct image *out, const struct image *in, struct err *err)
{
    if (image_create(out, in->width, in->height, err) < 0)
        return -1;
    memcpy(out->rgb, in->rgb, (size_t)in->width * (size_t)in->height * 3);
    return 0;
}

int resample_image(struct image *out, const struct image *in, int width, int height, enum resample_filter filter,
                   struct err *err)
{
    struct image rows = {0};
    int rc = 0;
    *out = (struct image){0};
    if (width < 1 || height < 1 || width > IMAGE_MAX_EDGE || height > IMAGE_MAX_EDGE)
        return err_set(err, ERR_DATA, "a picture of %d x %d pixels is out of range (1 to %d)", width, height,
                       IMAGE_MAX_EDGE);
    if (width != in->width)
        rc = scale_rows(&rows, in, width, filter, err);
    const struct image *from = width != in->width ? &rows : in;
    if (rc == 0)
        rc = height != from->height ? scale_columns(out, from, height, filter, err) : copy(out, from, err);
    image_free(&rows);
    return rc;
}
