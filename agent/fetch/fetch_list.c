/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_list.c - see fetch_list.h */
#include "agent/fetch/fetch_list.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/fetch/fetch_http.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/hub/hub_cache.h"

enum { BODY_MAX = 64 << 20, FILES_MAX = 200000 };

struct body {
    char  *bytes;
    size_t n;
};

static int keep(void *arg, const struct fetch_reply *r, const void *bytes, size_t n, struct err *err)
{
    struct body *b = arg;
    (void)r;
    char *more = b->n + n <= BODY_MAX ? realloc(b->bytes, b->n + n) : NULL;
    if (!more)
        return err_set(err, ERR_DATA, "the hub's list of files is larger than %d MiB", BODY_MAX >> 20);
    memcpy(more + b->n, bytes, n);
    b->bytes = more;
    b->n += n;
    return 0;
}

/* A large file's digest is that of its content, a small one's git's. */
static const char *digest_of(const json_t *row, int64_t *bytes)
{
    const json_t *lfs = json_object_get(row, "lfs");
    const char *large = field_text(lfs, "sha256");
    *bytes = field_int(json_is_object(lfs) ? lfs : row, "size", -1);
    if (json_is_object(lfs))
        return large[0] ? large : field_text(lfs, "oid");
    return field_text(row, "blobId");
}

/* What could lead out of the cache's folder, or has no digest, is not taken: 0. */
static int take_file(struct fetch_list *l, const json_t *row, struct err *err)
{
    int64_t bytes;
    const char *path = field_text(row, "rfilename"), *digest = digest_of(row, &bytes);
    if (!hub_name_is_path(path) || !fetch_digest_is(digest) || bytes < 0)
        return 0;
    char *copy = strdup(path);
    if (!copy)
        return err_set(err, ERR_MEMORY, "no memory for the hub's list of files");
    snprintf(l->digest[l->n], sizeof(l->digest[0]), "%s", digest);
    l->file[l->n++] = (struct hub_file){.path = copy, .bytes = bytes};
    return 0;
}

static int read_list(struct fetch_list *l, const json_t *answer, const struct hub_name *n, struct err *err)
{
    size_t i;
    const json_t *row, *rows = json_object_get(answer, "siblings");
    const size_t most = json_array_size(rows);
    snprintf(l->commit, sizeof(l->commit), "%.40s", field_text(answer, "sha"));
    if (!hub_name_is_commit(l->commit) || !json_is_array(rows) || most > FILES_MAX)
        return err_set(err, ERR_DATA, "the answer of the hub for %s/%s is not a list of files: is HF_ENDPOINT right?",
                       n->owner, n->repo);
    l->file = calloc(most + 1, sizeof(*l->file));
    l->digest = calloc(most + 1, sizeof(*l->digest));
    if (!l->file || !l->digest)
        return err_set(err, ERR_MEMORY, "no memory for the hub's list of files");
    json_array_foreach (rows, i, row)
        if (take_file(l, row, err) < 0)
            return -1;
    return 0;
}

int fetch_list_ask(struct fetch_list *out, struct fetch_http *h, const struct hub_name *n, bool patient,
                   struct err *err)
{
    char url[FETCH_HTTP_URL];
    struct fetch_reply reply;
    struct body b = {0};
    int rc, tries = 0;
    snprintf(url, sizeof(url), "%s/api/models/%s/%s/revision/", fetch_http_endpoint(h), n->owner, n->repo);
    fetch_http_escape(url, n->revision, false);
    strncat(url, "?blobs=true", sizeof(url) - strlen(url) - 1);
    do
        b.n = 0;
    while ((rc = fetch_http_get(h, n, url, 0, keep, &b, &reply, err)) < 0 && patient &&
           fetch_http_again(h, &reply, &tries, err));
    json_t *answer = rc == 0 ? json_loadb(b.bytes ? b.bytes : "", b.n, 0, NULL) : NULL;
    if (rc == 0)
        rc = read_list(out, answer, n, err);
    json_decref(answer);
    free(b.bytes);
    return rc;
}

void fetch_list_free(struct fetch_list *l)
{
    for (int i = 0; i < l->n; i++)
        free((char *)(uintptr_t)l->file[i].path);
    free(l->file);
    free(l->digest);
    *l = (struct fetch_list){.n = 0};
}
