/* SPDX-License-Identifier: Apache-2.0 */
/* zip_records.c - see zip_records.h */
#include "engine/files/zip_records.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/err.h"

enum {
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    COMMENT_MAX = 65535,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
    STORED = 0,
    DEFLATED = 8,
    RATIO_MAX = 1032, /* of deflate */
    RECORDS_MAX = 300000 /* 12 MB of records; a file of a large model has some thousands */
};

/* Where the central directory is. */
struct directory {
    const unsigned char *file;
    size_t               file_size;
    uint64_t             at, size, entries;
    bool                 any; /* compressed records too */
};

/* One entry while it is read. */
struct entry {
    const unsigned char *bytes;
    uint64_t             packed, size, local;
    size_t               name, extra, comment; /* lengths */
};

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

static bool has_signature(const unsigned char *p, const char *letters)
{
    return memcmp(p, letters, 4) == 0;
}

static int damaged(struct err *err, const char *what)
{
    return err_set(err, ERR_DATA, "the zip archive is damaged or truncated: %s", what);
}

/* The end record's comment must end where the file does. */
static const unsigned char *find_end(const unsigned char *file, size_t size)
{
    for (size_t comment = 0; comment <= COMMENT_MAX && comment + END_SIZE <= size; comment++) {
        const unsigned char *p = file + size - END_SIZE - comment;
        if (has_signature(p, "PK\5\6") && number(p + 20, 2) == comment)
            return p;
    }
    return NULL;
}

/* zip64: a locator before the end record leads to a larger one. */
static int read_end64(struct directory *d, const unsigned char *locator, struct err *err)
{
    const uint64_t at = number(locator + 8, 8), limit = (uint64_t)(locator - d->file);
    if (limit < END64_SIZE || at > limit - END64_SIZE || !has_signature(d->file + at, "PK\6\6"))
        return damaged(err, "no zip64 end record where its locator says");
    const unsigned char *end = d->file + at;
    d->entries = number(end + 32, 8);
    d->size = number(end + 40, 8);
    d->at = number(end + 48, 8);
    return 0;
}

static int find_directory(struct directory *d, struct err *err)
{
    const unsigned char *end = find_end(d->file, d->file_size);
    if (!end)
        return damaged(err, "no end record");
    d->entries = number(end + 10, 2);
    d->size = number(end + 12, 4);
    d->at = number(end + 16, 4);
    if (end - d->file >= LOCATOR_SIZE && has_signature(end - LOCATOR_SIZE, "PK\6\7") &&
        read_end64(d, end - LOCATOR_SIZE, err) < 0)
        return -1;
    const uint64_t limit = (uint64_t)(end - d->file);
    if (d->at > limit || d->size > limit - d->at)
        return damaged(err, "its directory is outside of the file");
    if (d->entries > d->size / ENTRY_SIZE || d->entries > RECORDS_MAX)
        return damaged(err, "its directory has fewer records than it says, or more than 300000");
    return 0;
}

/* Sizes and offset that do not fit into 32 bits are in an extra field, in this order. */
static int read_extra64(struct entry *e, const unsigned char *p, size_t n, struct err *err)
{
    uint64_t *const field[] = {&e->size, &e->packed, &e->local};
    for (size_t i = 0; i < sizeof(field) / sizeof(*field); i++) {
        if (*field[i] != UINT32_MAX)
            continue;
        if (n < 8)
            return damaged(err, "a zip64 field is too short");
        *field[i] = number(p, 8);
        p += 8;
        n -= 8;
    }
    return 0;
}

static int read_extras(struct entry *e, struct err *err)
{
    const unsigned char *p = e->bytes + ENTRY_SIZE + e->name, *end = p + e->extra;
    while (end - p >= 4) {
        const size_t n = (size_t)number(p + 2, 2);
        if (n > (size_t)(end - p) - 4)
            return damaged(err, "an extra field is longer than its record");
        if (number(p, 2) == EXTRA_ZIP64 && read_extra64(e, p + 4, n, err) < 0)
            return -1;
        p += 4 + n;
    }
    return 0;
}

static bool is_readable(const struct entry *e, uint64_t method, bool any)
{
    return method == STORED ? e->packed == e->size : any && method == DEFLATED && e->size / RATIO_MAX <= e->packed;
}

static int read_entry(struct entry *e, const unsigned char *p, size_t room, bool any, struct err *err)
{
    if (room < ENTRY_SIZE || !has_signature(p, "PK\1\2"))
        return damaged(err, "no record where its directory has one");
    *e = (struct entry){p, number(p + 20, 4), number(p + 24, 4), number(p + 42, 4), (size_t)number(p + 28, 2),
                        (size_t)number(p + 30, 2), (size_t)number(p + 32, 2)};
    if (e->name + e->extra + e->comment > room - ENTRY_SIZE)
        return damaged(err, "a record of its directory is cut off");
    if (read_extras(e, err) < 0)
        return -1;
    if (number(p + 8, 2) & FLAG_ENCRYPTED)
        return err_set(err, ERR_DATA, "record %.*s of the zip archive is encrypted", (int)e->name, p + ENTRY_SIZE);
    if (is_readable(e, number(p + 10, 2), any))
        return 0;
    return err_set(err, ERR_DATA, "record %.*s of the zip archive is compressed%s", (int)e->name, p + ENTRY_SIZE,
                   any ? " by an unknown method, or damaged" : ": torch.save() stores its records as they are");
}

/* The local header has the length of what is between it and the bytes. */
static int find_bytes(struct zip_record *r, const struct directory *d, const struct entry *e, struct err *err)
{
    if (d->at < LOCAL_SIZE || e->local > d->at - LOCAL_SIZE || !has_signature(d->file + e->local, "PK\3\4"))
        return damaged(err, "no local header where its directory says");
    const unsigned char *local = d->file + e->local;
    const uint64_t name = number(local + 26, 2), extra = number(local + 28, 2);
    uint64_t room = d->at - e->local - LOCAL_SIZE;
    if (name + extra > room || e->packed > room - name - extra)
        return err_set(err, ERR_DATA, "record %.*s of the zip archive ends past the end of the file's data: the "
                       "file is damaged or truncated", (int)e->name, e->bytes + ENTRY_SIZE);
    if (name != e->name || memcmp(local + LOCAL_SIZE, e->bytes + ENTRY_SIZE, e->name) != 0)
        return err_set(err, ERR_DATA, "record %.*s of the zip archive has another name in its local header",
                       (int)e->name, e->bytes + ENTRY_SIZE);
    *r = (struct zip_record){(const char *)e->bytes + ENTRY_SIZE, e->name, local + LOCAL_SIZE + name + extra, e->packed,
                             e->size, number(e->bytes + 10, 2) == DEFLATED, (uint32_t)number(e->bytes + 16, 4)};
    return 0;
}

static int read_entries(struct zip_records *z, const struct directory *d, struct err *err)
{
    const unsigned char *p = d->file + d->at, *end = p + d->size;
    for (size_t i = 0; i < d->entries; i++) {
        struct entry e;
        if (read_entry(&e, p, (size_t)(end - p), d->any, err) < 0 || find_bytes(&z->record[z->len], d, &e, err) < 0)
            return -1;
        z->len++;
        p += ENTRY_SIZE + e.name + e.extra + e.comment;
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct zip_record *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size;
}

static int compare_names(const char *a, size_t n, const char *b, size_t m)
{
    const int order = memcmp(a, b, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

static int by_name(const void *a, const void *b)
{
    const struct zip_record *x = a, *y = b;
    return compare_names(x->name, x->name_len, y->name, y->name_len);
}

static int check_places(struct zip_records *z, struct err *err)
{
    qsort(z->record, z->len, sizeof(*z->record), by_place);
    for (size_t i = 1; i < z->len; i++) {
        const struct zip_record *a = &z->record[i - 1], *b = &z->record[i];
        if (a->bytes + a->size > b->bytes)
            return err_set(err, ERR_DATA, "records %.*s and %.*s of the zip archive overlap", (int)a->name_len, a->name,
                           (int)b->name_len, b->name);
    }
    return 0;
}

static int check_names(struct zip_records *z, struct err *err)
{
    qsort(z->record, z->len, sizeof(*z->record), by_name);
    for (size_t i = 1; i < z->len; i++)
        if (by_name(&z->record[i - 1], &z->record[i]) == 0)
            return err_set(err, ERR_DATA, "record %.*s is in the zip archive twice", (int)z->record[i].name_len,
                           z->record[i].name);
    return 0;
}

static int read_records(struct zip_records *out, struct directory d, struct err *err)
{
    *out = (struct zip_records){0};
    if (find_directory(&d, err) < 0)
        return -1;
    if (!(out->record = calloc(d.entries + 1, sizeof(*out->record))))
        return err_set(err, ERR_MEMORY, "no memory for %llu records of a zip archive", (unsigned long long)d.entries);
    if (read_entries(out, &d, err) == 0 && check_places(out, err) == 0 && check_names(out, err) == 0)
        return 0;
    zip_records_free(out);
    return -1;
}

int zip_records_read(struct zip_records *out, const unsigned char *bytes, size_t size, struct err *err)
{
    return read_records(out, (struct directory){.file = bytes, .file_size = size}, err);
}

int zip_records_read_any(struct zip_records *out, const unsigned char *bytes, size_t size, struct err *err)
{
    return read_records(out, (struct directory){.file = bytes, .file_size = size, .any = true}, err);
}

static int inflate_into(unsigned char *to, const struct zip_record *r)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)r->bytes, .avail_in = (uInt)r->size, .next_out = to,
                  .avail_out = (uInt)r->full};
    if (r->size > UINT32_MAX || r->full > UINT32_MAX || inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return -1;
    const int end = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return end == Z_STREAM_END && z.total_out == r->full ? 0 : -1;
}

int zip_records_copy(void *to, const struct zip_record *r, struct err *err)
{
    if (!r->deflated)
        memcpy(to, r->bytes, r->size);
    else if (inflate_into(to, r) < 0)
        return err_set(err, ERR_DATA, "record %.*s of the zip archive is damaged", (int)r->name_len, r->name);
    if (crc32_z(0, to, r->full) == r->crc)
        return 0;
    return err_set(err, ERR_DATA, "record %.*s of the zip archive has another checksum (CRC-32) than its directory "
                   "says: the file is damaged", (int)r->name_len, r->name);
}

void zip_records_free(struct zip_records *z)
{
    free(z->record);
    *z = (struct zip_records){0};
}

const struct zip_record *zip_records_find(const struct zip_records *z, const char *name, size_t n)
{
    const struct zip_record key = {.name = name, .name_len = n};
    return z->len ? bsearch(&key, z->record, z->len, sizeof(key), by_name) : NULL;
}

int zip_records_check(const struct zip_record *r, struct err *err)
{
    if (r->crc == 0 || crc32_z(0, r->bytes, r->size) == r->crc)
        return 0;
    return err_set(err, ERR_DATA, "record %.*s of the zip archive has another checksum (CRC-32) than its directory "
                   "says: the file is damaged", (int)r->name_len, r->name);
}
