/* SPDX-License-Identifier: Apache-2.0 */
/* encode.h - a data set of pictures and captions, encoded once into a cache that jobs share
 *
 *   CACHE/                    train.data.cache, or DATA.encoded
 *     latents-<16 digits>/    shards (engine/data/cache_shard.h) of one autoencoder, its precision, and one way to crop
 *     text-<16 digits>/       shards of one text encoder, its precision and options
 *     encoder-*.json, pictures-*.safetensors   digests of weights and pictures, by size and time of the files
 *     lock                    held by the job that fills it
 *
 * An entry's key is the digest of what it is computed from: a picture's bytes and size, or a caption's. So only added
 * pictures are encoded, equal pictures share an entry, and another option or encoder has another directory. Entries
 * that the cache lacks are cut into files in the order of the samples; a file appears whole. So the bytes are the same
 * with any number of ranks, and after any number of kills.
 *
 * The order of calls: open on all ranks; identify on the first, share; then survey, fill and survey again, until
 * nothing is missing; take.
 */
#ifndef ENGINE_ENCODE_ENCODE_H
#define ENGINE_ENCODE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/encode/encoder_pair.h"

struct dataset;
struct encode;
struct err;
struct train_spec;

enum encode_stage { ENCODE_KEYS, ENCODE_PICTURES, ENCODE_CAPTIONS };

/* This rank's progress in a stage; saved: entries in whole files, of all stages. */
struct encode_progress {
    enum encode_stage stage;
    int64_t           done, total, saved;
};

/* After each picture or caption of this rank; false stops (ERR_CONFLICT). May be NULL. */
typedef bool (*encode_tick_fn)(void *arg, const struct encode_progress *p);

/* Reads names, sizes and captions, and the kinds of the encoders. */
int encode_open(struct encode **out, const struct train_spec *s, struct err *err);
void encode_close(struct encode *e); /* accepts NULL */
/* The same for a plan only, even if encoders on a hub are not downloaded yet (encoder_pair.h). */
int encode_open_plan(struct encode **out, const struct train_spec *s, struct err *err);

const char *encode_cache(const struct encode *e); /* CACHE */

/* Computes all keys, and keeps in CACHE the keys that took long to compute. `look`, for a plan: nothing is written and
 * nothing computed for long; keys that are not in CACHE count as missing. */
int encode_identify(struct encode *e, bool look, encode_tick_fn tick, void *arg, struct err *err);

/* Sends the result of the first rank to the others; broadcast() sends its bytes to all. */
typedef int (*encode_broadcast_fn)(void *arg, void *data, size_t bytes);
int encode_share(struct encode *e, bool first, encode_broadcast_fn broadcast, void *arg, struct err *err);

/* How many entries the data set and the spec's prompts (train.validate) need, how many of those the cache lacks, and
 * the bytes of the present shards. */
struct encode_need {
    int64_t pictures, captions, no_pictures, no_captions;
    int64_t latent_bytes, text_bytes;
};

/* `remove`: damaged shards and temporary files of dead processes are removed. Damaged shards are reported to `bad` (or
 * NULL). Digests are compared in a cache of up to 4 GiB; in a larger one when an entry is read. */
typedef void (*encode_bad_fn)(void *arg, const char *path, const char *why);
int encode_survey(struct encode *e, bool remove, encode_bad_fn bad, void *arg, struct encode_need *need,
                  struct err *err);

/* Encodes part `part` of `parts` of what is missing: first pictures, then captions, with the autoencoder released. */
int encode_fill(struct encode *e, int part, int parts, encode_tick_fn tick, void *arg, struct err *err);

/* The data set. Without entries (a plan) it has shapes only. The rest of `e` is freed. */
int encode_take(struct encode *e, struct dataset **out, struct err *err);

/* The data set of a cache that a job has filled; nothing is computed or written. ERR_DATA if the cache lacks an entry,
 * as after a change of the data. */
int encode_open_filled(struct dataset **out, const struct train_spec *s, struct err *err);

#endif
