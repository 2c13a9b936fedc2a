/* SPDX-License-Identifier: Apache-2.0 */
/* tarball.c - see tarball.h */
#include "controller/cli/tarball.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/contract/err.h"

enum { BLOCK = 512 };

struct tarball {
    gzFile file;
    bool   failed;
    char   path[4096], beside[4104];
};

/* The ustar header: text padded with zeros, numbers in octal. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
        magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

int tarball_create(struct tarball **out, const char *path, struct err *err)
{
    struct tarball *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_MEMORY, "out of memory for an archive");
    snprintf(t->path, sizeof(t->path), "%s", path);
    snprintf(t->beside, sizeof(t->beside), "%s.new", t->path);
    t->file = gzopen(t->beside, "wb");
    if (!t->file) {
        free(t);
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
    }
    *out = t;
    return 0;
}

static void put(struct tarball *t, const void *bytes, size_t size)
{
    if (size && !t->failed && gzwrite(t->file, bytes, (unsigned)size) != (int)size)
        t->failed = true;
}

void tarball_add(struct tarball *t, const char *name, const char *bytes, size_t size, int64_t time_s)
{
    static const char zeros[BLOCK];
    struct header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    snprintf(h.name, sizeof(h.name), "%s", name);
    snprintf(h.mode, sizeof(h.mode), "0000600");
    snprintf(h.uid, sizeof(h.uid), "0000000");
    snprintf(h.gid, sizeof(h.gid), "0000000");
    snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size & 077777777777);
    snprintf(h.mtime, sizeof(h.mtime), "%011llo", (unsigned long long)time_s & 077777777777);
    memset(h.checksum, ' ', sizeof(h.checksum));
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(h); i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof(h.checksum), "%06o", sum & 0777777);
    put(t, &h, sizeof(h));
    put(t, bytes, size);
    put(t, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

int tarball_finish(struct tarball *t, struct err *err)
{
    static const char zeros[2 * BLOCK];
    put(t, zeros, sizeof(zeros));
    bool closed = gzclose(t->file) == Z_OK;
    int rc = 0;
    if (t->failed || !closed || rename(t->beside, t->path) < 0) {
        rc = err_set(err, ERR_SYSTEM, "cannot write %s: %m", t->path);
        unlink(t->beside);
    }
    free(t);
    return rc;
}
