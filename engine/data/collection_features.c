/* SPDX-License-Identifier: Apache-2.0 */
/* collection_features.c - latents and text rows of samples, from .npy and .npz
 *
 * By Sana's reader with load_vae_feat and load_text_feat (sana_data_multi_scale.py).  It opens KEY.npz in the directory
 * that the program runs in; here the directory is named.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"
#include "engine/data/image.h"
#include "engine/data/npy.h"

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
