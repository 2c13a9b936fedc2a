/* SPDX-License-Identifier: Apache-2.0 */
/* encoded_set.h - samples whose latents and text rows are entries of a cache
 *
 * The entry of a picture is its latent [channels, height, width], or mean and deviation, one after the other
 * (`gaussian`). A caption's entry is its rows [n, width], n <= rows, of tokens only. The empty caption that takes the
 * place of a dropped one is an entry of all `rows`, padding included.
 */
#ifndef ENGINE_DATA_ENCODED_SET_H
#define ENGINE_DATA_ENCODED_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/data/cache_shard.h"

struct cache_store;
struct collection;

struct encoded_sample {
    struct cache_key picture;
    int64_t          number;        /* in the collection */
    int64_t          text;          /* of its first caption, in the set's list */
    int32_t          texts;
    int32_t          height, width; /* of the latent */
};

/* All of it is owned. */
struct encoded_set {
    struct encoded_sample *sample;
    struct cache_key      *text;    /* of captions, sample after sample */
    int64_t                samples, texts;
    int32_t                channels, rows, width;
    bool                   gaussian, short_null;
    struct collection     *collection;
    struct cache_store    *latents, *rows_of; /* NULL: not filled yet */
};

void encoded_set_free(struct encoded_set *s); /* accepts NULL */

/* The key of the empty caption with its padding. */
struct cache_key encoded_set_null(void);

/* Sorts samples by shape, as buckets are, then by number. */
void encoded_set_sort(struct encoded_set *s);

#endif
