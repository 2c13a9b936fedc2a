/* SPDX-License-Identifier: Apache-2.0 */
/* tar_index.c - see tar_index.h */
#include "engine/files/tar_index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

/* Offsets in a header (POSIX.1-1988, ustar). */
enum { NAME_AT = 0, SIZE_AT = 124, SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345 };
enum { NAME_LEN = 100, SIZE_LEN = 12, SUM_LEN = 8, PREFIX_LEN = 155, EXTENSION_MAX = 1 << 20 };

/* What extension headers say about the member behind them. */
struct extension {
    char    name[TAR_NAME]; /* "": nothing */
    int64_t size;           /* -1: nothing */
};

static int read_all(struct tar_index *t, void *to, size_t n, int64_t at, struct err *err)
{
    char *p = to;
    while (n > 0) {
        const ssize_t got = t->read(t->arg, p, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(err, errno, "cannot be read");
        if (got == 0)
            return err_set(err, ERR_DATA, "the archive is cut off at byte %lld", (long long)at);
        p += got;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

/* Octal digits, or GNU's numbers of base 256; -1: neither. */
static int64_t number(const unsigned char *p, size_t n)
{
    int64_t x = 0;
    size_t i = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (x > INT64_MAX >> 8)
                return -1;
            x = x << 8 | p[i];
        }
        return x;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        x = x << 3 | (p[i] - '0');
    return i < n && p[i] != ' ' && p[i] != '\0' ? -1 : x;
}

static bool is_empty(const unsigned char *block)
{
    for (int i = 0; i < TAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

static int check_sum(const unsigned char *block, int64_t at, struct err *err)
{
    int64_t sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : block[i];
    if (number(block + SUM_AT, SUM_LEN) == sum)
        return 0;
    if (at == 0)
        return err_set(err, ERR_DATA, "is not a plain tar archive: unpack one that is compressed");
    return err_set(err, ERR_DATA, "the archive is damaged: no header at byte %lld", (long long)at);
}

/* PREFIX/NAME; in GNU's own format the prefix's place has something else. */
static void short_name(char name[TAR_NAME], const unsigned char *block)
{
    const char *prefix = (const char *)block + PREFIX_AT;
    const bool posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0 && prefix[0];
    const size_t n = posix ? strnlen(prefix, PREFIX_LEN) : 0;
    const size_t m = strnlen((const char *)block + NAME_AT, NAME_LEN);
    memcpy(name, prefix, n);
    if (n > 0)
        name[n] = '/';
    memcpy(name + n + (n > 0), block + NAME_AT, m);
    name[n + (n > 0) + m] = '\0';
}

/* One record "LENGTH KEY=VALUE\n"; its length, or 0: malformed. */
static size_t pax_record(struct extension *x, const char *p, size_t left)
{
    char *end;
    const size_t n = p[0] >= '0' && p[0] <= '9' ? strtoull(p, &end, 10) : 0;
    if (n == 0 || n > left || *end != ' ' || p[n - 1] != '\n')
        return 0;
    const char *key = end + 1, *equals = memchr(key, '=', (size_t)(p + n - key));
    if (!equals)
        return 0;
    const char *value = equals + 1;
    const size_t len = (size_t)(p + n - 1 - value);
    if (equals - key == 4 && memcmp(key, "path", 4) == 0) {
        if (len >= TAR_NAME || len == 0 || memchr(value, '\0', len))
            return 0;
        memcpy(x->name, value, len);
        x->name[len] = '\0';
    }
    if (equals - key == 4 && memcmp(key, "size", 4) == 0) {
        errno = 0;
        x->size = strtoll(value, &end, 10);
        if (errno || x->size < 0 || end != value + len || len == 0)
            return 0;
    }
    return n;
}

static int read_pax(struct extension *x, const char *text, size_t size, int64_t at, struct err *err)
{
    for (size_t n; size > 0; text += n, size -= n)
        if ((n = pax_record(x, text, size)) == 0)
            return err_set(err, ERR_DATA, "the archive is damaged: a pax header at byte %lld", (long long)at);
    return 0;
}

static int read_extension(struct tar_index *t, struct extension *x, char type, int64_t at, int64_t size,
                          struct err *err)
{
    if (size > EXTENSION_MAX)
        return err_set(err, ERR_DATA, "the archive is damaged: a header of %lld bytes at byte %lld", (long long)size,
                       (long long)at);
    char *text = calloc(1, (size_t)size + 1);
    int rc = text ? read_all(t, text, (size_t)size, at, err) : err_set(err, ERR_MEMORY, "out of memory for a header");
    if (rc == 0 && type == 'x')
        rc = read_pax(x, text, (size_t)size, at, err);
    if (rc == 0 && type == 'L') {
        const size_t n = strlen(text);
        rc = n < TAR_NAME ? 0 : err_set(err, ERR_DATA, "a name at byte %lld has more than %d bytes", (long long)at,
                                        TAR_NAME - 1);
        memcpy(x->name, text, rc == 0 ? n + 1 : 0);
    }
    free(text);
    return rc;
}

static int64_t padded(int64_t size)
{
    return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static bool has_data(char type)
{
    return type < '1' || type > '6'; /* links, devices, folders and FIFOs have none */
}

static bool is_regular(char type)
{
    return type == '0' || type == '\0' || type == '7';
}

/* The header at t->at; 0 at the end. *size is that of the data behind it. */
static int read_header(struct tar_index *t, unsigned char block[TAR_BLOCK], int64_t *size, struct err *err)
{
    if (t->at + TAR_BLOCK > t->size)
        return err_set(err, ERR_DATA, "the archive is cut off: it ends at byte %lld without the two empty blocks",
                       (long long)t->size);
    if (read_all(t, block, TAR_BLOCK, t->at, err) < 0)
        return -1;
    if (is_empty(block))
        return 0;
    if (check_sum(block, t->at, err) < 0)
        return -1;
    *size = has_data((char)block[TYPE_AT]) ? number(block + SIZE_AT, SIZE_LEN) : 0;
    return *size >= 0 ? 1 : err_set(err, ERR_DATA, "the archive is damaged: a size at byte %lld", (long long)t->at);
}

static int check_room(const struct tar_index *t, int64_t size, struct err *err)
{
    if (size <= t->size - t->at - TAR_BLOCK)
        return 0;
    return err_set(err, ERR_DATA, "the archive is cut off: a member at byte %lld has %lld bytes, the file ends at %lld",
                   (long long)t->at, (long long)size, (long long)t->size);
}

static void fill(struct tar_member *out, const struct extension *x, const unsigned char *block, int64_t data,
                 int64_t size)
{
    if (x->name[0])
        strcpy(out->name, x->name);
    else
        short_name(out->name, block);
    out->data = data;
    out->size = size;
}

/* One header with its extensions: 1 a regular file, 2 something else, 0 the end. */
static int read_member(struct tar_index *t, struct tar_member *out, struct err *err)
{
    struct extension x = {.size = -1};
    unsigned char block[TAR_BLOCK];
    int64_t size = 0;
    int rc;
    out->header = t->at;
    while ((rc = read_header(t, block, &size, err)) > 0) {
        const char type = (char)block[TYPE_AT];
        const bool extends = type == 'x' || type == 'L' || type == 'K' || type == 'g';
        if (!extends && x.size >= 0 && has_data(type))
            size = x.size;
        if (type == 'S')
            return err_set(err, ERR_DATA, "the member at byte %lld is a sparse file: write it as a plain one",
                           (long long)t->at);
        if (check_room(t, size, err) < 0)
            return -1;
        const int64_t data = t->at + TAR_BLOCK;
        if (extends && read_extension(t, &x, type, data, size, err) < 0)
            return -1;
        t->at = data + padded(size);
        if (extends)
            continue;
        fill(out, &x, block, data, size);
        return is_regular(type) ? 1 : 2;
    }
    return rc;
}

int tar_index_next(struct tar_index *t, struct tar_member *out, struct err *err)
{
    int rc;
    while ((rc = read_member(t, out, err)) == 2)
        continue;
    return rc;
}

int tar_index_at(struct tar_index *t, struct tar_member *out, int64_t header, struct err *err)
{
    t->at = header;
    const int rc = read_member(t, out, err);
    if (rc == 1)
        return 0;
    return rc < 0 ? -1 : err_set(err, ERR_DATA, "the archive has changed: no member at byte %lld", (long long)header);
}
