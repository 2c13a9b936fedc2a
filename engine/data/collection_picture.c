/* SPDX-License-Identifier: Apache-2.0 */
/* collection_picture.c - the picture of a sample at its bucket's size
 *
 * By the readers of Sana's authors (diffusion/data/transforms.py, sana_data_multi_scale.py).  A square bucket: the
 * shorter side becomes the resolution r, the longer one int(r long / short), bilinear.  Of several buckets, for a label
 * of h x w and a bucket of H x W: H x int(w H / h) if H / h > W / w, else int(h W / w) x W, bicubic; so a picture whose
 * label is wrong is distorted, as there.  Then the middle H x W: from row int(round((rows - H) / 2)), halves to even;
 * what is missing is black.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"
#include "engine/data/image.h"
#include "engine/data/resample.h"

enum { LANCZOS_FROM = 2048 };

void collection_bytes_free(struct collection_bytes *b)
{
    free(b->at);
    free(b->name);
    *b = (struct collection_bytes){0};
}

int collection_original(struct image *out, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_bytes b = {0};
    *out = (struct image){0};
    if (c->kind->load(&b, c, i, err) < 0)
        return -1;
    const int rc = (c->o.recipe == COLLECTION_SANA ? image_decode_rgb : image_decode)(out, b.at, b.size, b.name, err);
    collection_bytes_free(&b);
    return rc;
}

/* The picture's own size. */
static int measure(int *width, int *height, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_bytes b = {0};
    if (c->kind->load(&b, c, i, err) < 0)
        return -1;
    const int rc = image_measure(width, height, b.at, b.size, b.name, err);
    collection_bytes_free(&b);
    return rc;
}

/* The size that decides on the bucket. */
static int label(double *height, double *width, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s = {0};
    int h = 0, w = 0;
    int rc = c->o.recipe == COLLECTION_SANA ? collection_sample(&s, c, i, err) : 0;
    *height = s.height;
    *width = s.width;
    collection_sample_free(&s);
    if (rc == 0 && !(*height > 0 && *width > 0)) {
        rc = measure(&w, &h, c, i, err);
        *height = h;
        *width = w;
    }
    return rc;
}

int collection_size(const struct collection *c, int64_t i, struct aspect *to, struct err *err)
{
    double height, width;
    int w = 0, h = 0;
    if (c->o.resolution == 0) {
        if (measure(&w, &h, c, i, err) < 0)
            return -1;
        *to = (struct aspect){h, w};
    } else if (c->o.multi_scale) {
        if (label(&height, &width, c, i, err) < 0)
            return -1;
        *to = aspect_nearest(height, width, c->o.resolution, c->o.step);
    } else {
        *to = (struct aspect){c->o.resolution, c->o.resolution};
    }
    return 0;
}

/* Rows or columns of `in` before the middle `to` of `from`; negative: so many are missing. */
static int margin(int from, int to)
{
    return to > from ? -((to - from) / 2) : (int)nearbyint((from - to) / 2.0);
}

/* The picture's size before the crop, as it is computed: a wide range of numbers. */
struct scaled {
    double height, width;
};

static struct scaled to_square(int height, int width, struct aspect to)
{
    const bool upright = width <= height;
    const int less = upright ? width : height, more = upright ? height : width;
    const double longer = floor((double)((int64_t)to.width * more) / less);
    return upright ? (struct scaled){longer, to.width} : (struct scaled){to.height, longer};
}

static struct scaled to_bucket(double height, double width, struct aspect to)
{
    if (to.height / height > to.width / width)
        return (struct scaled){to.height, floor(width * to.height / height)};
    return (struct scaled){floor(height * to.width / width), to.width};
}

/* For a picture of height x width pixels. */
static int place(struct collection_placement *out, const struct collection *c, int64_t i, int height, int width,
                 struct err *err)
{
    struct aspect to;
    struct scaled s = {height, width};
    double h, w;
    if (collection_size(c, i, &to, err) < 0)
        return -1;
    if (c->o.multi_scale && c->o.resolution) {
        if (label(&h, &w, c, i, err) < 0)
            return -1;
        s = to_bucket(h, w, to);
    } else if (c->o.resolution) {
        s = to_square(height, width, to);
    }
    if (!(s.height >= 1 && s.height <= IMAGE_MAX_EDGE && s.width >= 1 && s.width <= IMAGE_MAX_EDGE))
        return err_set(err, ERR_DATA, "to fit %d x %d pixels it would have to be %g x %g; the limits are 1 and %d",
                       to.width, to.height, s.width, s.height, IMAGE_MAX_EDGE);
    out->scaled = (struct aspect){(int)s.height, (int)s.width};
    out->top = margin(out->scaled.height, to.height);
    out->left = margin(out->scaled.width, to.width);
    return 0;
}

int collection_place(struct collection_placement *out, const struct collection *c, int64_t i, struct err *err)
{
    int w, h;
    return measure(&w, &h, c, i, err) < 0 ? -1 : place(out, c, i, h, w, err);
}

static int crop(struct image *out, const struct image *in, const struct collection_placement *p, struct aspect to,
                struct err *err)
{
    if (image_create(out, to.width, to.height, err) < 0)
        return -1;
    memset(out->rgb, 0, (size_t)to.width * (size_t)to.height * 3);
    image_blit(out, in, -p->left, -p->top, 1);
    return 0;
}

static int fit_sana(struct image *out, const struct image *in, const struct collection *c, int64_t i, struct aspect to,
                    struct err *err)
{
    const enum resample_filter filter = !c->o.multi_scale                  ? RESAMPLE_BILINEAR
                                        : c->o.resolution >= LANCZOS_FROM ? RESAMPLE_LANCZOS
                                                                           : RESAMPLE_BICUBIC;
    struct collection_placement p;
    struct image scaled;
    if (place(&p, c, i, in->height, in->width, err) < 0 ||
        resample_image(&scaled, in, p.scaled.width, p.scaled.height, filter, err) < 0)
        return -1;
    const int rc = crop(out, &scaled, &p, to, err);
    image_free(&scaled);
    return rc;
}

static int fit(struct image *out, const struct image *in, const struct collection *c, int64_t i, struct aspect to,
               struct err *err)
{
    if (c->o.recipe == COLLECTION_PLAIN)
        return image_fit(out, in, to.width, to.height, err);
    return fit_sana(out, in, c, i, to, err);
}

/* Sentences of scaling do not know the file. */
static int name_it(const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s;
    if (collection_sample(&s, c, i, NULL) == 0) {
        err_prefix(err, "%s: ", s.name);
        collection_sample_free(&s);
    }
    return -1;
}

int collection_picture(struct image *out, const struct collection *c, int64_t i, struct err *err)
{
    struct image in;
    struct aspect to;
    *out = (struct image){0};
    if (collection_original(&in, c, i, err) < 0 || collection_size(c, i, &to, err) < 0) {
        image_free(&in);
        return -1;
    }
    const bool as_is = c->o.resolution == 0 ||
                       (c->o.recipe == COLLECTION_PLAIN && in.width == to.width && in.height == to.height);
    if (as_is) {
        *out = in;
        return 0;
    }
    const int rc = fit(out, &in, c, i, to, err);
    image_free(&in);
    return rc == 0 ? 0 : name_it(c, i, err);
}
