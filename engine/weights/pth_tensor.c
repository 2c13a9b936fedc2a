/* SPDX-License-Identifier: Apache-2.0 */
/* pth_tensor.c - calls of a pickle as tensors: each checked against its storage; see pth.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/weights/pth_internal.h"

enum { REPEATS = 64, REPEATED_MIN = 4096, KEY_MAX = 64, ID_LEGACY = 6, ARGS_MAX = 8 };

/* The items of a tuple; false: it has none of `min` to `max` items. */
static bool items_of(const struct pickle *p, const struct pickle_value *tuple, uint32_t min, uint32_t max,
                     const struct pickle_value *item[ARGS_MAX])
{
    uint32_t next = tuple->first;
    if (tuple->kind != PICKLE_TUPLE || tuple->len < min || tuple->len > max)
        return false;
    for (uint32_t i = 0; i < tuple->len; i++)
        item[i] = pickle_item(p, &next);
    return true;
}

static bool is_storage_class(const struct pickle_value *v)
{
    return v->kind == PICKLE_GLOBAL && pth_role_of(v) == PTH_STORAGE;
}

/* Keys are counters; one with a '/' would lead elsewhere. */
static bool is_key(const struct pickle_value *v)
{
    if (v->kind != PICKLE_TEXT || v->len == 0 || v->len > KEY_MAX)
        return false;
    for (uint32_t i = 0; i < v->len; i++)
        if (v->bytes[i] <= ' ' || v->bytes[i] == '/' || v->bytes[i] == '\\' || v->bytes[i] == '.')
            return false;
    return true;
}

/* ('storage', class, key, device, numbers), in the old form with a view, which must be None. */
int pth_read_id(const struct pickle *p, const struct pickle_value *stored, int fields, struct pth_storage *out,
                struct err *err)
{
    const struct pickle_value *f[ARGS_MAX];
    const uint32_t n = (uint32_t)fields;
    if (!items_of(p, pickle_at(p, stored->args), n, n, f) || f[0]->kind != PICKLE_TEXT || f[0]->len != 7 ||
        memcmp(f[0]->bytes, "storage", 7) != 0 || !is_storage_class(f[1]) || !is_key(f[2]) ||
        f[3]->kind != PICKLE_TEXT)
        return err_set(err, ERR_DATA, "a persistent id of its pickle is not one of a storage");
    if (fields == ID_LEGACY && f[5]->kind != PICKLE_NONE)
        return err_set(err, ERR_DATA, "a storage is a view of another one, as only PyTorch before 0.4 wrote it");
    if (f[4]->kind != PICKLE_INT || f[4]->number < 0)
        return err_set(err, ERR_DATA, "storage %.*s has an invalid count", (int)f[2]->len, f[2]->bytes);
    *out = (struct pth_storage){f[2]->bytes, f[2]->len, pth_dtype_of(f[1]), NULL, (size_t)f[4]->number};
    return 0;
}

/* --- storages ----------------------------------------------------------------------------- */

int pth_storage_compare(const void *a, const void *b)
{
    const struct pth_storage *x = a, *y = b;
    if (x->key_len != y->key_len)
        return x->key_len < y->key_len ? -1 : 1;
    return memcmp(x->key, y->key, x->key_len);
}

static int find_legacy(const struct pth *f, struct pth_storage *s, struct err *err)
{
    const struct pth_storage *found = bsearch(s, f->storage, f->storages, sizeof(*s), pth_storage_compare);
    if (!found || found->dtype != s->dtype || found->count != s->count)
        return err_set(err, ERR_DATA, "storage %.*s is not in the file, or has another type or size", (int)s->key_len,
                       s->key);
    s->bytes = found->bytes;
    return 0;
}

static int find_record(const struct pth *f, struct pth_storage *s, struct err *err)
{
    char name[TENSOR_VIEW_NAME + KEY_MAX + 16];
    const int n = snprintf(name, sizeof(name), "%s/data/%.*s", f->root, (int)s->key_len, s->key);
    const struct zip_record *r = zip_records_find(&f->records, name, (size_t)n);
    size_t bytes;
    if (!r)
        return err_set(err, ERR_DATA, "the file has no record %s, which its pickle names: it is damaged", name);
    if (__builtin_mul_overflow(s->count, st_dtype_size(s->dtype), &bytes) || bytes != r->size)
        return err_set(err, ERR_DATA, "record %s has %zu bytes, not %zu numbers of %zu bytes as its pickle claims",
                       name, r->size, s->count, st_dtype_size(s->dtype));
    s->bytes = r->bytes;
    return 0;
}

static int find_storage(const struct pth *f, const struct pickle_value *stored, struct pth_storage *out,
                        struct err *err)
{
    if (pth_read_id(f->object, stored, f->storage ? 6 : 5, out, err) < 0)
        return -1;
    return f->storage ? find_legacy(f, out, err) : find_record(f, out, err);
}

/* --- tensors ------------------------------------------------------------------------------ */

static int refuse(struct err *err, const char *what)
{
    return err_set(err, ERR_DATA, "a tensor of its pickle %s", what);
}

static int read_sizes(const struct pickle *p, const struct pickle_value *tuple, int64_t *out, struct err *err)
{
    uint32_t next = tuple->first;
    const struct pickle_value *v;
    if (tuple->kind != PICKLE_TUPLE || tuple->len > ST_DIMS)
        return refuse(err, "has no sizes and strides, or more than 8 of them");
    for (int i = 0; (v = pickle_item(p, &next)); i++) {
        if (v->kind != PICKLE_INT || v->number < 0)
            return refuse(err, "has a negative size or stride");
        out[i] = v->number;
    }
    return 0;
}

/* Numbers of the view, and the place of its last one. */
static int measure(struct tensor_view *v, int64_t offset, size_t stored, struct err *err)
{
    int64_t count = 1, last = offset, way;
    for (int i = 0; i < v->ndim; i++)
        if (v->dim[i] == 0)
            count = 0;
    for (int i = 0; i < v->ndim && count > 0; i++)
        if (__builtin_mul_overflow(count, v->dim[i], &count) ||
            __builtin_mul_overflow(v->dim[i] - 1, v->step[i], &way) || __builtin_add_overflow(last, way, &last))
            return refuse(err, "is larger than memory");
    if (count > 0 ? (uint64_t)last >= stored : (uint64_t)offset > stored)
        return refuse(err, "reaches past the end of its storage");
    if ((uint64_t)count > REPEATED_MIN && (uint64_t)count / REPEATS > stored)
        return refuse(err, "repeats its numbers more than 64 times");
    v->count = (size_t)count;
    return 0;
}

/* (storage, offset, sizes, strides, gradient, hooks[, metadata]) */
static int read_tensor(const struct pth *f, const struct pickle_value *call, struct tensor_view *out, struct err *err)
{
    const struct pickle *p = f->object;
    const struct pickle_value *a[ARGS_MAX];
    struct pth_storage s;
    *out = (struct tensor_view){.swapped = f->swapped};
    if (!items_of(p, pickle_at(p, call->args), 6, 7, a) || a[0]->kind != PICKLE_STORED)
        return refuse(err, "has no storage");
    if (a[1]->kind != PICKLE_INT || a[1]->number < 0)
        return refuse(err, "has a negative offset");
    if (a[2]->len != a[3]->len)
        return refuse(err, "does not have as many strides as sizes");
    if (find_storage(f, a[0], &s, err) < 0 || read_sizes(p, a[2], out->dim, err) < 0 ||
        read_sizes(p, a[3], out->step, err) < 0)
        return -1;
    out->ndim = (int)a[2]->len;
    out->dtype = s.dtype;
    if (measure(out, a[1]->number, s.count, err) < 0)
        return -1;
    out->data = s.bytes + (size_t)a[1]->number * st_dtype_size(s.dtype);
    return 0;
}

/* The tensor that a parameter is around; NULL: none. */
static const struct pickle_value *inner(const struct pickle *p, const struct pickle_value *call)
{
    const struct pickle_value *a[ARGS_MAX];
    if (!items_of(p, pickle_at(p, call->args), 3, 4, a) || a[0]->kind != PICKLE_CALL ||
        pth_call_role(p, a[0]) != PTH_TENSOR)
        return NULL;
    return a[0];
}

static int check_call(const struct pth *f, const struct pickle_value *call, struct err *err)
{
    struct tensor_view view;
    const struct pickle *p = f->object;
    const enum pth_role role = pth_call_role(p, call);
    if (role != PTH_DICT && call->len > 0)
        return err_set(err, ERR_DATA, "its pickle sets items of something that is not a dict");
    if (role == PTH_STORAGE)
        return err_set(err, ERR_DATA, "its pickle calls a storage class");
    if (role == PTH_DICT && pickle_at(p, call->args)->len > 0)
        return err_set(err, ERR_DATA, "its pickle makes an OrderedDict from arguments");
    if (role == PTH_TENSOR)
        return read_tensor(f, call, &view, err);
    return role == PTH_PARAMETER && !inner(p, call) ? refuse(err, "is a parameter without a tensor") : 0;
}

int pth_check_values(const struct pth *f, struct err *err)
{
    struct pth_storage s;
    for (uint32_t i = 1; i < pickle_len(f->object); i++) {
        const struct pickle_value *v = pickle_at(f->object, i);
        if (v->kind == PICKLE_CALL && check_call(f, v, err) < 0)
            return -1;
        if (v->kind == PICKLE_STORED && find_storage(f, v, &s, err) < 0)
            return -1;
    }
    return 0;
}

void pth_make_view(const struct pth *f, const struct pickle_value *call, struct tensor_view *out)
{
    struct err none = {0};
    read_tensor(f, pth_call_role(f->object, call) == PTH_PARAMETER ? inner(f->object, call) : call, out, &none);
}

const struct pickle_name pth_names[] = {
    {"collections", "OrderedDict"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_parameter"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy._core.multiarray", "_reconstruct"},
    {"numpy", "ndarray"},
    {"numpy", "dtype"},
    {"_codecs", "encode"},
    {"torch", "FloatStorage"},
    {"torch", "HalfStorage"},
    {"torch", "BFloat16Storage"},
    {"torch", "DoubleStorage"},
    {"torch", "LongStorage"},
    {"torch", "IntStorage"},
    {"torch", "ShortStorage"},
    {"torch", "CharStorage"},
    {"torch", "ByteStorage"},
    {"torch", "BoolStorage"},
    {NULL, NULL},
};

enum { FIRST_NUMPY = 3, FIRST_STORAGE = 8 };

enum pth_role pth_role_of(const struct pickle_value *global)
{
    if (global->number >= FIRST_STORAGE)
        return PTH_STORAGE;
    return global->number >= FIRST_NUMPY ? PTH_NUMPY : (enum pth_role)global->number;
}

enum st_dtype pth_dtype_of(const struct pickle_value *global)
{
    static const enum st_dtype dtypes[] = {ST_F32, ST_F16, ST_BF16, ST_F64, ST_I64,
                                           ST_I32, ST_I16, ST_I8,   ST_U8,  ST_BOOL};
    return dtypes[global->number - FIRST_STORAGE];
}

enum pth_role pth_call_role(const struct pickle *p, const struct pickle_value *call)
{
    return pth_role_of(pickle_at(p, call->callable));
}
