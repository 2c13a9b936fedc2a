/* SPDX-License-Identifier: Apache-2.0 */
/* pth_walk.c - the saved object from its root, with the path of each leaf; see pth.h */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/weights/pth_internal.h"

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

int pth_walk(const struct pickle *p, pth_leaf_fn *leaf, void *ctx, struct err *err)
{
    struct walk w = {.pickle = p, .leaf = leaf, .ctx = ctx, .err = err};
    return visit(&w, pickle_root(p), 0, 0);
}
