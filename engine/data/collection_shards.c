/* SPDX-License-Identifier: Apache-2.0 */
/* collection_shards.c - samples in tar files, as WebDataset keeps them
 *
 * By the rules of wids, which Sana's readers use: the members of a sample have one name up to the last dot of its last
 * component; samples are in the order in which their keys come first; the shards are in the order of wids-meta.json,
 * which gives the first "nsamples" of each.  Of pictures .png is preferred.
 * KEY.txt, which their reader ignores, is the caption where KEY.json has no "prompt".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/safe_open.h"
#include "engine/data/collection_internal.h"
#include "engine/data/tar_index.h"

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
