/* SPDX-License-Identifier: Apache-2.0 */
/* collection_picture.c - the picture of a sample at its bucket's size
 *
 * Follows the readers of Sana's authors (diffusion/data/transforms.py, sana_data_multi_scale.py).  A square bucket: the
 * shorter side becomes the resolution r, the longer one int(r long / short), bilinear. With several buckets, for a
 * label of h x w and a bucket of H x W: H x int(w H / h) if H / h > W / w, else int(h W / w) x W, bicubic; so a picture
 * whose label is wrong is distorted, as in theirs. Then the middle H x W: from row int(round((rows - H) / 2)), halves
 * to even; what is missing is black.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/collection/collection_internal.h"
#include "engine/files/npy.h"
#include "engine/image/image.h"
#include "engine/image/resample.h"

enum { LANCZOS_FROM = 2048 };

void collection_bytes_free(struct collection_bytes *b)
{
    free(b->at);
    free(b->name);
    *b = (struct collection_bytes){0};
}

/* The picture as it was decoded. */
static int collection_original(struct image *out, const struct collection *c, int64_t i, struct err *err)
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

enum { SHRINK = 32, EDGE_MAX = 65536 }; /* pixels of a latent's edge */

/* [C,H,W] or [1,C,H,W] */
static int shape_of(struct collection_latent *out, const struct st_tensor *t, const char *name, struct err *err)
{
    const int64_t *dim = t->ndim == 4 && t->dim[0] == 1 ? t->dim + 1 : t->dim;
    const int ndim = t->ndim - (dim != t->dim);
    for (int i = 0; i < ndim && ndim == 3; i++)
        if (dim[i] < 1 || dim[i] > EDGE_MAX)
            return err_set(err, ERR_DATA, "%s: a dimension of the latent is %lld", name, (long long)dim[i]);
    if (ndim != 3)
        return err_set(err, ERR_DATA, "%s has %d dimensions; expected [channels, height, width]", name, t->ndim);
    out->channels = (int)dim[0];
    out->height = (int)dim[1];
    out->width = (int)dim[2];
    return 0;
}

/* The latent of another bucket would be trained under the wrong positions. */
static int check_bucket(const struct collection_latent *l, const struct collection *c, int64_t i, const char *name,
                        struct err *err)
{
    struct aspect to;
    if (c->o.resolution == 0 || !c->o.multi_scale)
        return 0;
    if (collection_size(c, i, &to, err) < 0)
        return -1;
    if (l->height == to.height / SHRINK && l->width == to.width / SHRINK)
        return 0;
    return err_set(err, ERR_DATA, "%s is a latent of %d x %d, but its height and width belong to %d x %d pixels, "
                                  "which have %d x %d",
                   name, l->height, l->width, to.height, to.width, to.height / SHRINK, to.width / SHRINK);
}

int collection_latent(struct collection_latent *out, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_bytes b = {0};
    struct npy a;
    *out = (struct collection_latent){0};
    int rc = c->kind->load(&b, c, i, err);
    if (rc == 0)
        rc = npy_parse(&a, b.at, b.size, b.name, err);
    if (rc == 0)
        rc = shape_of(out, &a.tensor, b.name, err);
    if (rc == 0)
        rc = check_bucket(out, c, i, b.name, err);
    if (rc == 0 && !(out->floats = malloc(sizeof(float) * a.tensor.count)))
        rc = err_set(err, ERR_MEMORY, "out of memory for a latent");
    if (rc == 0)
        rc = npy_to_float(out->floats, &a, a.tensor.count, err);
    collection_bytes_free(&b);
    if (rc < 0) {
        free(out->floats);
        out->floats = NULL;
    }
    return rc;
}

/* --- text rows ---------------------------------------------------------------------------- */

/* caption_feature [1,T,D]: fills rows 0 .. most - 1, the last one repeated. */
static int fill_rows(struct collection_rows *out, const struct npy *a, int most, const char *name, struct err *err)
{
    const struct st_tensor *t = &a->tensor;
    if (t->ndim != 3 || t->dim[0] != 1 || t->dim[1] < 1 || t->dim[2] < 1 || t->dim[2] > EDGE_MAX)
        return err_set(err, ERR_DATA, "%s: caption_feature is not [1, rows, channels]", name);
    if (t->dim[1] > most)
        return err_set(err, ERR_DATA, "%s has %lld rows of text; at most %d are trained on", name, (long long)t->dim[1],
                       most);
    const size_t d = (size_t)t->dim[2];
    out->rows = (int)t->dim[1];
    out->channels = (int)d;
    out->floats = malloc(sizeof(float) * d * (size_t)most);
    out->mask = calloc((size_t)most, sizeof(float));
    if (!out->floats || !out->mask)
        return err_set(err, ERR_MEMORY, "out of memory for text rows");
    if (npy_to_float(out->floats, a, t->count, err) < 0)
        return -1;
    for (int r = out->rows; r < most; r++)
        memcpy(out->floats + (size_t)r * d, out->floats + (size_t)(out->rows - 1) * d, sizeof(float) * d);
    return 0;
}

/* attention_mask [1,T], or all ones. */
static int fill_mask(struct collection_rows *out, const void *bytes, size_t size, int most, const char *name,
                     struct err *err)
{
    void *owned;
    struct npy a;
    const int there = npy_from_archive(&a, &owned, bytes, size, "attention_mask", name, err);
    int rc = there < 0 ? -1 : 0;
    if (there > 0 && (int64_t)a.tensor.count > most)
        rc = err_set(err, ERR_DATA, "%s has an attention_mask of %zu rows; at most %d are trained on", name,
                     a.tensor.count, most);
    else if (there > 0 && a.tensor.count != (size_t)out->rows)
        rc = err_set(err, ERR_DATA, "%s has an attention_mask of %zu rows, but %d rows of text", name, a.tensor.count,
                     out->rows);
    else if (there > 0)
        rc = npy_to_float(out->mask, &a, a.tensor.count, err);
    for (int r = 0; there == 0 && r < most; r++)
        out->mask[r] = 1;
    free(owned);
    return rc;
}

static int read_archive(struct collection_rows *out, const char *path, int most, struct err *err)
{
    void *bytes = NULL, *owned = NULL;
    size_t size;
    struct npy a;
    if (image_load(&bytes, &size, path, err) < 0)
        return -1;
    const int there = npy_from_archive(&a, &owned, bytes, size, "caption_feature", path, err);
    int rc = there > 0 ? fill_rows(out, &a, most, path, err) : -1;
    if (there == 0)
        err_set(err, ERR_DATA, "%s has no caption_feature", path);
    if (rc == 0)
        rc = fill_mask(out, bytes, size, most, path, err);
    free(owned);
    free(bytes);
    return rc;
}

int collection_rows(struct collection_rows *out, const struct collection *c, int64_t i, int most, struct err *err)
{
    struct collection_sample s;
    *out = (struct collection_rows){0};
    if (!c->text_dir)
        return err_set(err, ERR_BUG, "the collection has no text rows");
    if (collection_sample(&s, c, i, err) < 0)
        return -1;
    char *path = collection_text(err, "%s/%s.npz", c->text_dir, s.key);
    const int rc = path ? read_archive(out, path, most, err) : -1;
    free(path);
    collection_sample_free(&s);
    if (rc < 0) {
        free(out->floats);
        free(out->mask);
        *out = (struct collection_rows){0};
    }
    return rc;
}
