/* SPDX-License-Identifier: Apache-2.0 */
/* code_tree.c - see code_tree.h */
#include "agent/code/code_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"

enum { PIECE = 64 * 1024, OPEN_DIRS = 32, FULL = PATH_MAX + CODE_PATH };

/* ---- one file ---- */

static int make_parents(const char *root, const char *path, struct err *err)
{
    char dir[FULL];
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        snprintf(dir, sizeof(dir), "%s/%.*s", root, (int)(p - path), path);
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
            return err_set_errno(err, errno, "cannot create directory %s", dir);
    }
    return 0;
}

/* Copies `most` bytes, or all, and digests them; returns how many there were, or -1. */
static int64_t pass(struct digest *d, int in, int out, int64_t most, const char *to, struct err *err)
{
    char bytes[PIECE];
    int64_t sum = 0;
    while (sum < most) {
        const ssize_t n = read(in, bytes, most - sum < PIECE ? (size_t)(most - sum) : PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(err, errno, "cannot read the contents of %s", to);
        if (n == 0)
            break;
        digest_add(d, bytes, (size_t)n);
        if (write_all(out, bytes, (size_t)n) < 0)
            return err_set_errno(err, errno, "cannot write %s", to);
        sum += n;
    }
    return sum;
}

static mode_t mode_of(enum code_kind kind, enum code_mode mode)
{
    if (mode == CODE_ORIGINAL)
        return kind == CODE_PROGRAM ? 0500 : 0400;
    return kind == CODE_PROGRAM ? 0700 : 0600;
}

/* `most`: of the bytes that `in` has. */
static int write_file(int in, int64_t most, const char *to, const struct code_entry *e, enum code_mode mode,
                      struct err *err)
{
    char text[DIGEST_TEXT] = "";
    struct digest *d = NULL;
    int rc = -1, out = safe_open(to, O_WRONLY | O_CREAT | O_EXCL, err);
    if (out < 0 || digest_create(&d, err) < 0)
        goto out;
    const int64_t bytes = pass(d, in, out, most, to, err);
    if (bytes < 0)
        goto out;
    digest_text(d, text);
    if (bytes != e->bytes || strcmp(text, e->text) != 0)
        err_set(err, ERR_DATA, "%s has changed since the snapshot was taken", e->path);
    else if (fchmod(out, mode_of(e->kind, mode)) < 0)
        err_set_errno(err, errno, "cannot write %s", to);
    else
        rc = 0;
out:
    digest_destroy(d);
    if (out >= 0 && close(out) < 0 && rc == 0)
        rc = err_set_errno(err, errno, "cannot write %s", to);
    return rc;
}

static int make_link(const char *to, const struct code_entry *e, struct err *err)
{
    return symlink(e->text, to) == 0 ? 0 : err_set_errno(err, errno, "cannot make the link %s", to);
}

int code_tree_receive(int in, const char *to, const struct code_entry *e, struct err *err)
{
    char target[FULL];
    snprintf(target, sizeof(target), "%s/%s", to, e->path);
    if (make_parents(to, e->path, err) < 0)
        return -1;
    if (e->kind == CODE_LINK)
        return make_link(target, e, err);
    const int rc = write_file(in, e->bytes, target, e, CODE_ORIGINAL, err);
    if (rc < 0)
        unlink(target);
    return rc;
}

int code_tree_put(const char *from, const char *to, const struct code_entry *e, enum code_mode mode, struct err *err)
{
    char source[FULL], target[FULL];
    snprintf(source, sizeof(source), "%s/%s", from, e->path);
    snprintf(target, sizeof(target), "%s/%s", to, e->path);
    if (make_parents(to, e->path, err) < 0)
        return -1;
    if (e->kind == CODE_LINK)
        return make_link(target, e, err);
    const int in = safe_open(source, O_RDONLY, err);
    const int rc = in < 0 ? -1 : write_file(in, INT64_MAX, target, e, mode, err);
    if (in >= 0)
        close(in);
    return rc;
}

/* ---- directories ---- */

static int set_mode(const char *path, const struct stat *st, int flag, struct FTW *ftw, mode_t mode)
{
    (void)ftw;
    if (flag != FTW_D && flag != FTW_DNR && flag != FTW_DP)
        return 0;
    return (st->st_mode & 07777) == mode ? 0 : chmod(path, mode);
}

static int close_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return set_mode(path, st, flag, ftw, 0500);
}

int code_tree_close(const char *dir, struct err *err)
{
    return nftw(dir, close_one, OPEN_DIRS, FTW_PHYS | FTW_DEPTH) == 0
               ? 0 : err_set_errno(err, errno, "cannot make %s read-only", dir);
}

/* nftw() lists a directory after this call, so what could not be entered can be then; what fails is found by the
 * removal. */
static int loosen_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    if (flag == FTW_DNR || (flag == FTW_D && (st->st_mode & 0700) != 0700))
        set_mode(path, st, flag, ftw, 0700);
    return 0;
}

void code_tree_loosen(const char *path)
{
    for (int pass_ = 0; pass_ < 2; pass_++)    /* what nftw() could not list, it lists the second time */
        nftw(path, loosen_one, OPEN_DIRS, FTW_PHYS);
}

int code_tree_remove(const char *path, struct err *err)
{
    code_tree_loosen(path);
    return scratch_remove(path, err);
}

/* ---- a whole tree ---- */

static int copy_all(const char *from, const char *to, struct err *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, from);
    json_t *manifest = safe_open_json(path, 0, err);
    int rc = manifest ? code_manifest_check(manifest, err) : -1;
    snprintf(path, sizeof(path), "%s/" CODE_TREE, from);
    for (size_t i = 0; rc == 0 && i < code_manifest_count(manifest); i++) {
        const struct code_entry e = code_manifest_at(manifest, i);
        rc = code_tree_put(path, to, &e, CODE_WRITABLE, err);
    }
    json_decref(manifest);
    return rc;
}

int code_tree_copy(const char *from, const char *to, struct err *err)
{
    char part[FULL];
    struct stat st;
    if (lstat(to, &st) == 0)
        return 0;
    if ((size_t)snprintf(part, sizeof(part), "%s.part", to) >= sizeof(part))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", to);
    code_tree_remove(part, NULL);
    int rc = mkdir(part, 0700) < 0 ? err_set_errno(err, errno, "cannot create directory %s", part)
                                   : copy_all(from, part, err);
    if (rc == 0 && rename(part, to) < 0)
        rc = err_set_errno(err, errno, "cannot create directory %s", to);
    if (rc < 0)
        code_tree_remove(part, NULL);
    return rc;
}

bool code_tree_whole(const char *dir, const json_t *manifest)
{
    char path[FULL + 8];
    struct stat st;
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    if (lstat(path, &st) < 0)
        return false;
    for (size_t i = 0; i < code_manifest_count(manifest); i++) {
        const struct code_entry e = code_manifest_at(manifest, i);
        snprintf(path, sizeof(path), "%s/" CODE_TREE "/%s", dir, e.path);
        if (lstat(path, &st) < 0 || (e.kind != CODE_LINK && st.st_size != e.bytes))
            return false;
    }
    return true;
}
