/* SPDX-License-Identifier: Apache-2.0 */
/* log_reader.c - see log_reader.h
 *
 * A rotation replaces NAME.base last: when it is the same before and after a read, the bytes read
 * belong to the offsets it states.
 */
#include "agent/os/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { TRIES = 4 };

int64_t log_reader_base(const char *path)
{
    char name[PATH_MAX];
    long long base = 0;
    if ((size_t)snprintf(name, sizeof(name), "%s" LOG_READER_BASE, path) >= sizeof(name))
        return 0;
    FILE *f = safe_open_stream(name, NULL);
    if (f && (fscanf(f, "%lld", &base) != 1 || base < 0))
        base = 0;
    if (f)
        fclose(f);
    return base;
}

/* Opens for reading; *size gets the length, or 0 if there is no file. */
static int open_sized(const char *path, int64_t *size, struct err *err)
{
    struct stat st;
    int fd = safe_open(path, O_RDONLY, err);
    *size = 0;
    if (fd >= 0 && fstat(fd, &st) == 0)
        *size = st.st_size;
    return fd;
}

/* Reads from `at` on, up to the limit. */
static int fill(struct log_reader *c, int fd, int64_t at, size_t limit)
{
    while (fd >= 0 && c->got < limit) {
        ssize_t n = pread(fd, c->data + c->got, limit - c->got, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        c->got += (size_t)n;
        at += n;
    }
    return 0;
}

static int read_both(struct log_reader *c, int64_t base, int older, int64_t older_size, int newer, size_t limit)
{
    int64_t first = base - older_size;
    if (c->offset < 0)
        c->offset = c->size + c->offset > 0 ? c->size + c->offset : 0;
    if (c->offset < first)
        c->offset = first;
    if (c->offset >= c->size)           /* the kernel refuses offsets of 2^63 - 1 */
        return 0;
    if (c->offset < base && fill(c, older, c->offset - first, limit) < 0)
        return -1;
    int64_t at = c->offset + (int64_t)c->got;
    return at < base ? 0 : fill(c, newer, at - base, limit);
}

static int read_once(struct log_reader *c, const char *path, const char *older_path, int64_t base,
                     size_t limit, struct err *err)
{
    int64_t newer_size, older_size = 0;
    int newer = open_sized(path, &newer_size, err), older = -1;
    if (newer < 0)
        return errno == ENOENT ? 0 : -1;
    if (base > 0)
        older = open_sized(older_path, &older_size, NULL);
    c->size = base + newer_size;
    int rc = read_both(c, base, older, older_size, newer, limit);
    int saved = errno;
    if (older >= 0)
        close(older);
    close(newer);
    errno = saved;
    return rc;
}

int log_reader_read(struct log_reader *c, const char *path, size_t limit, struct err *err)
{
    char older[PATH_MAX];
    const int64_t wanted = c->offset;
    c->data = malloc(limit ? limit : 1);
    if (!c->data)
        return err_set(err, ERR_MEMORY, "out of memory for a part of %s", path);
    if ((size_t)snprintf(older, sizeof(older), "%s" LOG_READER_OLDER, path) >= sizeof(older))
        return err_set(err, ERR_USAGE, "the path is too long: %s", path);
    for (int i = 0; i < TRIES; i++) {
        int64_t base = log_reader_base(path);
        c->offset = wanted;
        c->size = -1;
        c->got = 0;
        struct err why = {0};
        if (read_once(c, path, older, base, limit, &why) < 0)
            return why.code ? err_set(err, why.code, "%s", why.text)
                            : err_set(err, ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
        if (log_reader_base(path) == base)
            break;
    }
    if (c->offset < 0)
        c->offset = 0;
    return 0;
}
