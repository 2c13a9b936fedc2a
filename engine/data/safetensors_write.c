/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writer; see safetensors.h
 *
 * The header is padded with spaces so that the first tensor begins at a
 * multiple of 64 bytes: a reader that maps the file gets aligned floats.
 */
#include "engine/data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/json_make.h"
#include "engine/contract/write_all.h"

enum { DATA_ALIGN = 64 };

struct piece {
    const void *data;
    size_t      bytes;
};

struct st_writer {
    json_t       *header;
    json_t       *meta;
    struct piece *piece;
    int           len, cap;
    size_t        bytes;
};

int st_writer_create(struct st_writer **out, struct err *err)
{
    struct st_writer *w = calloc(1, sizeof(*w));
    if (!w || !(w->header = json_object()) || !(w->meta = json_object())) {
        st_writer_destroy(w);
        return err_set(err, ERR_MEMORY, "no memory to write tensors");
    }
    *out = w;
    return 0;
}

void st_writer_destroy(struct st_writer *w)
{
    if (!w)
        return;
    json_decref(w->header);
    json_decref(w->meta);
    free(w->piece);
    free(w);
}

int st_writer_meta(struct st_writer *w, const char *key, const char *value, struct err *err)
{
    json_t *text = json_string(value);
    if (!text)
        return err_set(err, ERR_DATA, "metadata \"%s\" is not UTF-8", key);
    if (json_object_set_new(w->meta, key, text) < 0)
        return err_set(err, ERR_MEMORY, "no memory for metadata \"%s\"", key);
    return 0;
}

static int make_room(struct st_writer *w, struct err *err)
{
    if (w->len < w->cap)
        return 0;
    int cap = w->cap ? 2 * w->cap : 64;
    struct piece *p = realloc(w->piece, (size_t)cap * sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory for a header of %d tensors", cap);
    w->piece = p;
    w->cap = cap;
    return 0;
}

static int tensor_bytes(size_t *bytes, const char *name, enum st_dtype dtype, int ndim,
                        const int64_t *dim, struct err *err)
{
    size_t n = st_dtype_size(dtype);
    if (ndim < 0 || ndim > ST_DIMS)
        return err_set(err, ERR_USAGE, "tensor %s has %d dimensions; the limit is %d", name, ndim, ST_DIMS);
    for (int i = 0; i < ndim; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, (size_t)dim[i], &n) || n > INT64_MAX / 2)
            return err_set(err, ERR_USAGE, "tensor %s has an impossible shape", name);
    *bytes = n;
    return 0;
}

static json_t *header_row(enum st_dtype dtype, int ndim, const int64_t *dim, size_t begin, size_t end)
{
    json_t *shape = json_array();
    for (int i = 0; shape && i < ndim; i++)
        json_array_append_new(shape, json_integer(dim[i]));
    return json_make("{s:s, s:o, s:[I, I]}", "dtype", st_dtype_name(dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

int st_writer_add(struct st_writer *w, const char *name, enum st_dtype dtype, int ndim,
                  const int64_t *dim, const void *data, struct err *err)
{
    size_t bytes = 0, length = strlen(name);
    if (length == 0 || length >= ST_NAME || strcmp(name, "__metadata__") == 0)
        return err_set(err, ERR_USAGE, "\"%.40s\" cannot be the name of a tensor", name);
    if (json_object_get(w->header, name))
        return err_set(err, ERR_USAGE, "two tensors are named %s", name);
    if (tensor_bytes(&bytes, name, dtype, ndim, dim, err) < 0)
        return -1;
    if (bytes > INT64_MAX / 2 - w->bytes)
        return err_set(err, ERR_USAGE, "the tensors up to %s do not fit in a file", name);
    if (make_room(w, err) < 0)
        return -1;
    json_t *row = header_row(dtype, ndim, dim, w->bytes, w->bytes + bytes);
    if (!row || json_object_set_new(w->header, name, row) < 0)
        return err_set(err, ERR_MEMORY, "no memory for tensor %s, or its name is not UTF-8", name);
    w->piece[w->len++] = (struct piece){data, bytes};
    w->bytes += bytes;
    return 0;
}

static int put(int fd, const void *data, size_t bytes, struct err *err)
{
    return write_all(fd, data, bytes) == 0 ? 0 : err_set_errno(err, errno, "tensors could not be written");
}

/* Length word, JSON and padding as one piece of memory. */
static char *header_bytes(struct st_writer *w, size_t *size)
{
    if (json_object_size(w->meta) > 0)
        json_object_set(w->header, "__metadata__", w->meta);
    char *text = json_dumps(w->header, JSON_COMPACT);
    if (!text)
        return NULL;
    size_t length = strlen(text);
    *size = (8 + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    char *bytes = malloc(*size);
    if (bytes) {
        uint64_t claimed = *size - 8;
        memcpy(bytes, &claimed, 8);
        memset(bytes + 8, ' ', *size - 8);
        memcpy(bytes + 8, text, length);
    }
    free(text);
    return bytes;
}

static int write_header(struct st_writer *w, int fd, size_t *size, struct err *err)
{
    char *header = header_bytes(w, size);
    if (!header)
        return err_set(err, ERR_MEMORY, "no memory for a header of %d tensors", w->len);
    const int r = put(fd, header, *size, err);
    free(header);
    return r;
}

int st_writer_write(struct st_writer *w, int fd, int64_t *bytes, struct err *err)
{
    size_t size = 0;
    int r = write_header(w, fd, &size, err);
    for (int i = 0; r == 0 && i < w->len; i++)
        r = put(fd, w->piece[i].data, w->piece[i].bytes, err);
    if (r == 0 && bytes)
        *bytes = (int64_t)(size + w->bytes);
    return r;
}

int st_writer_reserve(struct st_writer *w, int fd, int64_t *bytes, struct err *err)
{
    size_t size = 0;
    if (write_header(w, fd, &size, err) < 0)
        return -1;
    *bytes = (int64_t)(size + w->bytes);
    errno = w->bytes ? posix_fallocate(fd, (off_t)size, (off_t)w->bytes) : 0;
    return errno ? err_set_errno(err, errno, "tensors could not be written")
                 : 0;
}
