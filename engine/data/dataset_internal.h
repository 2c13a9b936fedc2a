/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_internal.h - internals of a data set, shared by dataset*.c only */
#ifndef ENGINE_DATA_DATASET_INTERNAL_H
#define ENGINE_DATA_DATASET_INTERNAL_H

#include "engine/base/digest.h"
#include "engine/data/dataset.h"
#include "engine/files/safetensors.h"

struct encoded_set;
struct dataset_arrays;
struct picture;
struct synthetic;

enum { DATASET_PATH = 4096 };

struct source {
    struct st_file *file;
    char           *name;
};

/* The samples of one shape in one file. */
struct shard {
    int                     source, group;
    const struct st_tensor *latent, *caption, *mask;
    int64_t                 first, len;
};

struct dataset {
    struct source         *sources;
    struct shard          *shards;
    struct dataset_bucket *buckets;
    int                    nsources, nshards;
    bool                   multi_scale;
    struct dataset_shape   shape;
    char                 digest[DIGEST_TEXT];
    int                  block;            /* 0: features */
    struct synthetic    *synthetic;        /* or NULL */
    struct encoded_set  *encoded;          /* or NULL */
    struct dataset_arrays *arrays;         /* or NULL */
    struct picture      *pictures;         /* or NULL */
    int64_t              npictures;
    float               *mean, *deviation;
    char                 label[320];       /* last dataset_name() of a shard */
};

/* dataset_bucket.c: adds a bucket of `samples` samples; the flattest bucket comes first. The data set's shape is the
 * largest, and of equally large ones the nearest to a square. */
int dataset_bucket_add(struct dataset *d, int64_t samples, int64_t height, int64_t width, struct err *err);

/* dataset_pictures.c: pictures encoded by DCT */
int dataset_pictures_open(struct dataset *d, const struct train_spec *s, dataset_tick_fn tick, void *arg, struct err *err);
void dataset_pictures_close(struct dataset *d);
void dataset_pictures_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask);
const char *dataset_pictures_name(const struct dataset *d, int64_t i);
const char *dataset_pictures_caption(const struct dataset *d, int64_t i);

/* dataset_arrays.c: NumPy features, in tar shards */
int dataset_arrays_open(struct dataset *d, const struct train_spec *s, struct err *err);
void dataset_arrays_close(struct dataset_arrays *a); /* NULL is allowed */
int dataset_arrays_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask, struct err *err);
const char *dataset_arrays_name(struct dataset *d, int64_t i);

/* The order of buckets: by H / W, then by H. */
static inline int64_t dataset_shape_order(int64_t h, int64_t w, int64_t other_h, int64_t other_w)
{
    const int64_t order = h * other_w - other_h * w;
    return order ? order : h - other_h;
}

static inline const char *shard_name(const struct dataset *d, const struct shard *s)
{
    return d->sources[s->source].name;
}

/* dataset_encoded.c: samples of an encoded set */
int dataset_encoded_get(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent,
                        float *caption, float *mask, struct err *err);
int dataset_encoded_text(const struct dataset *d, const char *text, float *caption, float *mask, struct err *err);
int dataset_encoded_null(const struct dataset *d, float *tokens, struct err *err);
const char *dataset_encoded_name(struct dataset *d, int64_t i);

#endif
