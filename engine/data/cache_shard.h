/* SPDX-License-Identifier: Apache-2.0 */
/* cache_shard.h - one file of a feature cache: entries of any length, each with a key and a digest
 *
 * A safetensors file:
 *
 *   numbers [N]       F32 or BF16: the entries one after the other
 *   first   [n + 1]   I64: entry i is numbers[first[i]] to numbers[first[i + 1]]
 *   key     [n, 16]   U8: what entry i was computed from
 *   digest  [n, 16]   U8: XXH3 (128 bits) of the entry's bytes
 *
 * The file's name is made of its keys, so that the same entries have the same name and, since encoders are
 * deterministic, the same bytes, whoever writes them.  It appears whole or not at all.
 */
#ifndef ENGINE_DATA_CACHE_SHARD_H
#define ENGINE_DATA_CACHE_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/digest.h"
#include "engine/files/safetensors.h"

struct err;

struct cache_key {
    unsigned char byte[DIGEST_BYTES];
};

struct cache_entry {
    struct cache_key key;
    const float     *x;
    size_t           n; /* at least 1 */
};

enum { CACHE_NAME = 40 };

/* The name of the file that has these entries: "0123456789abcdef.safetensors". */
void cache_shard_name(char name[CACHE_NAME], const struct cache_entry *e, int64_t n);

/* Numbers are stored as `dtype`, ST_F32 or ST_BF16 (rounded to the nearest, ties to even). */
int cache_shard_write(const char *dir, enum st_dtype dtype, const struct cache_entry *e, int64_t n, struct err *err);

struct cache_shard;

/* ERR_DATA: no such file, or damaged; only what is needed to find entries is read. */
int cache_shard_open(struct cache_shard **out, const char *path, struct err *err);
void cache_shard_close(struct cache_shard *s); /* accepts NULL */

int64_t cache_shard_len(const struct cache_shard *s);
struct cache_key cache_shard_key(const struct cache_shard *s, int64_t i);
size_t cache_shard_count(const struct cache_shard *s, int64_t i); /* of numbers */
size_t cache_shard_bytes(const struct cache_shard *s);            /* of all numbers */

/* Entry i as floats, cache_shard_count() of them. ERR_DATA: its bytes have another digest. */
int cache_shard_get(const struct cache_shard *s, int64_t i, float *x, struct err *err);
/* Compares the digests of all entries. */
int cache_shard_check(const struct cache_shard *s, struct err *err);

#endif
