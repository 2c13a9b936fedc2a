/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_write.c - write a checkpoint, by one rank or by many at once; see checkpoint.h
 *
 * The first rank makes the directory and the files with their headers, at full size.
 * Every rank writes its ranges into them, syncs, and reads back what it wrote.  Then the first
 * rank writes the manifest and renames the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/base/err.h"
#include "engine/contract/fence.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"
#include "engine/base/scratch.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/optim/state.h"

static const char *const files[] = {CHECKPOINT_WEIGHTS, CHECKPOINT_MOMENTS, CHECKPOINT_STATE,
                                    NULL};

static int join(char *path, const char *dir, const char *name, struct err *err)
{
    if (snprintf(path, CHECKPOINT_PATH, "%s/%s", dir, name) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

static int write_text(const char *path, const char *text, struct err *err)
{
    int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && write_all(fd, text, strlen(text)) == 0 && fsync(fd) == 0 ? 0 : -1;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        err_set_errno(err, why, "cannot write %s", path);
    errno = why;
    return rc;
}

static int write_state(const char *path, const struct checkpoint_state *s, const struct layout *l, struct err *err)
{
    char layout[17];
    snprintf(layout, sizeof(layout), "%016llx", (unsigned long long)layout_digest(l));
    json_t *o = json_make("{s:i, s:I, s:I, s:I, s:f, s:s, s:s, s:s, s:s}", "schema", 1, "step",
                          (json_int_t)s->step, "optim_count", (json_int_t)s->optim_count, "seed",
                          (json_int_t)s->seed, "loss", s->loss, "spec_digest", s->spec_digest,
                          "data_digest", s->data_digest, "layout_digest", layout, "version",
                          JOBCTL_VERSION);
    if (o && s->base_digest[0])
        json_object_set_new(o, "base_digest", json_text(s->base_digest));
    if (o && s->job)
        json_object_set(o, "job", (json_t *)(uintptr_t)s->job);
    if (o && s->codec)
        json_object_set(o, "codec", (json_t *)(uintptr_t)s->codec);
    if (o && s->exact)
        json_object_set(o, "exact", (json_t *)(uintptr_t)s->exact);
    if (o && s->left_out)
        json_object_set(o, "left_out", (json_t *)(uintptr_t)s->left_out);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    int rc = text ? write_text(path, text, err)
                  : err_set(err, ERR_MEMORY, "out of memory for the state of a checkpoint");
    int why = errno;
    free(text);
    json_decref(o);
    errno = why;
    return rc;
}

/* Names the directory and its disk, not the temporary file below it, which means nothing to a
 * user. */
static int cannot_write(const char *path, struct err *err)
{
    const int why = errno;
    const char *scratch = strstr(path, "/.tmp-");
    const int dir = scratch ? (int)(scratch - path) : (int)strlen(path);
    err_set_errno(err, why, "cannot write a checkpoint into %.*s", dir, path);
    errno = why;
    return -1;
}

/* An empty file with space for whole tensors [first, last). Keeps errno. */
static int reserve(const char *path, const struct state *s, int first, int last, struct err *err)
{
    struct st_writer *w = NULL;
    int64_t bytes;
    int rc = -1, fd = safe_open(path, O_RDWR | O_CREAT | O_EXCL, NULL), why = errno;
    if (fd < 0) {
        err_set_errno(err, why, "cannot write %s", path);
        goto out;
    }
    if (st_writer_create(&w, err) < 0)
        goto out;
    for (int i = first; i < last; i++) {
        const struct state_part *p = &s->part[i];
        if (st_writer_add(w, p->name, ST_F32, p->ndim, p->dim, NULL, err) < 0)
            goto out;
    }
    errno = 0;
    rc = st_writer_reserve(w, fd, &bytes, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = cannot_write(path, err);
    why = errno;
    if (rc < 0 && why) {
        if (err)
            *err = (struct err){0};
        cannot_write(path, err);
    }
out:
    if (fd >= 0)
        close(fd);
    st_writer_destroy(w);
    errno = why;
    return rc;
}

int checkpoint_name(struct checkpoint_writing *w, const char *root, int64_t step, struct err *err)
{
    *w = (struct checkpoint_writing){.step = step};
    if (snprintf(w->path, sizeof(w->path), "%s/step-%08lld", root, (long long)step) >= (int)sizeof(w->path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", root);
    return scratch_name(w->tmp, w->path, err);
}

static void name_root(char root[CHECKPOINT_PATH], const struct checkpoint_writing *w)
{
    snprintf(root, CHECKPOINT_PATH, "%.*s", (int)(strrchr(w->path, '/') - w->path), w->path);
}

int checkpoint_begin(struct checkpoint_writing *w, const struct state *s, struct err *err)
{
    char path[CHECKPOINT_PATH], root[CHECKPOINT_PATH];
    name_root(root, w);
    if (fence_guard(root, err) < 0 || scratch_mkdirs(root, err) < 0 || scratch_remove(w->tmp, err) < 0)
        return -1;
    if (mkdir(w->tmp, 0700) < 0) {
        w->disk_full = errno == ENOSPC || errno == EDQUOT;
        return err_set_errno(err, errno, "cannot make the directory %s", w->tmp);
    }
    errno = 0;
    if (join(path, w->tmp, files[0], err) == 0 && reserve(path, s, 0, s->weights, err) == 0 &&
        join(path, w->tmp, files[1], err) == 0 && reserve(path, s, s->weights, s->len, err) == 0)
        return 0;
    w->disk_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    scratch_remove(w->tmp, NULL);
    return -1;
}

static int write_at(int fd, const void *data, size_t bytes, size_t at)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = pwrite(fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return -1;
        }
        p += n;
        at += (size_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

static const float *saved_from(const struct state_part *p)
{
    return p->data + (p->save_from - p->from);
}

static size_t saved_bytes(const struct state_part *p)
{
    return (p->save_to - p->save_from) * sizeof(float);
}

/* Writes, syncs and compares this rank's ranges of one file. Keeps errno. */
static int fill_file(const char *path, const struct state *s, int first, int last, struct err *err)
{
    struct st_file *f = NULL;
    int rc = st_open(&f, path, err), fd = safe_open(path, O_WRONLY, NULL), why = 0;
    for (int i = first; rc == 0 && i < last; i++) {
        const struct state_part *p = &s->part[i];
        const struct st_tensor *t = st_find(f, p->name);
        if (!t || write_at(fd, saved_from(p), saved_bytes(p), t->at + p->save_from * sizeof(float)) < 0)
            rc = cannot_write(path, err);
    }
    if (rc == 0 && fsync(fd) < 0)
        rc = cannot_write(path, err);
    why = errno;
    for (int i = first; rc == 0 && i < last; i++) {
        const struct state_part *p = &s->part[i];
        const char *back = (const char *)st_find(f, p->name)->data + p->save_from * sizeof(float);
        if (saved_bytes(p) && memcmp(back, saved_from(p), saved_bytes(p)) != 0)
            rc = err_set(err, ERR_SYSTEM, "%s: '%s' reads back differently from what was written", path, p->name);
    }
    if (fd >= 0)
        close(fd);
    st_close(f);
    errno = why;
    return rc;
}

int checkpoint_fill(struct checkpoint_writing *w, const struct state *s, struct err *err)
{
    char path[CHECKPOINT_PATH];
    errno = 0;
    if (join(path, w->tmp, files[0], err) == 0 && fill_file(path, s, 0, s->weights, err) == 0 &&
        join(path, w->tmp, files[1], err) == 0 &&
        fill_file(path, s, s->weights, s->len, err) == 0)
        return 0;
    w->disk_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return -1;
}

void checkpoint_abandon(const struct checkpoint_writing *w)
{
    scratch_remove(w->tmp, NULL);
}

/* Writes the small files, the manifest last. Keeps errno. */
static int finish(struct checkpoint_info *info, const struct checkpoint_writing *w,
                  const struct checkpoint_state *state, const struct layout *l, struct err *err)
{
    struct manifest m;
    char path[CHECKPOINT_PATH];
    errno = 0;
    if (join(path, w->tmp, files[2], err) < 0 || write_state(path, state, l, err) < 0 ||
        join(path, w->tmp, "trust", err) < 0 || write_text(path, "verified\n", err) < 0 ||
        manifest_write(&m, w->tmp, state->step, files, err) < 0 ||
        scratch_sync_dir(w->tmp, err) < 0)
        return -1;
    info->step = state->step;
    info->bytes = m.bytes;
    memcpy(info->digest, m.digest, sizeof(info->digest));
    return 0;
}

int checkpoint_commit(struct checkpoint_info *info, struct checkpoint_writing *w, const struct checkpoint_state *state,
                      const struct layout *l, struct err *err)
{
    char aside[CHECKPOINT_PATH], root[CHECKPOINT_PATH];
    struct stat st;
    name_root(root, w);
    *info = (struct checkpoint_info){0};
    memcpy(info->path, w->path, sizeof(info->path));
    int rc = finish(info, w, state, l, err);
    w->disk_full = rc < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
    if (rc == 0 && lstat(w->path, &st) == 0)
        rc = checkpoint_quarantine(aside, w->path, "another checkpoint of the same step was written in its place", err);
    if (rc == 0)
        rc = fence_guard(root, err);
    if (rc == 0 && rename(w->tmp, w->path) < 0)
        rc = err_set_errno(err, errno, "cannot rename %s to %s", w->tmp, w->path);
    if (rc < 0)
        checkpoint_abandon(w);
    return rc < 0 ? -1 : scratch_sync_dir(root, err);
}
