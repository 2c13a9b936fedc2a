/* SPDX-License-Identifier: Apache-2.0 */
/* collection_shards.c - samples in tar files, as WebDataset keeps them
 *
 * Follows the rules of wids, which Sana's readers use: the members of a sample share a name up to the last dot of its
 * last component; samples are in the order of their keys' first occurrences; the shards are in the order of
 * wids-meta.json, which gives the first "nsamples" of each. Among pictures, .png is preferred. KEY.txt, which their
 * reader ignores, is the caption where KEY.json has no "prompt".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/text_append.h"
#include "engine/collection/collection_internal.h"
#include "engine/files/tar_index.h"
#include "engine/image/image.h"

enum { MEMBER_MAX = 256 << 20 };

/* An open shard. */
struct open_shard {
    struct tar_index tar;
    int              fd;
    int64_t          mtime_ns;
};

static ssize_t read_file(void *arg, void *to, size_t n, int64_t at)
{
    return pread(*(const int *)arg, to, n, at);
}

static int shard_open(struct open_shard *s, const char *path, struct err *err)
{
    struct stat st;
    s->fd = safe_open_linked(path, O_RDONLY, err);
    if (s->fd < 0)
        return -1;
    if (fstat(s->fd, &st) < 0) {
        err_set_errno(err, errno, "%s cannot be read", path);
        close(s->fd);
        return -1;
    }
    s->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    s->tar = (struct tar_index){.read = read_file, .arg = &s->fd, .size = st.st_size};
    return 0;
}

/* --- samples ------------------------------------------------------------------------------ */

static const struct collection_shard *shard_of(const struct collection *c, int64_t i)
{
    return &c->shards[c->members[i].shard];
}

/* Path in the directory, for people. */
static const char *shard_name(const struct collection *c, const struct collection_shard *s)
{
    const size_t n = strlen(c->path);
    return strncmp(s->path, c->path, n) == 0 && s->path[n] == '/' ? s->path + n + 1 : s->path;
}

/* The bytes of a member, with a NUL behind them. `block`: as it is stored. */
static int load_member(struct collection_bytes *out, const struct collection *c, const struct collection_shard *shard,
                       uint32_t block, struct err *err)
{
    struct open_shard s;
    struct tar_member m;
    struct err why = {0};
    *out = (struct collection_bytes){0};
    if (shard_open(&s, shard->path, err) < 0)
        return -1;
    int rc = tar_index_at(&s.tar, &m, (int64_t)(block - 1) * TAR_BLOCK, &why);
    if (rc == 0 && m.size > MEMBER_MAX)
        rc = err_set(&why, ERR_DATA, "%s has more than 256 MiB", m.name);
    if (rc == 0) {
        out->name = collection_text(&why, "%s/%s", shard_name(c, shard), m.name);
        out->at = calloc(1, (size_t)m.size + 1);
        out->size = (size_t)m.size;
        out->mtime_ns = s.mtime_ns;
        if (!out->at || !out->name)
            rc = err_set(&why, ERR_MEMORY, "out of memory for a member");
        else if (pread(s.fd, out->at, out->size, m.data) != (ssize_t)out->size)
            rc = err_set(&why, ERR_DATA, "%s cannot be read whole", m.name);
    }
    close(s.fd);
    if (rc < 0 && err) {
        *err = why;
        err_prefix(err, "%s: ", shard->path);
    }
    return rc;
}

static uint32_t content_of(const struct collection *c, int64_t i)
{
    return c->o.latents ? c->members[i].latent : c->members[i].picture;
}

static int load_shards(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err)
{
    const uint32_t block = content_of(c, i);
    *out = (struct collection_bytes){0};
    if (block == COLLECTION_NO_MEMBER)
        return err_set(err, ERR_DATA, "sample %lld of %s has no %s", (long long)(i - shard_of(c, i)->first),
                       shard_of(c, i)->path, c->o.latents ? ".npy" : ".png, .jpg, .jpeg or .webp");
    return load_member(out, c, shard_of(c, i), block, err);
}

/* Sets name, key and where from the name of a member, once. */
static int name_by(struct collection_sample *s, const struct collection *c, const struct collection_shard *shard,
                   const char *member, struct err *err)
{
    const size_t skip = strlen(shard_name(c, shard)) + 1; /* "SHARD/" */
    free(s->where);
    s->where = strdup(member);
    if (!s->key) {
        s->key = collection_text(err, "%.*s", (int)collection_stem(member + skip), member + skip);
        s->name = s->key ? collection_text(err, "%s/%s", shard_name(c, shard), s->key) : NULL;
    }
    return s->where && s->key && s->name ? 0 : err_set(err, ERR_MEMORY, "out of memory for a sample");
}

/* KEY.json; *own is NULL if there is none. */
static int describe_json(struct collection_sample *s, const struct collection *c, int64_t i, json_t **own,
                         struct err *err)
{
    struct collection_bytes b = {0};
    json_error_t why;
    if (c->members[i].json == COLLECTION_NO_MEMBER)
        return 0;
    int rc = load_member(&b, c, shard_of(c, i), c->members[i].json, err);
    if (rc == 0)
        rc = name_by(s, c, shard_of(c, i), b.name, err);
    if (rc == 0 && !(*own = json_loadb(b.at, b.size, 0, &why)))
        rc = err_set(err, ERR_DATA, "%s:%d: not JSON: %s", b.name, why.line, why.text);
    if (rc == 0 && !json_is_object(*own))
        rc = err_set(err, ERR_DATA, "%s: expected {\"height\": ..., \"width\": ..., \"prompt\": ...}", b.name);
    const json_t *prompt = json_object_get(*own, "prompt");
    if (rc == 0 && prompt && !json_is_string(prompt) && !json_is_null(prompt))
        rc = err_set(err, ERR_DATA, "%s: \"prompt\" is not a text", b.name);
    if (rc == 0) {
        collection_label(s, *own);
        rc = prompt ? collection_add_caption(s, "prompt", json_is_null(prompt) ? "" : json_string_value(prompt), err) : 0;
    }
    collection_bytes_free(&b);
    return rc;
}

static int describe_txt(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_bytes b = {0};
    if (s->captions > 0 || c->members[i].text == COLLECTION_NO_MEMBER)
        return 0;
    int rc = load_member(&b, c, shard_of(c, i), c->members[i].text, err);
    if (rc == 0)
        rc = name_by(s, c, shard_of(c, i), b.name, err);
    if (rc == 0) {
        collection_trim(b.at);
        rc = collection_add_caption(s, "prompt", b.at, err);
    }
    collection_bytes_free(&b);
    return rc;
}

/* Name, size and time of the picture or latent, without reading it. */
static int describe_content(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    const struct collection_shard *shard = shard_of(c, i);
    const uint32_t block = content_of(c, i);
    struct open_shard open;
    struct tar_member m;
    struct err why = {0};
    if (block == COLLECTION_NO_MEMBER)
        return 0;
    if (shard_open(&open, shard->path, err) < 0)
        return -1;
    int rc = tar_index_at(&open.tar, &m, (int64_t)(block - 1) * TAR_BLOCK, &why);
    close(open.fd);
    if (rc < 0) {
        if (err)
            *err = why;
        return err_prefix(err, "%s: ", shard->path);
    }
    char *name = collection_text(err, "%s/%s", shard_name(c, shard), m.name);
    rc = name ? name_by(s, c, shard, name, err) : -1;
    free(name);
    s->bytes = m.size;
    s->mtime_ns = open.mtime_ns;
    return rc;
}

static int check_parts(const struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    if (content_of(c, i) == COLLECTION_NO_MEMBER)
        return err_set(err, ERR_DATA, "%s has no %s beside it", s->where,
                       c->o.latents ? ".npy" : ".png, .jpg, .jpeg or .webp");
    if (s->captions == 0)
        return err_set(err, ERR_DATA, "%s has no caption: no .json with a \"prompt\" and no .txt", s->where);
    return 0;
}

/* A key whose members are all of other types has a place in the order and nothing else. */
static int name_by_number(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    if (s->key)
        return 0;
    s->name = collection_text(err, "%s/#%lld", shard_name(c, shard_of(c, i)), (long long)s->number);
    s->where = s->name ? strdup(s->name) : NULL;
    s->key = s->name ? strdup("") : NULL;
    return s->where && s->key ? 0 : -1;
}

static int describe_shards(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    json_t *own = NULL;
    s->number = i - shard_of(c, i)->first;
    int rc = describe_json(s, c, i, &own, err);
    if (rc == 0)
        rc = describe_txt(s, c, i, err);
    if (rc == 0)
        rc = describe_content(s, c, i, err);
    if (rc == 0)
        rc = name_by_number(s, c, i, err);
    if (rc == 0)
        rc = collection_add_side_files(s, c, i, own, err);
    if (rc == 0)
        rc = check_parts(s, c, i, err);
    json_decref(own);
    return rc;
}

/* The shard's path with every ".tar" replaced, also in names of folders: as their reader does. */
static char *side_of(const struct collection *c, int64_t i, const struct collection_sample *s, const char *suffix,
                     struct err *err)
{
    const char *from = shard_of(c, i)->path;
    char *to = collection_text(err, "%s", "");
    (void)s;
    while (to && *from) {
        const char *tar = strstr(from, ".tar");
        char *more = tar ? collection_text(err, "%s%.*s%s.json", to, (int)(tar - from), from, suffix)
                         : collection_text(err, "%s%s", to, from);
        free(to);
        to = more;
        from = tar ? tar + 4 : from + strlen(from);
    }
    return to;
}

const struct collection_kind collection_shards_kind = {describe_shards, load_shards, side_of};

/* Keys of one shard while it is read. */
struct keys {
    char     *names;  /* one after the other, each with a NUL */
    size_t    len, room;
    uint32_t *at;     /* of key k in `names` */
    uint32_t *slot;   /* hash table of k + 1; 0: free */
    size_t    slots;  /* a power of two */
    int64_t   n;
};

static void keys_free(struct keys *k)
{
    free(k->names);
    free(k->at);
    free(k->slot);
}

static size_t slot_of(const struct keys *k, const char *key, size_t n)
{
    size_t i = (size_t)digest_word(key, n, 0) & (k->slots - 1);
    while (k->slot[i]) {
        const char *name = k->names + k->at[k->slot[i] - 1];
        if (strlen(name) == n && memcmp(name, key, n) == 0)
            break;
        i = (i + 1) & (k->slots - 1);
    }
    return i;
}

static int keys_grow(struct keys *k, struct err *err)
{
    struct keys more = *k;
    if ((size_t)(k->n + 1) * 2 <= k->slots)
        return 0;
    more.slots = k->slots ? k->slots * 2 : 64;
    more.slot = calloc(more.slots, sizeof(*more.slot));
    if (!more.slot)
        return err_set(err, ERR_MEMORY, "out of memory for %zu keys", more.slots);
    for (int64_t i = 0; i < k->n; i++)
        more.slot[slot_of(&more, k->names + k->at[i], strlen(k->names + k->at[i]))] = (uint32_t)i + 1;
    free(k->slot);
    *k = more;
    return 0;
}

static int keys_keep(struct keys *k, const char *key, size_t n, struct err *err)
{
    uint32_t *at = collection_grow(k->at, k->n, sizeof(*at), err);
    k->at = at ? at : k->at;
    if (!at)
        return -1;
    if (k->len + n + 1 > k->room) {
        const size_t room = (k->len + n + 1) * 2;
        char *names = room < UINT32_MAX ? realloc(k->names, room) : NULL;
        if (!names)
            return err_set(err, ERR_MEMORY, "out of memory for keys of %zu bytes", room);
        k->names = names;
        k->room = room;
    }
    memcpy(k->names + k->len, key, n);
    k->names[k->len + n] = '\0';
    k->at[k->n++] = (uint32_t)k->len;
    k->len += n + 1;
    return 0;
}

/* The number of a key, which is new if it is n. -1: no memory. */
static int64_t keys_find(struct keys *k, const char *key, size_t n, struct err *err)
{
    if (keys_grow(k, err) < 0)
        return -1;
    const size_t i = slot_of(k, key, n);
    if (!k->slot[i] && keys_keep(k, key, n, err) < 0)
        return -1;
    if (!k->slot[i])
        k->slot[i] = (uint32_t)k->n;
    return k->slot[i] - 1;
}

/* --- one shard ---------------------------------------------------------------------------- */

/* Of pictures the first of this list. */
static const char *const picture_ends[] = {".png", ".jpg", ".jpeg", ".webp"};
enum { PICTURE_ENDS = sizeof(picture_ends) / sizeof(picture_ends[0]) };

/* A shard while it is read. */
struct scan {
    struct collection       *c;
    struct collection_shard *shard;
    struct keys              keys;
    unsigned char           *rank; /* of the picture of each key: 1 + its place in picture_ends */
};

static int add_key(struct scan *s, struct err *err)
{
    struct collection *c = s->c;
    struct collection_member *m = collection_grow(c->members, c->len, sizeof(*m), err);
    c->members = m ? m : c->members;
    unsigned char *rank = m ? collection_grow(s->rank, s->shard->len, 1, err) : NULL;
    s->rank = rank ? rank : s->rank;
    if (!rank)
        return -1;
    s->rank[s->shard->len++] = 0;
    c->members[c->len++] = (struct collection_member){.shard = (uint32_t)(s->shard - c->shards)};
    return 0;
}

static int twice(const char *name, struct err *err)
{
    return err_set(err, ERR_DATA, "%s occurs twice", name);
}

static int put(uint32_t *to, uint32_t block, const char *name, struct err *err)
{
    if (*to != COLLECTION_NO_MEMBER)
        return twice(name, err);
    *to = block;
    return 0;
}

static int put_picture(struct scan *s, int64_t k, int rank, uint32_t block, const char *name, struct err *err)
{
    uint32_t *to = &s->c->members[s->shard->first + k].picture;
    if (s->rank[k] == rank)
        return twice(name, err);
    if (s->rank[k] && s->rank[k] < rank)
        return 0;
    s->rank[k] = (unsigned char)rank;
    *to = block;
    return 0;
}

static int put_member(struct scan *s, int64_t k, const char *end, uint32_t block, const char *name, struct err *err)
{
    struct collection_member *m = &s->c->members[s->shard->first + k];
    if (strcmp(end, ".json") == 0)
        return put(&m->json, block, name, err);
    if (strcmp(end, ".npy") == 0)
        return put(&m->latent, block, name, err);
    if (strcmp(end, ".txt") == 0)
        return put(&m->text, block, name, err);
    for (int i = 0; i < PICTURE_ENDS; i++)
        if (strcmp(end, picture_ends[i]) == 0)
            return put_picture(s, k, i + 1, block, name, err);
    return 0;
}

static int add_member(struct scan *s, const struct tar_member *m, struct err *err)
{
    const int64_t block = m->header / TAR_BLOCK + 1;
    const size_t n = collection_stem(m->name);
    if (block > UINT32_MAX)
        return err_set(err, ERR_DATA, "a shard may have at most 2 TiB");
    const int64_t k = keys_find(&s->keys, m->name, n, err);
    if (k < 0 || (k == s->shard->len && add_key(s, err) < 0))
        return -1;
    return put_member(s, k, m->name + n, (uint32_t)block, m->name, err);
}

/* An error that is one of this shard keeps what was read before it. */
static int scan_members(struct scan *s, int fd, int64_t size, struct err *err)
{
    struct tar_index tar = {.read = read_file, .arg = &fd, .size = size};
    struct tar_member *m = malloc(sizeof(*m));
    int rc = m ? 1 : err_set(err, ERR_MEMORY, "out of memory for a shard");
    while (rc > 0 && (rc = tar_index_next(&tar, m, err)) > 0)
        if (add_member(s, m, err) < 0)
            rc = -1;
    free(m);
    return rc;
}

static int scan_file(struct scan *s, struct err *err)
{
    struct stat st;
    const int fd = safe_open_linked(s->shard->path, O_RDONLY, err);
    if (fd < 0 && err && err->code == ERR_NOT_FOUND)
        err->code = ERR_DATA;
    if (fd < 0)
        return -1;
    int rc = fstat(fd, &st) < 0 ? err_set_errno(err, errno, "cannot be read") : 0;
    if (rc == 0) {
        s->shard->bytes = st.st_size;
        s->shard->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        rc = scan_members(s, fd, st.st_size, err);
    }
    close(fd);
    return rc < 0 ? err_prefix(err, "%s: ", s->shard->path) : 0;
}

/* wids-meta.json: so many samples; the keys beyond them are never asked for by their reader. */
static int check_count(struct scan *s, int64_t listed, struct err *err)
{
    const int64_t found = s->shard->len;
    if (listed < 0 || listed == found)
        return 0;
    if (found > listed) {
        s->c->len -= found - listed;
        s->shard->len = listed;
    }
    err_set(err, ERR_DATA, "%s holds %lld keys, but wids-meta.json says %lld samples", s->shard->path, (long long)found,
            (long long)listed);
    return collection_bad(s->c, strrchr(s->shard->path, '/') + 1, err);
}

/* `listed`: nsamples, or -1. */
static int add_shard(struct collection *c, char *path, int64_t listed, struct err *err)
{
    struct collection_shard *more = path ? collection_grow(c->shards, c->nshards, sizeof(*more), err) : NULL;
    if (!more) {
        free(path);
        return -1;
    }
    c->shards = more;
    c->shards[c->nshards++] = (struct collection_shard){.path = path, .first = c->len};
    struct scan s = {.c = c, .shard = &c->shards[c->nshards - 1]};
    int rc = scan_file(&s, err);
    if (rc < 0)
        rc = collection_bad(c, strrchr(path, '/') ? strrchr(path, '/') + 1 : path, err);
    if (rc == 0)
        rc = check_count(&s, listed, err);
    keys_free(&s.keys);
    free(s.rank);
    return rc;
}

/* --- all of them -------------------------------------------------------------------------- */

static int add_listed(struct collection *c, const json_t *row, size_t i, struct err *err)
{
    const char *url = json_string_value(json_object_get(row, "url"));
    const json_t *n = json_object_get(row, "nsamples");
    if (!url || !json_is_integer(n) || json_integer_value(n) < 0)
        return err_set(err, ERR_DATA, "%s/wids-meta.json: shardlist[%zu] has no \"url\" or no \"nsamples\"", c->path, i);
    if (strstr(url, "://"))
        return err_set(err, ERR_DATA, "%s/wids-meta.json: %s is not a file: fetch it, and list its name", c->path, url);
    return add_shard(c, url[0] == '/' ? collection_text(err, "%s", url) : collection_text(err, "%s/%s", c->path, url),
                     json_integer_value(n), err);
}

static int open_listed(struct collection *c, json_t *all, const json_error_t *why, struct err *err)
{
    const json_t *list = json_object_get(all, "shardlist");
    size_t i;
    json_t *row;
    if (!all)
        return err_set(err, ERR_DATA, "%s/wids-meta.json:%d: not JSON: %s", c->path, why->line, why->text);
    if (!json_is_array(list))
        return err_set(err, ERR_DATA, "%s/wids-meta.json: expected {\"shardlist\": [{\"url\", \"nsamples\"}, ...]}",
                       c->path);
    json_array_foreach((json_t *)(uintptr_t)list, i, row)
        if (add_listed(c, row, i, err) < 0)
            return -1;
    return 0;
}

static int is_tar(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, ".tar");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int open_found(struct collection *c, struct err *err)
{
    struct dirent **names = NULL;
    const int n = scandir(c->path, &names, is_tar, by_name);
    int rc = n < 0 ? err_set_errno(err, errno, "cannot read the data folder %s", c->path) : 0;
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = add_shard(c, collection_text(err, "%s/%s", c->path, names[i]->d_name), -1, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

int collection_open_shards(struct collection *c, struct err *err)
{
    struct stat st;
    json_error_t why = {0};
    if (stat(c->path, &st) == 0 && S_ISREG(st.st_mode))
        return add_shard(c, collection_text(err, "%s", c->path), -1, err);
    char *path = collection_text(err, "%s/wids-meta.json", c->path);
    const bool listed = path && access(path, F_OK) == 0;
    json_t *all = listed ? json_load_file(path, 0, &why) : NULL;
    free(path);
    if (!path)
        return -1;
    const int rc = listed ? open_listed(c, all, &why, err) : open_found(c, err);
    json_decref(all);
    return rc;
}
