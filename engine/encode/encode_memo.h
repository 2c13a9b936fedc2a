/* SPDX-License-Identifier: Apache-2.0 */
/* encode_memo.h - keys of pictures by their names, sizes and times: an unchanged picture is not read again
 *
 * A safetensors file: identity [n, 16], key [n, 16], both U8, and size [n, 2], I64: height and width of the bucket.
 */
#ifndef ENGINE_ENCODE_ENCODE_MEMO_H
#define ENGINE_ENCODE_ENCODE_MEMO_H

#include <stdbool.h>

#include "engine/data/cache_shard.h"

struct err;
struct encode_memo;

struct encode_known {
    struct cache_key identity, key;
    int64_t          height, width;
};

/* One that cannot be read is empty. NULL: no memory. */
struct encode_memo *encode_memo_open(const char *path);
void encode_memo_close(struct encode_memo *m); /* also of NULL */
const struct encode_known *encode_memo_find(const struct encode_memo *m, const struct cache_key *identity);

/* Replaces the file, all or nothing. */
int encode_memo_write(const char *path, const struct encode_known *known, int64_t n, struct err *err);

#endif
