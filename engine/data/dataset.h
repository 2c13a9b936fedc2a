/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - training samples by number, from pictures or shards of features
 *
 * A shard is a safetensors file with latent [N,C,H,W], caption [N,L,D] and mask [N,L]
 * (F32, F16 or BF16), and optionally null [L,D]; further shapes in the same file are
 * latent.1, caption.1, mask.1, latent.2 and so on.  All shards must agree in shape, except that
 * with multi_scale H and W may differ: the samples of one shape are a bucket.  Buckets
 * are ordered by H / W, then by H, and samples are numbered bucket by bucket; within a
 * bucket sample 0 is the first of the first file by name.  Files are mapped and
 * read on access.  Features may also be NumPy arrays: KEY.npy in tar shards, KEY.npz in a folder (collection.h).
 *
 * An encoded set (encoded_set.h) has entries of a cache instead: captions without padding, several per sample.
 */
#ifndef ENGINE_DATA_DATASET_H
#define ENGINE_DATA_DATASET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct encoded_set;
struct err;
struct image;
struct model_config;
struct train_spec;

struct dataset_shape {
    int64_t samples;
    int     channels, height, width; /* of the largest latent */
    int     buckets;
    int     words, caption_channels; /* of a caption */
};

/* Samples of one shape: first, first + 1, ... */
struct dataset_bucket {
    int64_t first, samples;
    int     height, width;
};

struct dataset;

/* True if `path` holds NumPy features in tar files: KEY.json, KEY.npy. */
bool dataset_has_tars(const char *path);
/* For encoders: features. ERR_USAGE: the latents are in tar files, and train.data.text_features, where their text rows
 * would be, is missing. */
int dataset_check_features(const struct train_spec *s, struct err *err);

/* Called after each picture; false stops the encoding (ERR_CONFLICT). */
typedef bool (*dataset_tick_fn)(void *arg, int64_t done, int64_t total);

/* Pictures (dct+hash) are encoded into memory; a picture that cannot be read is an ERR_DATA that names it.  `tick` may be
 * NULL. */
int dataset_open(struct dataset **out, const struct train_spec *s, dataset_tick_fn tick, void *arg, struct err *err);
/* Takes ownership of the set, even on failure. Without its cache only shapes and names are known: for a plan. */
int dataset_open_encoded(struct dataset **out, struct encoded_set *set, struct err *err);
void dataset_close(struct dataset *d);

struct dataset_shape dataset_shape(const struct dataset *d);
struct dataset_bucket dataset_bucket(const struct dataset *d, int bucket);
struct dataset_bucket dataset_bucket_of(const struct dataset *d, int64_t sample);
/* Digest of names and shapes, or of what was encoded: equal data has an equal digest. */
const char *dataset_digest(const struct dataset *d);
const char *dataset_name(struct dataset *d, int64_t i); /* file name, or "shard#i" until the
                                                         next call */
const char *dataset_caption(const struct dataset *d, int64_t i); /* "" if unknown */

/* latent [C,H,W] of its bucket, caption [L,D], mask [L]; each may be NULL. */
int dataset_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask, struct err *err);

/* What is drawn anew each time that a sample is used: one of its captions, and its latent if the autoencoder gives mean
 * and deviation. */
struct dataset_turn {
    uint64_t seed;
    uint32_t epoch;
};

/* As dataset_get(), which takes the first caption and the mean; `turn` may be NULL. */
int dataset_take(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent, float *caption,
                 float *mask, struct err *err);

/* Whether a dropped caption becomes the empty caption with its own length, as in Lumina's code; for other data it
 * keeps the length of the caption. */
bool dataset_drops_length(const struct dataset *d);

/* The settings needed to decode latents and to encode captions, to be stored in a checkpoint; and a data set without
 * samples made from them, for its shape and dataset_picture(). NULL for features. The caller owns the JSON. */
json_t *dataset_codec(const struct dataset *d);
int dataset_from_codec(struct dataset **out, const json_t *codec, struct err *err);

/* The null embedding [L,D]; zeros if the data has none. */
int dataset_null(const struct dataset *d, float *tokens, struct err *err);

/* caption [L,D], mask [L] of a text: by the built-in encoder, or from the cache of an encoded set, which has captions
 * and the spec's prompts. ERR_USAGE: the features come from another program. */
int dataset_text(const struct dataset *d, const char *text, float *caption, float *mask, struct err *err);

/* A latent as a picture: reverses standardisation and DCT. ERR_USAGE for features */
int dataset_picture(const struct dataset *d, struct image *out, const float *latent, int height,
                    int width, struct err *err);

#endif
