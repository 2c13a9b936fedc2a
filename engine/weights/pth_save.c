/* SPDX-License-Identifier: Apache-2.0 */
/* pth_save.c - see pth_save.h; the fields of zip are those of PKWARE's APPNOTE 6.3, 4.3 */
#include "engine/weights/pth_save.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/contract/err.h"
#include "engine/contract/write_all.h"

enum { RECORD_NAME = 64, ZIP64_FIELD = 1, NEEDS_ZIP64 = 45, NO_16 = 0xffff };
#define NO_32 0xffffffffu

struct record {
    char       name[RECORD_NAME];
    const void *bytes;
    uint64_t    size, at;
    uint32_t    crc;
};

struct archive {
    int            fd;
    uint64_t       at;
    struct record *record; /* written so far */
    int            n;
    bool           failed; /* errno */
};

/* --- little-endian numbers ----------------------------------------------------------------- */

struct bytes {
    unsigned char at[256];
    size_t        n;
};

static void put(struct bytes *b, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        b->at[b->n++] = (unsigned char)(value >> (8 * i));
}

static void put_text(struct bytes *b, const char *text)
{
    memcpy(b->at + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void write_bytes(struct archive *a, const void *bytes, size_t n)
{
    a->failed |= write_all(a->fd, bytes, n) < 0;
    a->at += n;
}

/* --- the archive --------------------------------------------------------------------------- */

/* Of a local and of a central header: versions to flags, method and time (1980-01-01), checksum. */
static void put_common(struct bytes *b, const struct record *r)
{
    put(b, NEEDS_ZIP64, 2);
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, 0x21, 2);
    put(b, r->crc, 4);
    put(b, NO_32, 4);
    put(b, NO_32, 4);
    put(b, strlen(r->name), 2);
}

static uint32_t checksum(const unsigned char *p, uint64_t n)
{
    return (uint32_t)crc32_z(0, p, (size_t)n);
}

static void add(struct archive *a, const char *name, const void *bytes, uint64_t size)
{
    struct bytes b = {.n = 0};
    struct record *r = &a->record[a->n++];
    *r = (struct record){.bytes = bytes, .size = size, .at = a->at, .crc = checksum(bytes, size)};
    snprintf(r->name, sizeof(r->name), "archive/%s", name);
    put(&b, 0x04034b50, 4);
    put_common(&b, r);
    put(&b, 20, 2);
    put_text(&b, r->name);
    put(&b, ZIP64_FIELD, 2);
    put(&b, 16, 2);
    put(&b, size, 8);
    put(&b, size, 8);
    write_bytes(a, b.at, b.n);
    write_bytes(a, bytes, size);
}

static void add_to_directory(struct archive *a, const struct record *r)
{
    struct bytes b = {.n = 0};
    put(&b, 0x02014b50, 4);
    put(&b, NEEDS_ZIP64, 2);
    put_common(&b, r);
    put(&b, 28, 2);
    put(&b, 0, 2);
    put(&b, 0, 2);
    put(&b, 0, 2);
    put(&b, 0, 4);
    put(&b, NO_32, 4);
    put_text(&b, r->name);
    put(&b, ZIP64_FIELD, 2);
    put(&b, 24, 2);
    put(&b, r->size, 8);
    put(&b, r->size, 8);
    put(&b, r->at, 8);
    write_bytes(a, b.at, b.n);
}

static void finish(struct archive *a)
{
    struct bytes b = {.n = 0};
    const uint64_t directory = a->at;
    for (int i = 0; i < a->n; i++)
        add_to_directory(a, &a->record[i]);
    const uint64_t end = a->at;
    put(&b, 0x06064b50, 4); /* zip64 end of the directory */
    put(&b, 44, 8);
    put(&b, NEEDS_ZIP64, 2);
    put(&b, NEEDS_ZIP64, 2);
    put(&b, 0, 8);
    put(&b, (uint64_t)a->n, 8);
    put(&b, (uint64_t)a->n, 8);
    put(&b, end - directory, 8);
    put(&b, directory, 8);
    put(&b, 0x07064b50, 4); /* its locator */
    put(&b, 0, 4);
    put(&b, end, 8);
    put(&b, 1, 4);
    put(&b, 0x06054b50, 4); /* the old end */
    put(&b, 0, 4);
    put(&b, NO_16, 2);
    put(&b, NO_16, 2);
    put(&b, NO_32, 4);
    put(&b, NO_32, 4);
    put(&b, 0, 2);
    write_bytes(a, b.at, b.n);
}

/* --- the object ---------------------------------------------------------------------------- */

static void pickle_number(FILE *f, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        fputc((int)(value >> (8 * i) & 0xff), f);
}

static void pickle_text(FILE *f, const char *text)
{
    fputc('X', f);
    pickle_number(f, strlen(text), 4);
    fputs(text, f);
}

/* LONG1 of eight bytes. */
static void pickle_int(FILE *f, uint64_t value)
{
    fputs("\x8a\x08", f);
    pickle_number(f, value, 8);
}

static void pickle_sizes(FILE *f, const struct pth_save_row *r, bool steps)
{
    fputc('(', f);
    for (int i = 0; i < r->ndim; i++) {
        uint64_t n = steps ? 1 : (uint64_t)r->dim[i];
        for (int k = i + 1; steps && k < r->ndim; k++)
            n *= (uint64_t)r->dim[k];
        pickle_int(f, n);
    }
    fputc('t', f);
}

/* _rebuild_tensor_v2(storage, offset, sizes, steps, requires_grad, hooks) */
static void pickle_tensor(FILE *f, const struct pth_save_row *r, int i)
{
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    pickle_text(f, r->name);
    fputs("ctorch._utils\n_rebuild_tensor_v2\n((", f);
    pickle_text(f, "storage");
    fputs("ctorch\nFloatStorage\n", f);
    pickle_text(f, key);
    pickle_text(f, "cpu");
    pickle_int(f, r->count);
    fputs("tQK", f);
    fputc(0, f);
    pickle_sizes(f, r, false);
    pickle_sizes(f, r, true);
    fputs("\x89" "ccollections\nOrderedDict\n)RtR", f);
}

static char *pickle(size_t *size, const struct pth_save_row *rows, int n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f)
        return NULL;
    fputs("\x80\x02}", f);
    pickle_text(f, "state_dict");
    fputs("}(", f);
    for (int i = 0; i < n; i++)
        pickle_tensor(f, &rows[i], i);
    fputs("us.", f);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

int pth_save(int fd, const struct pth_save_row *rows, int n, struct err *err)
{
    char name[32];
    size_t size = 0;
    struct archive a = {.fd = fd, .record = calloc((size_t)n + 4, sizeof(*a.record))};
    char *object = pickle(&size, rows, n);
    int rc = a.record && object ? 0 : err_set(err, ERR_MEMORY, "no memory to write %d tensors", n);
    if (rc == 0) {
        add(&a, "data.pkl", object, size);
        add(&a, "byteorder", "little", 6);
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof(name), "data/%d", i);
            add(&a, name, rows[i].data, rows[i].count * sizeof(float));
        }
        add(&a, "version", "3\n", 2);
        finish(&a);
        if (a.failed)
            rc = err_set_errno(err, errno, "cannot write a .pth file");
    }
    free(object);
    free(a.record);
    return rc;
}
