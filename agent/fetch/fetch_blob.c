/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_blob.c - see fetch_blob.h */
#include "agent/fetch/fetch_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/fetch/fetch_digest.h"
#include "agent/fetch/fetch_http.h"
#include "agent/fetch/fetch_progress.h"
#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/base/text_append.h"
#include "engine/base/write_all.h"
#include "engine/hub/hub_cache.h"

enum { PIECE = 1 << 20, PART = 1200 };

/* --- places ------------------------------------------------------------------------------------ */

static int place(char path[PATH_MAX], const struct fetch_blob *b, const char *folder, const char *file, const char *end,
                 struct err *err)
{
    char part[PART];
    if (snprintf(part, sizeof(part), "%s/%s%s", folder, file, end) >= PART)
        return err_set(err, ERR_USAGE, "%.200s: the path is too long", file);
    return hub_cache_place(path, b->name, part, err);
}

static int place_snapshot(char path[PATH_MAX], const struct fetch_blob *b, struct err *err)
{
    char folder[HUB_COMMIT + 16];
    snprintf(folder, sizeof(folder), "snapshots/%s", b->commit);
    return place(path, b, folder, b->path, "", err);
}

static int make_parent(const char *path, struct err *err)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    return scratch_mkdirs(dir, err);
}

static int64_t size_at(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

bool fetch_blob_is_there(const struct fetch_blob *b)
{
    char path[PATH_MAX];
    return place_snapshot(path, b, NULL) == 0 && size_at(path) == b->bytes;
}

int64_t fetch_blob_has(const struct fetch_blob *b)
{
    static const char *const ends[] = {"", ".incomplete"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        const int64_t n = place(path, b, "blobs", b->digest, ends[i], NULL) == 0 ? size_at(path) : -1;
        if (n >= 0)
            return n < b->bytes ? n : b->bytes;
    }
    return 0;
}

/* --- the lock ---------------------------------------------------------------------------------- */

/* .locks/models--OWNER--REPO/DIGEST.lock; released when it is closed, so also by the end of this process. */
static int lock(const struct fetch_blob *b, struct err *err)
{
    char path[PATH_MAX], part[PART];
    snprintf(part, sizeof(part), "../.locks/models--%s--%s/%s.lock", b->name->owner, b->name->repo, b->digest);
    if (hub_cache_dir(path, err) < 0)
        return -1;
    text_append(path, sizeof(path), "%s", part + 2);
    if (make_parent(path, err) < 0)
        return -1;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot open the lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        fprintf(stderr, "waiting for another process that is downloading %s\n", b->path);
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
            ;
    }
    return fd;
}

/* --- the bytes --------------------------------------------------------------------------------- */

struct download {
    const struct fetch_blob *b;
    struct fetch_progress   *p;
    struct fetch_digest     *sum;
    int                      fd;
    int64_t                  have;
    bool                     looked; /* at the head of this answer */
    char                     path[PATH_MAX];
};

static int begin_sum(struct download *d, struct err *err)
{
    char text[FETCH_DIGEST_TEXT];
    fetch_digest_end(d->sum, text);
    d->sum = NULL;
    return fetch_digest_begin(&d->sum, d->b->digest, d->b->bytes, err);
}

/* From the first byte. */
static int restart(struct download *d, struct err *err)
{
    fetch_progress_add(d->p, -d->have);
    d->have = 0;
    if (ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0)
        return err_set_errno(err, errno, "cannot empty %s", d->path);
    return begin_sum(d, err);
}

/* What an earlier process left counts into the sum. */
static int resume(struct download *d, struct err *err)
{
    static char piece[PIECE];
    ssize_t n;
    if (begin_sum(d, err) < 0)
        return -1;
    while ((n = read(d->fd, piece, sizeof(piece))) > 0) {
        fetch_digest_add(d->sum, piece, (size_t)n);
        d->have += n;
    }
    if (n < 0)
        return err_set_errno(err, errno, "cannot read %s", d->path);
    fetch_progress_had(d->p, d->have);
    if (d->have > 0 && d->have <= d->b->bytes)
        fprintf(stderr, "%s: continuing after %lld of %lld bytes\n", d->b->path, (long long)d->have,
                (long long)d->b->bytes);
    return d->have > d->b->bytes ? restart(d, err) : 0;
}

/* A server that ignores the range begins again with the first byte. */
static int look_at(struct download *d, const struct fetch_reply *r, struct err *err)
{
    d->looked = true;
    if (fetch_digest_is(r->etag) && strcmp(r->etag, d->b->digest) != 0)
        return err_set(err, ERR_DATA, "%s: the hub's list has the digest %.64s, but its answer has %.64s: try "
                       "again later", d->b->path, d->b->digest, r->etag);
    if (r->status == 206 && r->from != d->have)
        return err_set(err, ERR_DATA, "%s: %.100s sends a different part of the file than requested", d->b->path,
                       r->host);
    return r->status == 200 && d->have > 0 ? restart(d, err) : 0;
}

static int take(void *arg, const struct fetch_reply *r, const void *bytes, size_t n, struct err *err)
{
    struct download *d = arg;
    if (!d->looked && look_at(d, r, err) < 0)
        return -1;
    if (d->have + (int64_t)n > d->b->bytes)
        return err_set(err, ERR_DATA, "%s: %.100s sends more than %lld bytes", d->b->path, r->host,
                       (long long)d->b->bytes);
    if (write_all(d->fd, bytes, n) < 0)
        return err_set_errno(err, errno, "cannot write %s", d->path);
    fetch_digest_add(d->sum, bytes, n);
    d->have += (int64_t)n;
    fetch_progress_add(d->p, (int64_t)n);
    return 0;
}

/* An answer may end early without an error of its protocol. */
static int cut(const struct download *d, struct fetch_reply *r, struct err *err)
{
    r->again = true;
    err_set(err, ERR_SYSTEM, "%s: %.100s sent %lld of %lld bytes", d->b->path, r->host, (long long)d->have,
            (long long)d->b->bytes);
    err->errnum = ENETUNREACH;
    return -1;
}

/* Until all bytes are there. */
static int download(struct download *d, struct fetch_http *h, struct err *err)
{
    char url[FETCH_HTTP_URL];
    struct fetch_reply reply;
    int tries = 0;
    snprintf(url, sizeof(url), "%s/%s/%s/resolve/%s/", fetch_http_endpoint(h), d->b->name->owner, d->b->name->repo,
             d->b->commit);
    fetch_http_escape(url, d->b->path, true);
    while (d->have < d->b->bytes) {
        const int64_t before = d->have;
        d->looked = false;
        int rc = fetch_http_get(h, d->b->name, url, d->have, take, d, &reply, err);
        if (rc == 0 && d->have < d->b->bytes)
            rc = cut(d, &reply, err);
        if (d->have > before)
            tries = 0;
        if (rc < 0 && !fetch_http_again(h, &reply, &tries, err))
            return -1;
    }
    return 0;
}

/* A part of an earlier process may be damaged, as after the loss of power: once more from the first byte. */
static int download_right(struct download *d, struct fetch_http *h, struct err *err)
{
    char sum[FETCH_DIGEST_TEXT];
    for (int i = 0; i < 2; i++) {
        if ((i > 0 && restart(d, err) < 0) || download(d, h, err) < 0)
            return -1;
        fetch_digest_end(d->sum, sum);
        d->sum = NULL;
        if (strcmp(sum, d->b->digest) == 0)
            return 0;
        fprintf(stderr, "%s: its digest is %s, not %s%s\n", d->b->path, sum, d->b->digest,
                i == 0 ? ": downloading it once more" : "");
    }
    unlink(d->path);
    return err_set(err, ERR_DATA, "%s: the downloaded file has the digest %.64s, but the hub announced %.64s: the file "
                   "is damaged, in transit or on the hub. Try again later", d->b->path, sum, d->b->digest);
}

/* --- its names --------------------------------------------------------------------------------- */

static int sync_and_name(const struct download *d, const char *blob, struct err *err)
{
    if (fsync(d->fd) < 0 || rename(d->path, blob) < 0)
        return err_set_errno(err, errno, "cannot keep %s", blob);
    return 0;
}

static int link_snapshot(const struct fetch_blob *b, struct err *err)
{
    char path[PATH_MAX], target[PART] = "../../";
    if (fetch_blob_is_there(b))
        return 0;
    for (const char *p = b->path; *p; p++)
        if (*p == '/')
            text_append(target, sizeof(target), "../");
    text_append(target, sizeof(target), "blobs/%s", b->digest);
    if (place_snapshot(path, b, err) < 0 || make_parent(path, err) < 0)
        return -1;
    if (symlink(target, path) == 0 || (errno == EEXIST && (unlink(path) == 0 || errno == ENOENT) &&
                                       (symlink(target, path) == 0 || errno == EEXIST)))
        return 0;
    return err_set_errno(err, errno, "cannot make the link %s", path);
}

static int open_part(struct download *d, struct err *err)
{
    if (place(d->path, d->b, "blobs", d->b->digest, ".incomplete", err) < 0 || make_parent(d->path, err) < 0)
        return -1;
    d->fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    return d->fd >= 0 ? 0 : err_set_errno(err, errno, "cannot open %s", d->path);
}

static int get_bytes(struct fetch_http *h, const struct fetch_blob *b, struct fetch_progress *p, const char *blob,
                     struct err *err)
{
    char sum[FETCH_DIGEST_TEXT];
    struct download d = {.b = b, .p = p, .fd = -1};
    int rc = open_part(&d, err) < 0 || resume(&d, err) < 0 || download_right(&d, h, err) < 0 ||
             sync_and_name(&d, blob, err) < 0 ? -1 : 0;
    fetch_digest_end(d.sum, sum);
    if (d.fd >= 0 && close(d.fd) < 0 && rc == 0)
        rc = err_set_errno(err, errno, "cannot write %s", blob);
    return rc;
}

int fetch_blob_get(struct fetch_http *h, const struct fetch_blob *b, struct fetch_progress *p, struct err *err)
{
    char blob[PATH_MAX];
    int rc = 0;
    const int held = lock(b, err);
    if (held < 0 || place(blob, b, "blobs", b->digest, "", err) < 0)
        rc = -1;
    else if (size_at(blob) == b->bytes)
        fetch_progress_had(p, b->bytes);
    else
        rc = get_bytes(h, b, p, blob, err);
    if (rc == 0)
        rc = link_snapshot(b, err);
    if (held >= 0)
        close(held);
    return rc;
}

int fetch_blob_set_ref(const struct hub_name *n, const char *commit, struct err *err)
{
    char path[PATH_MAX], tmp[SCRATCH_PATH], part[sizeof(n->revision) + 8], known[HUB_COMMIT];
    if (hub_cache_commit(known, n) && strcmp(known, commit) == 0)
        return 0;
    snprintf(part, sizeof(part), "refs/%s", n->revision);
    if (hub_cache_place(path, n, part, err) < 0 || make_parent(path, err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    const bool good = fd >= 0 && write_all(fd, commit, strlen(commit)) == 0 && rename(tmp, path) == 0;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    return good ? 0 : err_set_errno(err, why, "cannot write %s", path);
}
