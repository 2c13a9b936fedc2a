/* SPDX-License-Identifier: Apache-2.0 */
/* pth_legacy.c - the form before PyTorch 1.6: pickles in a row, then the storages; see pth.h
 *
 * A magic number, the protocol, facts of the machine, the object, the list of storage keys; then for each key a count
 * of 8 bytes and its numbers, little-endian.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
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
        return err_set(err, ERR_DATA, "its list of storages is not that of its object");
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

int pth_read_legacy(struct pth *f, const unsigned char *bytes, size_t size, struct err *err)
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
