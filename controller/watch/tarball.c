/* SPDX-License-Identifier: Apache-2.0 */
/* tarball.c - see tarball.h */
#include "controller/watch/tarball.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"

struct tarball {
    struct archive *file;
    char            path[4096], beside[4104];
    char            why[200]; /* the first failure; "" = none */
};

static void note_failure(struct tarball *t)
{
    const int code = archive_errno(t->file);
    if (!t->why[0])
        snprintf(t->why, sizeof(t->why), "%s", code > 0 ? strerror(code) : "it cannot be an archive");
}

int tarball_create(struct tarball **out, const char *path, struct err *err)
{
    struct tarball *t = calloc(1, sizeof(*t));
    if (!t || !(t->file = archive_write_new())) {
        free(t);
        return err_set(err, ERR_MEMORY, "out of memory for an archive");
    }
    snprintf(t->path, sizeof(t->path), "%s", path);
    snprintf(t->beside, sizeof(t->beside), "%s.new", t->path);
    *out = t;
    if (archive_write_add_filter_gzip(t->file) == ARCHIVE_OK &&
        archive_write_set_format_ustar(t->file) == ARCHIVE_OK &&
        archive_write_open_filename(t->file, t->beside) == ARCHIVE_OK)
        return 0;
    note_failure(t);
    return tarball_finish(t, err);
}

void tarball_add(struct tarball *t, const char *name, const char *bytes, size_t size, int64_t time_s)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0600);
    archive_entry_set_size(e, (int64_t)size);
    archive_entry_set_mtime(e, time_s, 0);
    if (archive_write_header(t->file, e) != ARCHIVE_OK ||
        archive_write_data(t->file, bytes, size) != (ssize_t)size)
        note_failure(t);
    archive_entry_free(e);
}

int tarball_finish(struct tarball *t, struct err *err)
{
    int rc = 0;
    if (archive_write_close(t->file) != ARCHIVE_OK)
        note_failure(t);
    if (!t->why[0] && rename(t->beside, t->path) < 0)
        snprintf(t->why, sizeof(t->why), "%m");
    if (t->why[0]) {
        rc = err_set(err, ERR_SYSTEM, "cannot write %s: %s", t->path, t->why);
        unlink(t->beside);
    }
    archive_write_free(t->file);
    free(t);
    return rc;
}
