/* SPDX-License-Identifier: Apache-2.0 */
/* cache_shard.c - see cache_shard.h */
#include "engine/data/cache_shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "kernels/bf16.h"

#define FORMAT "jobctl-cache-1"

struct cache_shard {
    struct st_file         *file;
    const struct st_tensor *numbers, *key, *digest;
    int64_t                *first; /* [n + 1] */
    int64_t                 n;
};

/* --- writing ------------------------------------------------------------------------------ */

void cache_shard_name(char name[CACHE_NAME], const struct cache_entry *e, int64_t n)
{
    unsigned char sum[DIGEST_BYTES] = {0};
    unsigned char both[2 * DIGEST_BYTES];
    for (int64_t i = 0; i < n; i++) {
        memcpy(both, sum, DIGEST_BYTES);
        memcpy(both + DIGEST_BYTES, e[i].key.byte, DIGEST_BYTES);
        digest_raw(sum, both, sizeof(both));
    }
    for (int i = 0; i < 8; i++)
        snprintf(name + (size_t)(2 * i), 3, "%02x", sum[i]);
    snprintf(name + 16, CACHE_NAME - 16, ".safetensors");
}

/* What a file is made of. */
struct body {
    unsigned char *numbers, *keys, *digests;
    int64_t       *first;
    int64_t        n, count;
    size_t         each; /* bytes of a number */
};

static void put_numbers(unsigned char *to, enum st_dtype dtype, const struct cache_entry *e)
{
    if (dtype == ST_F32) {
        memcpy(to, e->x, e->n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < e->n; i++) {
        const uint16_t half = bf16_of(e->x[i]);
        memcpy(to + 2 * i, &half, sizeof(half));
    }
}

static void body_free(struct body *b)
{
    free(b->numbers);
    free(b->keys);
    free(b->digests);
    free(b->first);
}

static int body_make(struct body *b, enum st_dtype dtype, const struct cache_entry *e, int64_t n, struct err *err)
{
    *b = (struct body){.n = n, .each = st_dtype_size(dtype)};
    for (int64_t i = 0; i < n; i++)
        b->count += (int64_t)e[i].n;
    b->numbers = malloc((size_t)b->count * b->each);
    b->keys = malloc((size_t)n * DIGEST_BYTES);
    b->digests = malloc((size_t)n * DIGEST_BYTES);
    b->first = calloc((size_t)n + 1, sizeof(*b->first));
    if (!b->numbers || !b->keys || !b->digests || !b->first)
        return err_set(err, ERR_MEMORY, "out of memory for a shard of %lld samples", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        unsigned char *at = b->numbers + (size_t)b->first[i] * b->each;
        b->first[i + 1] = b->first[i] + (int64_t)e[i].n;
        put_numbers(at, dtype, &e[i]);
        memcpy(b->keys + i * DIGEST_BYTES, e[i].key.byte, DIGEST_BYTES);
        digest_raw(b->digests + i * DIGEST_BYTES, at, e[i].n * b->each);
    }
    return 0;
}

static int describe(struct st_writer *w, enum st_dtype dtype, const struct body *b, struct err *err)
{
    const int64_t count[] = {b->count}, firsts[] = {b->n + 1}, sums[] = {b->n, DIGEST_BYTES};
    if (st_writer_meta(w, "format", FORMAT, err) < 0 ||
        st_writer_add(w, "numbers", dtype, 1, count, b->numbers, err) < 0 ||
        st_writer_add(w, "first", ST_I64, 1, firsts, b->first, err) < 0 ||
        st_writer_add(w, "key", ST_U8, 2, sums, b->keys, err) < 0)
        return -1;
    return st_writer_add(w, "digest", ST_U8, 2, sums, b->digests, err);
}

/* Under a temporary name, synced, then renamed. */
static int publish(struct st_writer *w, const char *path, struct err *err)
{
    char tmp[SCRATCH_PATH];
    int64_t bytes;
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    int rc = st_writer_write(w, fd, &bytes, err);
    if (rc == 0 && (fsync(fd) < 0 || rename(tmp, path) < 0))
        rc = err_set_errno(err, errno, "cannot write %s", path);
    close(fd);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

int cache_shard_write(const char *dir, enum st_dtype dtype, const struct cache_entry *e, int64_t n, struct err *err)
{
    char path[SCRATCH_PATH], name[CACHE_NAME];
    struct st_writer *w = NULL;
    struct body b = {0};
    cache_shard_name(name, e, n);
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    int rc = body_make(&b, dtype, e, n, err);
    if (rc == 0)
        rc = st_writer_create(&w, err);
    if (rc == 0)
        rc = describe(w, dtype, &b, err);
    if (rc == 0)
        rc = publish(w, path, err);
    st_writer_destroy(w);
    body_free(&b);
    return rc;
}

/* --- reading ------------------------------------------------------------------------------ */

static const struct st_tensor *find(const struct st_file *f, const char *name, enum st_dtype dtype, int64_t n,
                                    int64_t each)
{
    const struct st_tensor *t = st_find(f, name);
    return t && t->dtype == dtype && t->ndim > 0 && t->dim[0] == n && t->count == (size_t)(n * each) ? t : NULL;
}

/* first[] rises from 0 to the number of numbers. */
static int read_first(struct cache_shard *s, const struct st_tensor *first)
{
    if (!(s->first = malloc(first->bytes)))
        return -1;
    memcpy(s->first, first->data, first->bytes);
    for (int64_t i = 0; i < s->n; i++)
        if (s->first[i + 1] <= s->first[i] || s->first[i + 1] > (int64_t)s->numbers->count)
            return -1;
    return s->first[0] == 0 && s->first[s->n] == (int64_t)s->numbers->count ? 0 : -1;
}

static int read_all(struct cache_shard *s)
{
    const struct st_tensor *first = st_find(s->file, "first");
    s->numbers = st_find(s->file, "numbers");
    if (!first || first->dtype != ST_I64 || first->count < 2 || !s->numbers ||
        (s->numbers->dtype != ST_F32 && s->numbers->dtype != ST_BF16))
        return -1;
    s->n = (int64_t)first->count - 1;
    s->key = find(s->file, "key", ST_U8, s->n, DIGEST_BYTES);
    s->digest = find(s->file, "digest", ST_U8, s->n, DIGEST_BYTES);
    return s->key && s->digest ? read_first(s, first) : -1;
}

int cache_shard_open(struct cache_shard **out, const char *path, struct err *err)
{
    struct cache_shard *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for a shard");
    int rc = st_open(&s->file, path, err);
    if (rc == 0 && (!st_meta(s->file, "format") || strcmp(st_meta(s->file, "format"), FORMAT) != 0 || read_all(s) < 0))
        rc = err_set(err, ERR_DATA, "%s is not a whole shard of a cache of features", path);
    if (rc < 0) {
        cache_shard_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void cache_shard_close(struct cache_shard *s)
{
    if (!s)
        return;
    st_close(s->file);
    free(s->first);
    free(s);
}

int64_t cache_shard_len(const struct cache_shard *s)
{
    return s->n;
}

struct cache_key cache_shard_key(const struct cache_shard *s, int64_t i)
{
    struct cache_key k;
    memcpy(k.byte, (const unsigned char *)s->key->data + i * DIGEST_BYTES, DIGEST_BYTES);
    return k;
}

size_t cache_shard_count(const struct cache_shard *s, int64_t i)
{
    return (size_t)(s->first[i + 1] - s->first[i]);
}

size_t cache_shard_bytes(const struct cache_shard *s)
{
    return s->numbers->bytes;
}

static int check_entry(const struct cache_shard *s, int64_t i, struct err *err)
{
    unsigned char sum[DIGEST_BYTES];
    const size_t each = st_dtype_size(s->numbers->dtype);
    digest_raw(sum, (const unsigned char *)s->numbers->data + (size_t)s->first[i] * each,
               cache_shard_count(s, i) * each);
    if (memcmp(sum, (const unsigned char *)s->digest->data + i * DIGEST_BYTES, DIGEST_BYTES) == 0)
        return 0;
    return err_set(err, ERR_DATA, "entry %lld is damaged: its bytes have another digest", (long long)i);
}

int cache_shard_get(const struct cache_shard *s, int64_t i, float *x, struct err *err)
{
    if (check_entry(s, i, err) < 0)
        return -1;
    return st_range_to_float(x, s->numbers, (size_t)s->first[i], cache_shard_count(s, i), err);
}

int cache_shard_check(const struct cache_shard *s, struct err *err)
{
    for (int64_t i = 0; i < s->n; i++)
        if (check_entry(s, i, err) < 0)
            return -1;
    return 0;
}
