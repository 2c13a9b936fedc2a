/* SPDX-License-Identifier: Apache-2.0 */
/* cache_store.h - a directory of shards of features: entries by key
 *
 * Shards may be added while a store is open; the store has the shards of the time when it was opened. An entry that is
 * in two shards has the same numbers in both.
 */
#ifndef ENGINE_DATA_CACHE_STORE_H
#define ENGINE_DATA_CACHE_STORE_H

#include <stdbool.h>

#include "engine/data/cache_shard.h"

struct cache_store;

/* A shard that cannot be used counts as missing. */
typedef void (*cache_bad_fn)(void *arg, const char *path, const char *why);

/* `all`: the digests of all entries are compared, not only those that are read later. A directory that does not exist
 * has no shards. `bad` may be NULL. */
int cache_store_open(struct cache_store **out, const char *dir, bool all, cache_bad_fn bad, void *arg, struct err *err);
void cache_store_close(struct cache_store *s); /* accepts NULL */

int64_t cache_store_bytes(const struct cache_store *s);  /* of the numbers of all shards */

/* An entry's number, or -1. */
int64_t cache_store_find(const struct cache_store *s, const struct cache_key *key);
size_t cache_store_count(const struct cache_store *s, int64_t entry); /* of numbers */
/* The entry's floats. ERR_SYSTEM if it is damaged: the shard is removed, so that the next start makes it again. */
int cache_store_get(const struct cache_store *s, int64_t entry, float *x, struct err *err);

#endif
