/* SPDX-License-Identifier: Apache-2.0 */
/* pth.c - see pth.h */
#include "engine/weights/pth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/weights/pth_internal.h"

enum { PROTOCOL = 1001, ID_FIELDS = 6 };

static const unsigned char magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

struct cursor {
    const unsigned char *at, *end;
};

static int read_pickle(struct pickle **out, struct cursor *c, struct err *err)
{
    size_t used;
    if (pickle_parse(out, &used, c->at, (size_t)(c->end - c->at), pth_names, err) < 0)
        return -1;
    c->at += used;
    return 0;
}

static bool is_magic(const struct pickle_value *v)
{
    return v->kind == PICKLE_LONG && v->len == sizeof(magic) && memcmp(v->bytes, magic, sizeof(magic)) == 0;
}

static bool is_protocol(const struct pickle_value *v)
{
    return v->kind == PICKLE_INT && v->number == PROTOCOL;
}

static bool is_dict(const struct pickle_value *v)
{
    return v->kind == PICKLE_DICT;
}

/* One of the pickles before the object. */
static int skip_pickle(struct cursor *c, bool (*is)(const struct pickle_value *), struct err *err)
{
    struct pickle *p;
    if (read_pickle(&p, c, err) < 0)
        return -1;
    const bool right = is(pickle_root(p));
    pickle_free(p);
    return right ? 0 : err_set(err, ERR_DATA, "a pickle that torch.save() did not write");
}

/* The storages that the object names, each once. */
static int list_storages(struct pth *f, struct err *err)
{
    const uint32_t values = pickle_len(f->object);
    size_t n = 0;
    for (uint32_t i = 1; i < values; i++)
        n += pickle_at(f->object, i)->kind == PICKLE_STORED;
    if (!(f->storage = calloc(n + 1, sizeof(*f->storage))))
        return err_set(err, ERR_MEMORY, "no memory for %zu storages", n);
    for (uint32_t i = 1; i < values; i++) {
        const struct pickle_value *v = pickle_at(f->object, i);
        if (v->kind == PICKLE_STORED && pth_read_id(f->object, v, ID_FIELDS, &f->storage[f->storages++], err) < 0)
            return -1;
    }
    qsort(f->storage, f->storages, sizeof(*f->storage), pth_storage_compare);
    size_t once = 0;
    for (size_t i = 0; i < f->storages; i++)
        if (once == 0 || pth_storage_compare(&f->storage[once - 1], &f->storage[i]) != 0)
            f->storage[once++] = f->storage[i];
    f->storages = once;
    return 0;
}

static int read_storage(struct pth_storage *s, struct cursor *c, struct err *err)
{
    uint64_t count;
    const size_t size = st_dtype_size(s->dtype);
    if (s->bytes)
        return err_set(err, ERR_DATA, "storage %.*s is listed twice", (int)s->key_len, s->key);
    if (c->end - c->at < 8)
        return err_set(err, ERR_DATA, "the file ends before storage %.*s: truncated", (int)s->key_len, s->key);
    memcpy(&count, c->at, sizeof(count));
    c->at += 8;
    if (count != s->count || count > (size_t)(c->end - c->at) / size)
        return err_set(err, ERR_DATA, "storage %.*s claims %llu numbers; its pickle has %zu, and %zu bytes follow: "
                       "damaged or truncated", (int)s->key_len, s->key, (unsigned long long)count, s->count,
                       (size_t)(c->end - c->at));
    s->bytes = c->at;
    c->at += count * size;
    return 0;
}

static int read_storages(struct pth *f, const struct pickle *keys, struct cursor *c, struct err *err)
{
    const struct pickle_value *list = pickle_root(keys), *key;
    uint32_t next = list->first;
    if (list->kind != PICKLE_LIST || list->len != f->storages)
        return err_set(err, ERR_DATA, "its list of storages does not match its object");
    while ((key = pickle_item(keys, &next))) {
        const struct pth_storage want = {.key = key->bytes, .key_len = key->len};
        struct pth_storage *s = key->kind == PICKLE_TEXT
                                    ? bsearch(&want, f->storage, f->storages, sizeof(want), pth_storage_compare) : NULL;
        if (!s)
            return err_set(err, ERR_DATA, "its list has a storage that its object does not name");
        if (read_storage(s, c, err) < 0)
            return -1;
    }
    if (c->at < c->end)
        return err_set(err, ERR_DATA, "%zu bytes follow its last storage", (size_t)(c->end - c->at));
    return 0;
}

static int pth_read_legacy(struct pth *f, const unsigned char *bytes, size_t size, struct err *err)
{
    struct cursor c = {bytes, bytes + size};
    struct pickle *keys = NULL;
    if (skip_pickle(&c, is_magic, err) < 0 || skip_pickle(&c, is_protocol, err) < 0 ||
        skip_pickle(&c, is_dict, err) < 0 || read_pickle(&f->object, &c, err) < 0 || list_storages(f, err) < 0 ||
        read_pickle(&keys, &c, err) < 0)
        return -1;
    const int rc = read_storages(f, keys, &c, err);
    pickle_free(keys);
    return rc < 0 ? -1 : pth_check_values(f, err);
}

enum { VERSION_MAX = 10 };

static const char pickle_record[] = "/data.pkl";

/* The one record ROOT/data.pkl. */
static const struct zip_record *find_pickle(struct pth *f, struct err *err)
{
    const struct zip_record *found = NULL;
    const size_t tail = sizeof(pickle_record) - 1;
    for (size_t i = 0; i < f->records.len; i++) {
        const struct zip_record *r = &f->records.record[i];
        if (r->name_len <= tail || memcmp(r->name + r->name_len - tail, pickle_record, tail) != 0)
            continue;
        if (found)
            return err_set(err, ERR_DATA, "a zip archive with two records data.pkl"), NULL;
        found = r;
    }
    if (!found || found->name_len - tail >= sizeof(f->root))
        return err_set(err, ERR_DATA, "a zip archive without data.pkl: torch.save() did not write it"), NULL;
    memcpy(f->root, found->name, found->name_len - tail);
    return found;
}

/* The text of a small record; "" if there is none. */
static void read_small(const struct pth *f, const char *name, char text[16])
{
    char path[TENSOR_VIEW_NAME + 32];
    const int n = snprintf(path, sizeof(path), "%s/%s", f->root, name);
    const struct zip_record *r = zip_records_find(&f->records, path, (size_t)n);
    snprintf(text, 16, "%.*s", r ? (int)(r->size < 15 ? r->size : 15) : 0, r ? (const char *)r->bytes : "");
}

static int check_version(const struct pth *f, struct err *err)
{
    char text[16], *end;
    read_small(f, "version", text);
    if (!text[0])
        read_small(f, ".data/version", text);
    const long version = strtol(text, &end, 10);
    if (version >= 1 && version <= VERSION_MAX && strcmp(end, "\n") == 0)
        return 0;
    return err_set(err, ERR_DATA, "its record \"version\" says \"%.*s\"; versions 1 to %d are known",
                   (int)strcspn(text, "\n"), text, VERSION_MAX);
}

static int read_byte_order(struct pth *f, struct err *err)
{
    char text[16];
    read_small(f, "byteorder", text);
    if (text[0] && strcmp(text, "little") != 0 && strcmp(text, "big") != 0)
        return err_set(err, ERR_DATA, "its record \"byteorder\" says \"%s\", neither little nor big", text);
    f->swapped = text[0] == 'b';
    return 0;
}

static int check_sums(const struct pth *f, struct err *err)
{
    for (size_t i = 0; i < f->records.len; i++)
        if (zip_records_check(&f->records.record[i], err) < 0)
            return -1;
    return 0;
}

/* The two forms; both set f->object and where storages are */
static int pth_read_zip(struct pth *f, const unsigned char *bytes, size_t size, struct err *err)
{
    const struct zip_record *pickle;
    size_t used;
    if (zip_records_read(&f->records, bytes, size, err) < 0 || !(pickle = find_pickle(f, err)) ||
        check_version(f, err) < 0 || read_byte_order(f, err) < 0 ||
        pickle_parse(&f->object, &used, pickle->bytes, pickle->size, pth_names, err) < 0)
        return -1;
    if (used != pickle->size)
        return err_set(err, ERR_DATA, "%zu bytes follow the end of its pickle", pickle->size - used);
    return pth_check_values(f, err) < 0 ? -1 : check_sums(f, err);
}

/* An object that contains itself has no end: depth and steps are counted. */
enum { DEPTH_MAX = 64, STEPS_MAX = 1000000 };

struct walk {
    const struct pickle *pickle;
    pth_leaf_fn         *leaf;
    void                *ctx;
    struct err          *err;
    int                  steps;
    char                 path[TENSOR_VIEW_NAME];
};

static int visit(struct walk *w, const struct pickle_value *v, size_t length, int depth);

/* Visits an item whose part of the path is the n bytes of `part`. */
static int visit_item(struct walk *w, const struct pickle_value *v, size_t length, const char *part, size_t n,
                      int depth)
{
    if (length + 1 + n >= sizeof(w->path) || memchr(part, '\0', n))
        return err_set(w->err, ERR_DATA, "a name of its object has more than %d characters, or a zero byte: %.60s",
                       TENSOR_VIEW_NAME - 1, w->path);
    w->path[length] = '/';
    memcpy(w->path + length + 1, part, n);
    w->path[length + 1 + n] = '\0';
    return visit(w, v, length + 1 + n, depth + 1);
}

static int visit_list(struct walk *w, const struct pickle_value *list, size_t length, int depth)
{
    uint32_t next = list->first;
    const struct pickle_value *item;
    for (int i = 0; (item = pickle_item(w->pickle, &next)); i++) {
        char part[16];
        const int n = snprintf(part, sizeof(part), "%d", i);
        if (visit_item(w, item, length, part, (size_t)n, depth) < 0)
            return -1;
    }
    return 0;
}

static int visit_dict(struct walk *w, const struct pickle_value *dict, size_t length, int depth)
{
    uint32_t next = dict->first;
    const struct pickle_value *key, *value;
    while ((key = pickle_item(w->pickle, &next)) && (value = pickle_item(w->pickle, &next))) {
        char part[24] = "";
        if (key->kind == PICKLE_INT)
            snprintf(part, sizeof(part), "%" PRId64, key->number);
        else if (key->kind != PICKLE_TEXT)
            return err_set(w->err, ERR_DATA, "a key in its object, below \"%.60s\", is neither text nor integer",
                           w->path);
        const bool text = key->kind == PICKLE_TEXT;
        if (visit_item(w, value, length, text ? (const char *)key->bytes : part, text ? key->len : strlen(part),
                       depth) < 0)
            return -1;
        w->path[length] = '\0';
    }
    return 0;
}

static int visit_call(struct walk *w, const struct pickle_value *call, size_t length, int depth)
{
    const enum pth_role role = pth_call_role(w->pickle, call);
    if (role == PTH_DICT)
        return visit_dict(w, call, length, depth);
    w->leaf(w->ctx, w->path, call, role == PTH_TENSOR || role == PTH_PARAMETER);
    return 0;
}

static int visit(struct walk *w, const struct pickle_value *v, size_t length, int depth)
{
    if (depth > DEPTH_MAX || ++w->steps > STEPS_MAX)
        return err_set(w->err, ERR_DATA, "its object is nested more than %d deep, contains itself, or has more than "
                       "a million parts", DEPTH_MAX);
    switch (v->kind) {
    case PICKLE_TUPLE:
    case PICKLE_LIST:
        return visit_list(w, v, length, depth);
    case PICKLE_DICT:
        return visit_dict(w, v, length, depth);
    case PICKLE_CALL:
        return visit_call(w, v, length, depth);
    default:
        w->leaf(w->ctx, w->path, v, false);
        return 0;
    }
}

static int pth_walk(const struct pickle *p, pth_leaf_fn *leaf, void *ctx, struct err *err)
{
    struct walk w = {.pickle = p, .leaf = leaf, .ctx = ctx, .err = err};
    return visit(&w, pickle_root(p), 0, 0);
}

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
