/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - see dataset.h */
#include "engine/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/dct.h"
#include "engine/digest.h"
#include "engine/err.h"
#include "engine/image.h"
#include "engine/pack.h"
#include "engine/safetensors.h"
#include "engine/train_spec.h"

struct shard {
    struct st_file         *file;
    char                   *name;
    const struct st_tensor *latent, *caption, *mask;
    int64_t                 first, len;
};

struct dataset {
    struct shard        *shards;
    int                  nshards;
    struct dataset_shape shape;
    char                 path[PACK_PATH];
    char                 digest[DIGEST_TEXT];
    bool                 packed_now;
    int                  block;            /* 0: features */
    json_t              *names, *captions; /* of a pack */
    float               *mean, *deviation;
    char                 label[320];       /* last dataset_name() of a shard */
};

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->nshards; i++) {
        st_close(d->shards[i].file);
        free(d->shards[i].name);
    }
    free(d->shards);
    json_decref(d->names);
    json_decref(d->captions);
    free(d->mean);
    free(d->deviation);
    free(d);
}

static const struct st_tensor *find(const struct shard *s, const char *name, int ndim,
                                    struct err *err)
{
    const struct st_tensor *t = st_find(s->file, name);
    if (!t)
        err_set(err, ERR_DATA, "shard %s has no tensor '%s'", s->name, name);
    else if (t->ndim != ndim || t->count == 0) {
        err_set(err, ERR_DATA, "shard %s: '%s' has %d dimensions and %zu numbers; expected %d "
                               "dimensions and some numbers",
                s->name, name, t->ndim, t->count, ndim);
        t = NULL;
    }
    return t;
}

static bool same_dims(const int64_t *a, const int64_t *b, int n)
{
    return memcmp(a, b, sizeof(*a) * (size_t)n) == 0;
}

/* Shapes of a shard agree with each other and with the shards before. */
static int shard_check(struct dataset *d, struct shard *s, struct err *err)
{
    s->latent = find(s, "latent", 4, err);
    s->caption = s->latent ? find(s, "caption", 3, err) : NULL;
    s->mask = s->caption ? find(s, "mask", 2, err) : NULL;
    if (!s->mask)
        return -1;
    const int64_t *l = s->latent->dim, *c = s->caption->dim, *m = s->mask->dim;
    if (c[0] != l[0] || m[0] != l[0] || m[1] != c[1])
        return err_set(err, ERR_DATA,
                       "shard %s: latent, caption and mask disagree on the number of samples or "
                       "words",
                       s->name);
    for (int i = 1; i < 4; i++)
        if (l[i] > 65536 || (i < 3 && c[i] > 65536))
            return err_set(err, ERR_DATA, "shard %s: a dimension is larger than 65536", s->name);
    const struct shard *first = &d->shards[0];
    if (s != first && (!same_dims(l + 1, first->latent->dim + 1, 3) ||
                       !same_dims(c + 1, first->caption->dim + 1, 2)))
        return err_set(err, ERR_DATA, "shard %s has samples of another shape than shard %s",
                       s->name, first->name);
    s->first = d->shape.samples;
    s->len = l[0];
    d->shape.samples += l[0];
    return 0;
}

static int shard_add(struct dataset *d, const char *path, struct err *err)
{
    struct shard *more = realloc(d->shards, sizeof(*more) * (size_t)(d->nshards + 1));
    if (!more)
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    d->shards = more;
    struct shard *s = &d->shards[d->nshards];
    *s = (struct shard){0};
    if (st_open(&s->file, path, err) < 0)
        return -1;
    const char *slash = strrchr(path, '/');
    s->name = strdup(slash ? slash + 1 : path);
    d->nshards++;
    if (!s->name)
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    return shard_check(d, s, err);
}

static int is_shard(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return e->d_name[0] != '.' && dot && strcmp(dot, ".safetensors") == 0;
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
        return err_set(err, ERR_DATA, "cannot read the data %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return shard_add(d, path, err);
    int n = scandir(path, &names, is_shard, by_name);
    for (int i = 0; i < n; i++) {
        char file[PACK_PATH];
        if (rc == 0 && snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name) >=
                           (int)sizeof(file))
            rc = err_set(err, ERR_DATA, "the path is too long: %.200s", path);
        if (rc == 0)
            rc = shard_add(d, file, err);
        free(names[i]);
    }
    free(names);
    if (rc == 0 && n <= 0)
        rc = err_set(err, ERR_DATA, "%s holds no shards (.safetensors)", path);
    return rc;
}

static float *copy_floats(const struct st_file *f, const char *name, size_t count, struct err *err)
{
    const struct st_tensor *t = st_find(f, name);
    float *x = malloc(sizeof(*x) * count);
    if (!x)
        err_set(err, ERR_MEMORY, "out of memory for '%s'", name);
    else if (!t || t->count != count || st_to_float(x, t, count, err) < 0) {
        err_set(err, ERR_DATA, "the pack has no '%s' of %zu numbers", name, count);
        free(x);
        x = NULL;
    }
    return x;
}

static int open_pack(struct dataset *d, const struct train_spec *s, const char *cache,
                     pack_tick_fn tick, void *arg, struct err *err)
{
    int built;
    if (pack_ensure(d->path, &built, s, cache, tick, arg, err) < 0 ||
        shard_add(d, d->path, err) < 0)
        return -1;
    const struct st_file *f = d->shards[0].file;
    size_t channels = (size_t)d->shards[0].latent->dim[1];
    d->packed_now = built;
    d->block = s->dct_block;
    d->mean = copy_floats(f, "mean", channels, err);
    d->deviation = d->mean ? copy_floats(f, "deviation", channels, err) : NULL;
    if (!d->deviation)
        return -1;
    const char *names = st_meta(f, "names"), *captions = st_meta(f, "captions");
    d->names = names ? json_loads(names, 0, NULL) : NULL;
    d->captions = captions ? json_loads(captions, 0, NULL) : NULL;
    if (json_array_size(d->names) != (size_t)d->shape.samples ||
        json_array_size(d->captions) != (size_t)d->shape.samples)
        return err_set(err, ERR_DATA, "%s: names or captions are missing; remove the file",
                       d->path);
    return 0;
}

static int digest_shards(struct dataset *d, struct err *err)
{
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    for (int i = 0; i < d->nshards; i++) {
        const struct shard *s = &d->shards[i];
        const char *contents = st_meta(s->file, "contents");
        if (contents) { /* a pack: its name depends on times, its contents do not */
            digest_add_text(sum, contents);
            continue;
        }
        digest_add_text(sum, s->name);
        digest_add(sum, s->latent->dim, sizeof(int64_t) * 4);
        digest_add(sum, s->caption->dim, sizeof(int64_t) * 3);
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

int dataset_open(struct dataset **out, const struct train_spec *s, const char *cache,
                 pack_tick_fn tick, void *arg, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    snprintf(d->path, sizeof(d->path), "%s", s->data_path);
    int rc = s->encoders == ENCODERS_FEATURES ? open_features(d, s->data_path, err)
                                              : open_pack(d, s, cache, tick, arg, err);
    if (rc == 0)
        rc = digest_shards(d, err);
    if (rc < 0) {
        dataset_close(d);
        return -1;
    }
    const struct shard *first = &d->shards[0];
    d->shape.channels = (int)first->latent->dim[1];
    d->shape.height = (int)first->latent->dim[2];
    d->shape.width = (int)first->latent->dim[3];
    d->shape.words = (int)first->caption->dim[1];
    d->shape.caption_channels = (int)first->caption->dim[2];
    *out = d;
    return 0;
}

static json_t *list_of(const float *x, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real((double)x[i]));
    return list;
}

json_t *dataset_codec(const struct dataset *d)
{
    const struct dataset_shape *s = &d->shape;
    if (d->block == 0)
        return NULL;
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "dct_block", d->block, "height",
                     s->height, "width", s->width, "caption_words", s->words, "caption_channels",
                     s->caption_channels, "mean", list_of(d->mean, s->channels), "deviation",
                     list_of(d->deviation, s->channels));
}

static int int_of(const json_t *o, const char *key)
{
    json_int_t x = json_integer_value(json_object_get(o, key));
    return x >= 1 && x <= 65536 ? (int)x : 0;
}

static float *floats_of(const json_t *list, int n)
{
    float *x = n > 0 && json_array_size(list) == (size_t)n ? calloc((size_t)n, sizeof(*x)) : NULL;
    for (int i = 0; x && i < n; i++)
        x[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    return x;
}

int dataset_from_codec(struct dataset **out, const json_t *codec, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    int b = int_of(codec, "dct_block");
    d->block = b <= 32 ? b : 0;
    d->shape = (struct dataset_shape){.channels = 3 * d->block * d->block,
                                      .height = int_of(codec, "height"),
                                      .width = int_of(codec, "width"),
                                      .words = int_of(codec, "caption_words"),
                                      .caption_channels = int_of(codec, "caption_channels")};
    d->mean = floats_of(json_object_get(codec, "mean"), d->shape.channels);
    d->deviation = floats_of(json_object_get(codec, "deviation"), d->shape.channels);
    if (!d->block || !d->shape.height || !d->shape.width || !d->shape.words ||
        !d->shape.caption_channels || !d->mean || !d->deviation) {
        dataset_close(d);
        return err_set(err, ERR_DATA, "the codec of this checkpoint is not readable");
    }
    *out = d;
    return 0;
}

struct dataset_shape dataset_shape(const struct dataset *d)
{
    return d->shape;
}

const char *dataset_path(const struct dataset *d)
{
    return d->path;
}

bool dataset_packed_now(const struct dataset *d)
{
    return d->packed_now;
}

const char *dataset_digest(const struct dataset *d)
{
    return d->digest;
}

static const struct shard *shard_of(const struct dataset *d, int64_t i)
{
    int lo = 0, hi = d->nshards - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (d->shards[mid].first <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &d->shards[lo];
}

const char *dataset_name(struct dataset *d, int64_t i)
{
    if (d->names)
        return json_string_value(json_array_get(d->names, (size_t)i));
    const struct shard *s = shard_of(d, i);
    snprintf(d->label, sizeof(d->label), "%.255s#%lld", s->name, (long long)(i - s->first));
    return d->label;
}

const char *dataset_caption(const struct dataset *d, int64_t i)
{
    const char *text = json_string_value(json_array_get(d->captions, (size_t)i));
    return text ? text : "";
}

/* Sample i of a tensor whose first dimension counts samples. */
static int copy_row(float *to, const struct st_tensor *all, int64_t i, struct err *err)
{
    if (!to)
        return 0;
    struct st_tensor row = *all;
    row.count = all->count / (size_t)all->dim[0];
    row.bytes = all->bytes / (size_t)all->dim[0];
    row.data = (const char *)all->data + (size_t)i * row.bytes;
    return st_to_float(to, &row, row.count, err);
}

int dataset_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask,
                struct err *err)
{
    if (i < 0 || i >= d->shape.samples)
        return err_set(err, ERR_BUG, "sample %lld of %lld", (long long)i,
                       (long long)d->shape.samples);
    const struct shard *s = shard_of(d, i);
    if (copy_row(latent, s->latent, i - s->first, err) < 0 ||
        copy_row(caption, s->caption, i - s->first, err) < 0 ||
        copy_row(mask, s->mask, i - s->first, err) < 0)
        return err_prefix(err, "shard %s: ", s->name);
    return 0;
}

int dataset_null(const struct dataset *d, float *tokens, struct err *err)
{
    const struct st_tensor *t = st_find(d->shards[0].file, "null");
    size_t n = (size_t)d->shape.words * (size_t)d->shape.caption_channels;
    if (t && t->count != n)
        return err_set(err, ERR_DATA, "shard %s: 'null' has %zu numbers, not %zu",
                       d->shards[0].name, t->count, n);
    if (t)
        return st_to_float(tokens, t, n, err);
    memset(tokens, 0, sizeof(*tokens) * n);
    return 0;
}

int dataset_picture(const struct dataset *d, struct image *out, const float *latent,
                    struct err *err)
{
    if (d->block == 0)
        return err_set(err, ERR_USAGE, "precomputed features cannot be decoded to pictures here");
    size_t hw = (size_t)d->shape.height * (size_t)d->shape.width;
    float *raw = malloc(sizeof(*raw) * (size_t)d->shape.channels * hw);
    if (!raw)
        return err_set(err, ERR_MEMORY, "out of memory to decode a picture");
    for (size_t c = 0; c < (size_t)d->shape.channels; c++)
        for (size_t k = 0; k < hw; k++)
            raw[c * hw + k] = latent[c * hw + k] * d->deviation[c] + d->mean[c];
    int rc = dct_decode(out, raw, d->block, d->shape.height, d->shape.width, err);
    free(raw);
    return rc;
}
