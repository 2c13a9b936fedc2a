/* SPDX-License-Identifier: Apache-2.0 */
/* pth.c - see pth.h */
#include "engine/weights/pth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/weights/pth_internal.h"

enum { TENSORS_MAX = 65536 }; /* 23 MB of views; a training file of a large model has some ten thousand */

static bool is_zip(const unsigned char *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0;
}

static bool is_pickle(const unsigned char *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
}

bool pth_is(const unsigned char *bytes, size_t size)
{
    return is_zip(bytes, size) || (is_pickle(bytes, size) && (size < 9 || bytes[8] != '{'));
}

static int read_form(struct pth *f, const unsigned char *bytes, size_t size, struct err *err)
{
    if (is_zip(bytes, size))
        return pth_read_zip(f, bytes, size, err);
    if (is_pickle(bytes, size))
        return pth_read_legacy(f, bytes, size, err);
    return err_set(err, ERR_DATA, "not a file of torch.save(), although it is named like one: it begins with \"%.*s\"",
                   (int)(size < 16 ? size : 16), (const char *)bytes);
}

static void count_tensor(void *ctx, const char *path, const struct pickle_value *value, bool tensor)
{
    int *n = ctx;
    (void)path, (void)value;
    *n += tensor;
}

static void add_tensor(void *ctx, const char *path, const struct pickle_value *value, bool tensor)
{
    struct pth *f = ctx;
    if (!tensor)
        return;
    struct tensor_view *v = &f->tensor[f->len++];
    pth_make_view(f, value, v);
    snprintf(v->name, sizeof(v->name), "%s", path);
}

static int list_tensors(struct pth *f, struct err *err)
{
    int n = 0;
    if (pth_walk(f->object, count_tensor, &n, err) < 0)
        return -1;
    if (n > TENSORS_MAX)
        return err_set(err, ERR_DATA, "its object has %d tensors; up to %d are read", n, TENSORS_MAX);
    if (!(f->tensor = calloc((size_t)n + 1, sizeof(*f->tensor))))
        return err_set(err, ERR_MEMORY, "no memory for %d tensors", n);
    return pth_walk(f->object, add_tensor, f, err);
}

int pth_parse(struct pth **out, const unsigned char *bytes, size_t size, struct err *err)
{
    struct pth *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_MEMORY, "no memory for a .pth file");
    if (read_form(f, bytes, size, err) < 0 || list_tensors(f, err) < 0) {
        pth_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

int pth_open(struct pth **out, const char *path, struct err *err)
{
    struct mapped_file map;
    if (mapped_file_open(&map, path, err) < 0)
        return -1;
    if (pth_parse(out, map.bytes, map.size, err) < 0) {
        mapped_file_close(&map);
        return err_prefix(err, "%s: ", path);
    }
    (*out)->map = map;
    return 0;
}

void pth_close(struct pth *f)
{
    if (!f)
        return;
    pickle_free(f->object);
    zip_records_free(&f->records);
    mapped_file_close(&f->map);
    free(f->storage);
    free(f->tensor);
    free(f);
}

int pth_len(const struct pth *f)
{
    return f->len;
}

const struct tensor_view *pth_at(const struct pth *f, int i)
{
    return &f->tensor[i];
}

struct values {
    pth_value_fn *fn;
    void         *ctx;
};

static void tell_value(void *ctx, const char *path, const struct pickle_value *value, bool tensor)
{
    struct values *v = ctx;
    if (!tensor && value->kind < PICKLE_TUPLE)
        v->fn(v->ctx, path, value);
}

void pth_each_value(const struct pth *f, pth_value_fn *fn, void *ctx)
{
    struct values v = {fn, ctx};
    struct err none = {0};
    pth_walk(f->object, tell_value, &v, &none);
}
