/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - reader; see safetensors.h
 *
 * The header is untrusted: each number is checked before it is added,
 * multiplied or used as an address.  Tensors are kept in the order of their
 * bytes, so that only neighbours can overlap.  Bytes after the
 * last tensor mean that the header belongs to another file: refused.
 */
#include "engine/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/write_all.h"
#include "engine/files/mapped_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "this machine is not little-endian");

enum { HEADER_MAX = 100 * 1000 * 1000 };

struct st_file {
    struct mapped_file   map;  /* zeros for bytes of the caller */
    const unsigned char *bytes;
    size_t               size;
    json_t              *meta; /* or NULL */
    struct st_tensor    *tensor;
    int                  len;
};

static const struct {
    const char *name;
    size_t      size;
} dtypes[ST_DTYPES] = {
    [ST_F32] = {"F32", 4}, [ST_F64] = {"F64", 8}, [ST_F16] = {"F16", 2}, [ST_BF16] = {"BF16", 2},
    [ST_I64] = {"I64", 8}, [ST_I32] = {"I32", 4}, [ST_U8] = {"U8", 1},   [ST_I16] = {"I16", 2},
    [ST_I8] = {"I8", 1},   [ST_BOOL] = {"BOOL", 1},
};

size_t st_dtype_size(enum st_dtype d)
{
    return dtypes[d].size;
}

const char *st_dtype_name(enum st_dtype d)
{
    return dtypes[d].name;
}

static int parse_dtype(struct st_tensor *t, const json_t *value, struct err *err)
{
    const char *name = json_string_value(value);
    if (!name)
        return err_set(err, ERR_DATA, "tensor %s has no \"dtype\"", t->name);
    for (int d = 0; d < ST_DTYPES; d++)
        if (strcmp(name, dtypes[d].name) == 0) {
            t->dtype = (enum st_dtype)d;
            return 0;
        }
    return err_set(err, ERR_DATA,
                   "tensor %s has the type \"%.20s\"; supported types are F32, F64, F16, BF16, I64, I32, I16, I8, U8 and BOOL",
                   t->name, name);
}

static int parse_shape(struct st_tensor *t, const json_t *value, struct err *err)
{
    if (!json_is_array(value) || json_array_size(value) > ST_DIMS)
        return err_set(err, ERR_DATA, "the \"shape\" of tensor %s is not a list of up to %d sizes", t->name, ST_DIMS);
    t->ndim = (int)json_array_size(value);
    t->count = 1;
    t->bytes = dtypes[t->dtype].size;
    for (int i = 0; i < t->ndim; i++) {
        const json_t *item = json_array_get(value, (size_t)i);
        json_int_t n = json_integer_value(item);
        if (!json_is_integer(item) || n < 0)
            return err_set(err, ERR_DATA, "size %d in the shape of tensor %s is not a count", i, t->name);
        if (__builtin_mul_overflow(t->bytes, (size_t)n, &t->bytes) || t->bytes > INT64_MAX / 2)
            return err_set(err, ERR_DATA, "the shape of tensor %s is larger than memory", t->name);
        t->count *= (size_t)n;   /* at most the tensor's size in bytes */
        t->dim[i] = n;
    }
    return 0;
}

static int parse_offsets(struct st_tensor *t, const json_t *value, const unsigned char *data,
                         size_t data_size, struct err *err)
{
    const json_t *b = json_array_get(value, 0), *e = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return err_set(err, ERR_DATA, "the \"data_offsets\" of tensor %s are not two numbers", t->name);
    json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || (uint64_t)end > data_size)
        return err_set(err, ERR_DATA, "tensor %s is at bytes %lld to %lld of %zu: file damaged or truncated", t->name,
                       (long long)begin, (long long)end, data_size);
    if ((size_t)(end - begin) != t->bytes)
        return err_set(err, ERR_DATA, "the shape of tensor %s needs %zu bytes, but the file has %lld",
                       t->name, t->bytes, (long long)(end - begin));
    t->data = data + begin;
    return 0;
}

static int parse_tensor(struct st_tensor *t, const char *name, const json_t *row,
                        const unsigned char *data, size_t data_size, struct err *err)
{
    size_t length = strlen(name);
    if (length == 0 || length >= ST_NAME)
        return err_set(err, ERR_DATA, "a tensor name has %zu characters; it must have 1 to %d", length, ST_NAME - 1);
    memcpy(t->name, name, length + 1);
    if (!json_is_object(row))
        return err_set(err, ERR_DATA, "the header's entry for tensor %s is not an object", name);
    if (parse_dtype(t, json_object_get(row, "dtype"), err) < 0 ||
        parse_shape(t, json_object_get(row, "shape"), err) < 0)
        return -1;
    return parse_offsets(t, json_object_get(row, "data_offsets"), data, data_size, err);
}

static int by_address(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Neighbours must not overlap, and the last must end at the end of the file. */
static int check_extents(struct st_file *f, const unsigned char *data, struct err *err)
{
    const unsigned char *end = data;
    qsort(f->tensor, (size_t)f->len, sizeof(*f->tensor), by_address);
    for (int i = 0; i < f->len; i++) {
        const struct st_tensor *t = &f->tensor[i];
        if (t->bytes && (const unsigned char *)t->data < end)
            return err_set(err, ERR_DATA, "tensors %s and %s overlap in the file", f->tensor[i - 1].name, t->name);
        if (t->bytes)
            end = (const unsigned char *)t->data + t->bytes;
    }
    if (end != f->bytes + f->size)
        return err_set(err, ERR_DATA, "%zu bytes follow the last tensor: the file is damaged",
                       (size_t)(f->bytes + f->size - end));
    return 0;
}

static int parse_meta(struct st_file *f, json_t *meta, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(meta))
        return err_set(err, ERR_DATA, "\"__metadata__\" is not an object");
    json_object_foreach (meta, key, value)
        if (!json_is_string(value))
            return err_set(err, ERR_DATA, "\"__metadata__\" entry \"%.60s\" is not a string", key);
    f->meta = json_incref(meta);
    return 0;
}

static int parse_header(struct st_file *f, json_t *header, const unsigned char *data, struct err *err)
{
    const char *name;
    json_t *row;
    size_t data_size = (size_t)(f->bytes + f->size - data), entries = json_object_size(header);
    f->tensor = calloc(entries ? entries : 1, sizeof(*f->tensor));
    if (!f->tensor)
        return err_set(err, ERR_MEMORY, "no memory for a header of %zu tensors", entries);
    json_object_foreach (header, name, row) {
        if (strcmp(name, "__metadata__") == 0) {
            if (parse_meta(f, row, err) < 0)
                return -1;
            continue;
        }
        if (parse_tensor(&f->tensor[f->len], name, row, data, data_size, err) < 0)
            return -1;
        f->len++;
    }
    for (int i = 0; i < f->len; i++)
        f->tensor[i].at = (size_t)((const unsigned char *)f->tensor[i].data - f->bytes);
    return check_extents(f, data, err);
}

/* The common formats of published models: an archive (.zip) of pickled objects, or a bare
 * pickle. */
static bool is_pytorch(const struct st_file *f)
{
    return memcmp(f->bytes, "PK\3\4", 4) == 0 || memcmp(f->bytes, "\x80\2\x8a\n", 4) == 0;
}

static int parse_bytes(struct st_file *f, struct err *err)
{
    uint64_t length;
    if (f->size < sizeof(length))
        return err_set(err, ERR_DATA, "a file of %zu bytes is too short for safetensors", f->size);
    memcpy(&length, f->bytes, sizeof(length));
    if (length > HEADER_MAX && is_pytorch(f))
        return err_set(err, ERR_DATA, "a PyTorch file (.pth, .pt, .bin) where a .safetensors file is expected: "
                       "write its tensors to one with safetensors.torch.save_file()");
    if (length > HEADER_MAX || length > f->size - sizeof(length))
        return err_set(err, ERR_DATA, "its header announces %llu bytes in a file of %zu: damaged or truncated",
                       (unsigned long long)length, f->size);
    json_error_t why;
    json_t *header = json_loadb((const char *)f->bytes + sizeof(length), (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (!header)
        return err_set(err, ERR_DATA, "its header is not JSON: %s (byte %d)", why.text, why.position);
    int r = -1;
    if (!json_is_object(header))
        err_set(err, ERR_DATA, "its header is not a JSON object");
    else
        r = parse_header(f, header, f->bytes + sizeof(length) + length, err);
    json_decref(header);
    return r;
}

int st_parse(struct st_file **out, const void *bytes, size_t size, struct err *err)
{
    struct st_file *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_MEMORY, "no memory for a safetensors file");
    f->bytes = bytes;
    f->size = size;
    if (parse_bytes(f, err) < 0) {
        st_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

int st_open(struct st_file **out, const char *path, struct err *err)
{
    struct mapped_file map;
    if (mapped_file_open(&map, path, err) < 0)
        return -1;
    if (st_parse(out, map.bytes, map.size, err) < 0) {
        mapped_file_close(&map);
        return err_prefix(err, "%s: ", path);
    }
    (*out)->map = map;
    return 0;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    mapped_file_close(&f->map);
    json_decref(f->meta);
    free(f->tensor);
    free(f);
}

int st_len(const struct st_file *f)
{
    return f->len;
}

const struct st_tensor *st_at(const struct st_file *f, int i)
{
    return &f->tensor[i];
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    for (int i = 0; i < f->len; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return &f->tensor[i];
    return NULL;
}

const char *st_meta(const struct st_file *f, const char *key)
{
    return json_string_value(json_object_get(f->meta, key));
}

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float float_of_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, part = h & 1023;
    if (exponent == 31)
        return float_of_bits(sign | 0x7F800000 | part << 13);
    if (exponent == 0) {
        float f = (float)part * 0x1p-24f;
        return sign ? -f : f;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | part << 13);
}

/* One number of any type; double holds all exactly, except large I64. */
static double number_at(const struct st_tensor *t, size_t i)
{
    union {
        float    f32;
        double   f64;
        uint16_t u16;
        int64_t  i64;
        int32_t  i32;
        int16_t  i16;
        int8_t   i8;
        uint8_t  u8;
    } v;
    size_t size = dtypes[t->dtype].size;
    memcpy(&v, (const char *)t->data + i * size, size);
    switch (t->dtype) {
    case ST_F32:
        return (double)v.f32;
    case ST_F64:
        return v.f64;
    case ST_F16:
        return (double)float_of_half(v.u16);
    case ST_BF16:
        return (double)float_of_bits((uint32_t)v.u16 << 16);
    case ST_I64:
        return (double)v.i64;
    case ST_I32:
        return (double)v.i32;
    case ST_I16:
        return (double)v.i16;
    case ST_I8:
        return (double)v.i8;
    case ST_U8:
    case ST_BOOL:
    case ST_DTYPES:
        break;
    }
    return (double)v.u8;
}

static int check_count(const struct st_tensor *t, size_t count, struct err *err)
{
    if (t->count == count)
        return 0;
    return err_set(err, ERR_DATA, "tensor %s has %zu numbers; %zu were expected", t->name, t->count, count);
}

int st_to_float(float *dst, const struct st_tensor *t, size_t count, struct err *err)
{
    if (check_count(t, count, err) < 0)
        return -1;
    if (t->dtype == ST_F32)
        memcpy(dst, t->data, t->bytes);
    else
        for (size_t i = 0; i < count; i++)
            dst[i] = (float)number_at(t, i);
    return 0;
}

int st_range_to_float(float *dst, const struct st_tensor *t, size_t from, size_t n, struct err *err)
{
    struct st_tensor part = *t;
    if (from > t->count || n > t->count - from)
        return err_set(err, ERR_BUG, "range %zu to %zu exceeds tensor %s, which has %zu numbers", from, from + n,
                       t->name, t->count);
    part.data = (const char *)t->data + from * st_dtype_size(t->dtype);
    part.bytes = n * st_dtype_size(t->dtype);
    part.count = n;
    return st_to_float(dst, &part, n, err);
}

int st_to_double(double *dst, const struct st_tensor *t, size_t count, struct err *err)
{
    if (check_count(t, count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        dst[i] = number_at(t, i);
    return 0;
}

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
