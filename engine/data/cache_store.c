/* SPDX-License-Identifier: Apache-2.0 */
/* cache_store.c - see cache_store.h */
#include "engine/data/cache_store.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"

struct place {
    struct cache_key key;
    int64_t          shard, row;
};

struct cache_store {
    char                *dir;
    struct cache_shard **shard;
    char               (*name)[CACHE_NAME];
    struct place        *place; /* by key */
    int64_t              shards, len, bytes;
};

/* --- list of files ------------------------------------------------------------------------ */

static bool is_shard(const char *name)
{
    const size_t n = strlen(name);
    return n == 16 + strlen(".safetensors") && strspn(name, "0123456789abcdef") == 16 &&
           strcmp(name + 16, ".safetensors") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int add_name(struct cache_store *s, const char *name, struct err *err)
{
    if ((s->shards & (s->shards - 1)) == 0) { /* room doubles at powers of two */
        const size_t room = s->shards ? 2 * (size_t)s->shards : 1;
        char(*more)[CACHE_NAME] = realloc(s->name, room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
        s->name = more;
    }
    snprintf(s->name[s->shards++], CACHE_NAME, "%s", name);
    return 0;
}

static int list_shards(struct cache_store *s, struct err *err)
{
    DIR *d = opendir(s->dir);
    struct dirent *e;
    int rc = d || errno == ENOENT ? 1 : err_set_errno(err, errno, "cannot read %s", s->dir);
    while (rc > 0 && (rc = dir_walk_next(&e, d, s->dir, err)) > 0)
        if (is_shard(e->d_name) && add_name(s, e->d_name, err) < 0)
            rc = -1;
    if (d)
        closedir(d);
    if (rc == 0 && s->shards > 1)
        qsort(s->name, (size_t)s->shards, sizeof(*s->name), by_name);
    return rc;
}

/* --- entries ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = memcmp(x->key.byte, y->key.byte, DIGEST_BYTES);
    if (order == 0)
        order = (x->shard > y->shard) - (x->shard < y->shard);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

/* Sorted, one of each key. */
static int index_entries(struct cache_store *s, struct err *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->shards; i++)
        n += cache_shard_len(s->shard[i]);
    if (!(s->place = malloc((size_t)(n + 1) * sizeof(*s->place))))
        return err_set(err, ERR_MEMORY, "out of memory for a list of %lld samples", (long long)n);
    for (int64_t i = 0, at = 0; i < s->shards; i++)
        for (int64_t row = 0; row < cache_shard_len(s->shard[i]); row++)
            s->place[at++] = (struct place){cache_shard_key(s->shard[i], row), i, row};
    qsort(s->place, (size_t)n, sizeof(*s->place), by_key);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || memcmp(s->place[i].key.byte, s->place[s->len - 1].key.byte, DIGEST_BYTES) != 0)
            s->place[s->len++] = s->place[i];
    return 0;
}

static int open_shard(struct cache_shard **out, const char *path, bool all, struct err *err)
{
    if (cache_shard_open(out, path, err) < 0)
        return -1;
    if (!all || cache_shard_check(*out, err) == 0)
        return 0;
    cache_shard_close(*out);
    return -1;
}

static void path_of(char path[PATH_MAX], const struct cache_store *s, int64_t shard)
{
    snprintf(path, PATH_MAX, "%s/%s", s->dir, s->name[shard]);
}

/* Drops the names of bad ones from the list. */
static int open_shards(struct cache_store *s, bool all, cache_bad_fn bad, void *arg, struct err *err)
{
    const int64_t listed = s->shards;
    if (!(s->shard = calloc((size_t)listed + 1, sizeof(struct cache_shard *))))
        return err_set(err, ERR_MEMORY, "out of memory for a list of shards");
    s->shards = 0;
    for (int64_t i = 0; i < listed; i++) {
        char path[PATH_MAX];
        struct err why = {0};
        path_of(path, s, i);
        if (open_shard(&s->shard[s->shards], path, all, &why) == 0) {
            s->bytes += (int64_t)cache_shard_bytes(s->shard[s->shards]);
            memmove(s->name[s->shards++], s->name[i], CACHE_NAME);
        } else if (why.code == ERR_MEMORY) {
            return err_set(err, ERR_MEMORY, "%s", why.text);
        } else if (bad) {
            bad(arg, path, why.text);
        }
    }
    return 0;
}

int cache_store_open(struct cache_store **out, const char *dir, bool all, cache_bad_fn bad, void *arg, struct err *err)
{
    struct cache_store *s = calloc(1, sizeof(*s));
    if (!s || !(s->dir = strdup(dir))) {
        free(s);
        return err_set(err, ERR_MEMORY, "out of memory for a cache of features");
    }
    if (list_shards(s, err) < 0 || open_shards(s, all, bad, arg, err) < 0 || index_entries(s, err) < 0) {
        cache_store_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void cache_store_close(struct cache_store *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->shard && i < s->shards; i++)
        cache_shard_close(s->shard[i]);
    free(s->shard);
    free(s->name);
    free(s->place);
    free(s->dir);
    free(s);
}

int64_t cache_store_bytes(const struct cache_store *s)
{
    return s->bytes;
}

int64_t cache_store_find(const struct cache_store *s, const struct cache_key *key)
{
    int64_t lo = 0, hi = s->len;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        const int order = memcmp(s->place[mid].key.byte, key->byte, DIGEST_BYTES);
        if (order == 0)
            return mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

size_t cache_store_count(const struct cache_store *s, int64_t entry)
{
    return cache_shard_count(s->shard[s->place[entry].shard], s->place[entry].row);
}

int cache_store_get(const struct cache_store *s, int64_t entry, float *x, struct err *err)
{
    const struct place *p = &s->place[entry];
    struct err why = {0};
    char path[PATH_MAX];
    if (cache_shard_get(s->shard[p->shard], p->row, x, &why) == 0)
        return 0;
    path_of(path, s, p->shard);
    unlink(path);
    return err_set(err, ERR_SYSTEM, "%s: %s; the file was removed, and the next start encodes its samples again", path,
                   why.text);
}
