/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_open.c - find the shards, check that they agree, number their samples; see dataset.h */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/text_append.h"
#include "engine/collection/aspect.h"
#include "engine/contract/train_config.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset_internal.h"
#include "engine/data/encoded_set.h"
#include "engine/data/synthetic.h"

static const struct st_tensor *find(const struct dataset *d, const struct shard *s,
                                    const char *what, int ndim, struct err *err)
{
    char name[ST_NAME];
    if (s->group > 0)
        snprintf(name, sizeof(name), "%s.%d", what, s->group);
    else
        snprintf(name, sizeof(name), "%s", what);
    const struct st_tensor *t = st_find(d->sources[s->source].file, name);
    if (!t)
        err_set(err, ERR_DATA, "shard %s has no tensor '%s'", shard_name(d, s), name);
    else if (t->ndim != ndim || t->count == 0) {
        err_set(err, ERR_DATA, "shard %s: '%s' has %d dimensions and %zu numbers; expected %d "
                               "dimensions and at least one number",
                shard_name(d, s), name, t->ndim, t->count, ndim);
        t = NULL;
    }
    return t;
}

/* A shard must equal the first one, except for differences that multi_scale permits. */
static int shard_compare(const struct dataset *d, const struct shard *s, struct err *err)
{
    const struct shard *first = &d->shards[0];
    const int64_t *l = s->latent->dim, *c = s->caption->dim;
    const int64_t *fl = first->latent->dim, *fc = first->caption->dim;
    if (l[1] != fl[1] || c[1] != fc[1] || c[2] != fc[2])
        return err_set(err, ERR_DATA, "shards %s and %s have samples of different shapes",
                       shard_name(d, s), shard_name(d, first));
    if (d->multi_scale || (l[2] == fl[2] && l[3] == fl[3]))
        return 0;
    return err_set(err, ERR_DATA,
                   "shard %s has latents of %lld x %lld, shard %s of %lld x %lld; to train on "
                   "several shapes set train.data.multi_scale: true",
                   shard_name(d, s), (long long)l[2], (long long)l[3], shard_name(d, first),
                   (long long)fl[2], (long long)fl[3]);
}

/* Shapes of a shard must agree with each other and with the earlier shards. */
static int shard_check(const struct dataset *d, struct shard *s, struct err *err)
{
    s->latent = find(d, s, "latent", 4, err);
    s->caption = s->latent ? find(d, s, "caption", 3, err) : NULL;
    s->mask = s->caption ? find(d, s, "mask", 2, err) : NULL;
    if (!s->mask)
        return -1;
    const int64_t *l = s->latent->dim, *c = s->caption->dim, *m = s->mask->dim;
    if (c[0] != l[0] || m[0] != l[0] || m[1] != c[1])
        return err_set(err, ERR_DATA,
                       "shard %s: latent, caption and mask disagree on the number of samples or "
                       "words",
                       shard_name(d, s));
    for (int i = 1; i < 4; i++)
        if (l[i] > 65536 || (i < 3 && c[i] > 65536))
            return err_set(err, ERR_DATA, "shard %s: a dimension is larger than 65536", shard_name(d, s));
    s->len = l[0];
    return shard_compare(d, s, err);
}

/* Group `group` of the source added last. */
static int shard_add(struct dataset *d, int group, struct err *err)
{
    struct shard *more = realloc(d->shards, sizeof(*more) * (size_t)(d->nshards + 1));
    if (!more)
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    d->shards = more;
    d->shards[d->nshards] = (struct shard){.source = d->nsources - 1, .group = group};
    return shard_check(d, &d->shards[d->nshards++], err);
}

static int source_add(struct dataset *d, const char *path, struct err *err)
{
    struct source *more = realloc(d->sources, sizeof(*more) * (size_t)(d->nsources + 1));
    if (!more)
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    d->sources = more;
    struct source *s = &d->sources[d->nsources];
    *s = (struct source){0};
    if (st_open(&s->file, path, err) < 0)
        return -1;
    const char *slash = strrchr(path, '/');
    s->name = strdup(slash ? slash + 1 : path);
    d->nsources++;
    if (!s->name)
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    char next[ST_NAME] = "latent";
    for (int group = 0; group == 0 || st_find(s->file, next); group++) {
        if (shard_add(d, group, err) < 0)
            return -1;
        snprintf(next, sizeof(next), "latent.%d", group + 1);
    }
    return 0;
}

/* Of one shape as found. */
static int by_shape(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;
    const int64_t *l = x->latent->dim, *r = y->latent->dim;
    int64_t order = dataset_shape_order(l[2], l[3], r[2], r[3]);
    if (order == 0)
        order = x->source - y->source;
    if (order == 0)
        order = x->group - y->group;
    return (order > 0) - (order < 0);
}

/* Numbers the samples of all shards, bucket by bucket. */
static int make_buckets(struct dataset *d, struct err *err)
{
    qsort(d->shards, (size_t)d->nshards, sizeof(*d->shards), by_shape);
    for (int i = 0; i < d->nshards; i++) {
        struct shard *s = &d->shards[i];
        s->first = d->shape.samples;
        if (dataset_bucket_add(d, s->len, s->latent->dim[2], s->latent->dim[3], err) < 0)
            return -1;
    }
    const struct shard *first = &d->shards[0];
    d->shape.channels = (int)first->latent->dim[1];
    d->shape.words = (int)first->caption->dim[1];
    d->shape.caption_channels = (int)first->caption->dim[2];
    return 0;
}

static int is_shard(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, ".safetensors");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int open_features(struct dataset *d, const char *path, struct err *err)
{
    struct stat st;
    struct dirent **names = NULL;
    int rc = 0;
    if (stat(path, &st) < 0)
        return err_set_errno(err, errno, "cannot read the data %s", path);
    if (!S_ISDIR(st.st_mode))
        return source_add(d, path, err);
    int n = scandir(path, &names, is_shard, by_name);
    for (int i = 0; i < n; i++) {
        char file[DATASET_PATH];
        if (rc == 0 && snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name) >= (int)sizeof(file))
            rc = err_set(err, ERR_DATA, "the path is too long: %.200s", path);
        if (rc == 0)
            rc = source_add(d, file, err);
        free(names[i]);
    }
    free(names);
    if (rc == 0 && n <= 0)
        rc = err_set(err, ERR_DATA, "%s holds no shards (.safetensors or .tar)", path);
    return rc;
}

static int digest_shards(struct dataset *d, struct err *err)
{
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    for (int i = 0; i < d->nshards; i++) {
        const struct shard *s = &d->shards[i];
        digest_add_text(sum, shard_name(d, s));
        digest_add(sum, s->latent->dim, sizeof(int64_t) * 4);
        digest_add(sum, s->caption->dim, sizeof(int64_t) * 3);
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

/* Whether all latents belong to pictures of the spec's resolution, for some number of pixels per
 * latent. */
static bool resolution_fits(const struct dataset *d, const struct train_spec *s, int pixels)
{
    if (s->resolution % pixels != 0)
        return false;
    for (int i = 0; i < d->shape.buckets; i++) {
        int h = d->buckets[i].height * pixels, w = d->buckets[i].width * pixels;
        if (s->multi_scale ? !aspect_known(h, w, s->resolution, pixels)
                           : h != s->resolution || w != s->resolution)
            return false;
    }
    return true;
}

/* With features the resolution is that of the pictures from which they were made. */
static int check_resolution(const struct dataset *d, const struct train_spec *s, struct err *err)
{
    const struct dataset_shape *shape = &d->shape;
    double about = s->resolution / sqrt((double)shape->height * shape->width);
    if (s->resolution == 0)
        return 0;
    for (int pixels = (int)(about * 0.9); pixels <= about * 1.1 + 1; pixels++)
        if (pixels > 0 && resolution_fits(d, s, pixels))
            return 0;
    return err_set(err, ERR_USAGE,
                   "train.data.resolution: pictures of resolution %d have no latents of %d x %d%s; "
                   "leave the key out to use the features as they are",
                   s->resolution, shape->height, shape->width,
                   shape->buckets > 1 ? ", or not of the other shapes" : "");
}

/* A single bucket of synthetic numbers; only the shape matters. */
static int open_synthetic(struct dataset *d, const struct train_spec *s, struct err *err)
{
    const int edge = s->resolution / SYNTHETIC_SHRINK;
    d->buckets = calloc(1, sizeof(*d->buckets));
    if (!d->buckets)
        return err_set(err, ERR_MEMORY, "out of memory for a bucket");
    d->shape = (struct dataset_shape){.samples = SYNTHETIC_SAMPLES, .channels = SYNTHETIC_CHANNELS,
                                      .height = edge, .width = edge, .buckets = 1,
                                      .words = s->caption_words,
                                      .caption_channels = s->caption_channels};
    *d->buckets = (struct dataset_bucket){.samples = SYNTHETIC_SAMPLES, .height = edge,
                                          .width = edge};
    snprintf(d->digest, sizeof(d->digest), "synthetic:%dx%dx%d", edge, s->caption_words, s->caption_channels);
    return synthetic_create(&d->synthetic, err);
}

/* Features of NumPy. */
static int open_arrays(struct dataset *d, const struct train_spec *s, struct err *err)
{
    struct dirent **names = NULL;
    const int n = scandir(s->data_path, &names, is_shard, NULL);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (n > 0)
        return err_set(err, ERR_DATA, "%s holds both .safetensors and .tar files, which are different layouts: move one of "
                                      "them away",
                       s->data_path);
    if (dataset_arrays_open(d, s, err) < 0)
        return -1;
    return check_resolution(d, s, err);
}

static int open_shards(struct dataset *d, const struct train_spec *s, struct err *err)
{
    if (open_features(d, s->data_path, err) < 0 || make_buckets(d, err) < 0 || check_resolution(d, s, err) < 0)
        return -1;
    return digest_shards(d, err);
}

int dataset_open(struct dataset **out, const struct train_spec *s, dataset_tick_fn tick, void *arg, struct err *err)
{
    if (train_spec_encodes(s))
        return err_set(err, ERR_USAGE, "train.data.encoders: %s: the job encodes pictures and captions itself, into its "
                       "cache, which this command cannot read yet", s->encoders == ENCODERS_SANA ? "sana" : "lumina");
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    d->multi_scale = s->multi_scale;
    int rc = s->encoders == ENCODERS_SYNTHETIC                              ? open_synthetic(d, s, err)
             : s->encoders == ENCODERS_FEATURES && dataset_has_tars(s->data_path) ? open_arrays(d, s, err)
             : s->encoders == ENCODERS_FEATURES                             ? open_shards(d, s, err)
                                                                   : dataset_pictures_open(d, s, tick, arg, err);
    if (rc < 0) {
        dataset_close(d);
        return -1;
    }
    *out = d;
    return 0;
}

/* Of the keys: equal data has an equal digest, wherever it lies. */
static int digest_keys(struct dataset *d, struct err *err)
{
    const struct encoded_set *e = d->encoded;
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    for (int64_t i = 0; i < e->samples; i++) {
        const struct encoded_sample *s = &e->sample[i];
        digest_add(sum, s->picture.byte, sizeof(s->picture.byte));
        digest_add(sum, e->text + s->text, (size_t)s->texts * sizeof(*e->text));
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

int dataset_open_encoded(struct dataset **out, struct encoded_set *set, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d) {
        encoded_set_free(set);
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    }
    d->encoded = set;
    d->shape = (struct dataset_shape){.channels = set->channels, .words = set->rows,
                                      .caption_channels = set->width};
    int rc = digest_keys(d, err);
    for (int64_t i = 0; rc == 0 && i < set->samples; i++) /* sorted by shape */
        rc = dataset_bucket_add(d, 1, set->sample[i].height, set->sample[i].width, err);
    if (rc < 0)
        dataset_close(d);
    else
        *out = d;
    return rc;
}
