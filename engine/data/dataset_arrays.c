/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_arrays.c - a data set of features in NumPy files: KEY.npy in tar shards, KEY.npz in a directory
 *
 * Read as Sana's readers do with load_vae_feat and load_text_feat. Shapes must be those of the buckets, or without
 * buckets that of the first sample; this is checked when a sample is read. A dropped caption is zeros: such data has no
 * null embedding.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/text_append.h"
#include "engine/collection/collection.h"
#include "engine/contract/train_config.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset_internal.h"

/* One sample in the order of buckets. */
struct array_item {
    int64_t number; /* in the collection */
    int     height, width;
};

struct dataset_arrays {
    struct collection *all;
    struct array_item *item;
    int                most; /* text rows */
};

void dataset_arrays_close(struct dataset_arrays *a)
{
    if (!a)
        return;
    collection_close(a->all);
    free(a->item);
    free(a);
}

/* Of one shape as in the collection. */
static int by_shape(const void *x, const void *y)
{
    const struct array_item *a = x, *b = y;
    int64_t order = dataset_shape_order(a->height, a->width, b->height, b->width);
    if (order == 0)
        order = a->number - b->number;
    return (order > 0) - (order < 0);
}

/* By the latent itself. */
static int measure_latent(struct dataset *d, int64_t i, struct err *err)
{
    struct collection_latent l;
    if (collection_latent(&l, d->arrays->all, i, err) < 0)
        return -1;
    d->arrays->item[i] = (struct array_item){i, l.height, l.width};
    if (i == 0)
        d->shape.channels = l.channels;
    free(l.floats);
    return 0;
}

/* By the label, without reading the latent. */
static int measure_label(struct dataset *d, int64_t i, struct err *err)
{
    struct aspect to;
    if (collection_size(d->arrays->all, i, &to, err) < 0)
        return -1;
    d->arrays->item[i] = (struct array_item){i, to.height / SYNTHETIC_SHRINK, to.width / SYNTHETIC_SHRINK};
    return 0;
}

static int measure(struct dataset *d, const struct train_spec *s, int64_t i, struct err *err)
{
    if (i == 0 || (s->multi_scale && s->resolution == 0))
        return measure_latent(d, i, err);
    if (s->multi_scale)
        return measure_label(d, i, err);
    d->arrays->item[i] = d->arrays->item[0];
    d->arrays->item[i].number = i;
    return 0;
}

/* Samples of one shape after the other; without multi_scale there is one. */
static int make_buckets(struct dataset *d, struct err *err)
{
    const size_t n = (size_t)collection_len(d->arrays->all);
    struct array_item *item = d->arrays->item;
    qsort(item, n, sizeof(*item), by_shape);
    for (size_t i = 0; i < n; i++)
        if (dataset_bucket_add(d, 1, item[i].height, item[i].width, err) < 0)
            return -1;
    return 0;
}

static int read_shapes(struct dataset *d, const struct train_spec *s, struct err *err)
{
    struct collection_rows t;
    for (int64_t i = 0; i < collection_len(d->arrays->all); i++)
        if (measure(d, s, i, err) < 0)
            return -1;
    if (collection_rows(&t, d->arrays->all, 0, d->arrays->most, err) < 0)
        return -1;
    d->shape.words = d->arrays->most;
    d->shape.caption_channels = t.channels;
    free(t.floats);
    free(t.mask);
    return make_buckets(d, err);
}

static int create(struct dataset *d, const struct collection_options *o, const struct train_spec *s, struct err *err)
{
    d->arrays = calloc(1, sizeof(*d->arrays));
    if (!d->arrays)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    d->arrays->most = s->caption_words;
    if (collection_open(&d->arrays->all, o, NULL, NULL, err) < 0)
        return -1;
    const size_t n = (size_t)collection_len(d->arrays->all);
    d->arrays->item = calloc(n, sizeof(*d->arrays->item));
    return d->arrays->item ? 0 : err_set(err, ERR_MEMORY, "out of memory for %zu samples", n);
}

static int is_tar(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, ".tar");
}

bool dataset_has_tars(const char *path)
{
    char index[DATASET_PATH];
    struct stat st;
    struct dirent **names = NULL;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return text_ends_with(path, ".tar");
    snprintf(index, sizeof(index), "%s/wids-meta.json", path);
    if (stat(index, &st) == 0)
        return true;
    const int tars = scandir(path, &names, is_tar, NULL);
    for (int i = 0; i < tars; i++)
        free(names[i]);
    free(names);
    return tars > 0;
}

int dataset_check_features(const struct train_spec *s, struct err *err)
{
    if (!s->text_features[0] && dataset_has_tars(s->data_path))
        return err_set(err, ERR_USAGE, "train.data.text_features: missing; name the folder with KEY.npz for the latents "
                                       "in %s",
                       s->data_path);
    return 0;
}

int dataset_arrays_open(struct dataset *d, const struct train_spec *s, struct err *err)
{
    struct collection_options o;
    collection_options(&o, s);
    o.latents = true;
    o.text_dir = s->text_features;
    if (dataset_check_features(s, err) < 0 || create(d, &o, s, err) < 0 || read_shapes(d, s, err) < 0)
        return -1;
    return collection_digest(d->arrays->all, d->digest, err);
}

static int wrong_latent(const struct dataset *d, const struct array_item *it, const struct collection_latent *l,
                        struct err *err)
{
    char *where = collection_where(d->arrays->all, it->number);
    err_set(err, ERR_DATA, "%s is a latent of %d x %d x %d, expected %d x %d x %d; several shapes need "
                           "train.data.multi_scale: true",
            where ? where : "?", l->channels, l->height, l->width, d->shape.channels, it->height, it->width);
    free(where);
    return -1;
}

static int copy_latent(float *to, const struct dataset *d, const struct array_item *it, struct err *err)
{
    struct collection_latent l;
    if (collection_latent(&l, d->arrays->all, it->number, err) < 0)
        return -1;
    const size_t n = (size_t)l.channels * (size_t)l.height * (size_t)l.width;
    int rc = 0;
    if (l.channels != d->shape.channels || l.height != it->height || l.width != it->width)
        rc = wrong_latent(d, it, &l, err);
    else
        memcpy(to, l.floats, sizeof(*to) * n);
    free(l.floats);
    return rc;
}

static int copy_rows(float *caption, float *mask, const struct dataset *d, const struct array_item *it, struct err *err)
{
    struct collection_rows t;
    const size_t most = (size_t)d->arrays->most;
    if (collection_rows(&t, d->arrays->all, it->number, d->arrays->most, err) < 0)
        return -1;
    int rc = 0;
    if (t.channels != d->shape.caption_channels)
        rc = err_set(err, ERR_DATA, "sample %lld has text rows of %d channels, the first one has %d",
                     (long long)it->number, t.channels, d->shape.caption_channels);
    else if (caption)
        memcpy(caption, t.floats, sizeof(*caption) * most * (size_t)t.channels);
    if (rc == 0 && mask)
        memcpy(mask, t.mask, sizeof(*mask) * most);
    free(t.floats);
    free(t.mask);
    return rc;
}

int dataset_arrays_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask, struct err *err)
{
    const struct array_item *it = &d->arrays->item[i];
    if (latent && copy_latent(latent, d, it, err) < 0)
        return -1;
    return caption || mask ? copy_rows(caption, mask, d, it, err) : 0;
}

const char *dataset_arrays_name(struct dataset *d, int64_t i)
{
    char *where = collection_where(d->arrays->all, d->arrays->item[i].number);
    snprintf(d->label, sizeof(d->label), "%s", where ? where : "?");
    free(where);
    return d->label;
}
