/* SPDX-License-Identifier: Apache-2.0 */
/* encode_internal.h - internals of the encoding of a data set, shared by encode*.c only */
#ifndef ENGINE_ENCODE_ENCODE_INTERNAL_H
#define ENGINE_ENCODE_ENCODE_INTERNAL_H

#include <jansson.h>
#include <limits.h>

#include "engine/collection/collection.h"
#include "engine/data/encoded_set.h"
#include "engine/encode/encode.h"
#include "engine/encode/encode_place.h"
#include "engine/files/safetensors.h"

/* An item to encode: a sample of the set, and the index of its caption. Instead of a sample: the empty caption, or the
 * prompt of this number. */
enum { ENCODE_EMPTY = -1, ENCODE_PROMPT = -2 };
struct encode_item {
    int64_t          sample;
    int32_t          caption;
    struct cache_key key;
};

struct encode_list {
    struct encode_item *item;
    int64_t             n;
};

struct encode {
    struct encoder_pair     encoders;
    struct collection_options options;
    struct encoded_set *set;
    char                cache[ENCODE_PLACE], latents[PATH_MAX], text[PATH_MAX];
    enum st_dtype       text_dtype;
    bool                bf16; /* the encoders round inputs of products (backend.h) */
    int64_t             shard; /* entries per file; 0: auto */
    const json_t       *prompts; /* of the spec (train.validate); NULL: none */
    struct encode_list  pictures, captions; /* that the cache lacks */
};

/* encode_keys.c: the collection of the spec, and the keys of its samples */
int encode_keys_open(struct encode *e, const struct train_spec *s, struct err *err);
int encode_keys_make(struct encode *e, bool look, encode_tick_fn tick, void *arg, struct err *err);
void encode_keys_dirs(struct encode *e);

#endif
