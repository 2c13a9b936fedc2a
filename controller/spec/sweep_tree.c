/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_tree.c - see sweep_tree.h */
#include "controller/spec/sweep_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/spec_diagnostics.h"
#include "engine/base/err.h"

/* What its members cannot have of their own: jobctl reads it once, of the sweep. */
static const char *const alone[] = {"schema", "name", "array", "sweep", "max_parallel", "after", "priority", "secrets",
                                    "env_from", "notify"};

static bool is_or_below(const char *path, const char *above)
{
    const size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && (!path[n] || path[n] == '.');
}

static const struct yaml_node *find(const struct yaml_node *at, const char *path)
{
    char part[SPEC_PATH];
    while (at && *path) {
        const size_t n = strcspn(path, ".");
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        at = at->kind == YAML_MAP ? yaml_get(at, part) : NULL;
        path += n + (path[n] == '.');
    }
    return at;
}

/* ---- keys ---- */

/* "train.optimizer.lr" of a key; -1: it cannot be swept. */
static int read_path(char path[SPEC_PATH], const struct yaml_node *key, const struct yaml_node *root,
                     struct spec_diagnostics *found)
{
    const char *other = spec_row_alias(key->key);
    const size_t n = strlen(key->key);
    if (n == 0 || n >= SPEC_PATH || key->key[0] == '.' || key->key[n - 1] == '.' || strstr(key->key, ".."))
        return spec_diagnostic_at(found, key, SPOT_KEY, "sweep: \"%.60s\" is not the path of a key, such as "
                                  "train.optimizer.lr", key->key);
    snprintf(path, SPEC_PATH, "%s", other ? other : key->key);
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
        if (is_or_below(path, alone[i]))
            return spec_diagnostic_at(found, key, SPOT_KEY, "sweep: all members have the same %s; write it beside "
                                      "sweep", alone[i]);
    const struct yaml_node *given = find(root, path);
    if (given && given->origin)
        return spec_diagnostic_at(found, key, SPOT_KEY, "sweep: %s is given by %.80s as well; remove one of them", path,
                                  given->origin);
    return 0;
}

/* The axis of a key, added if `add`; NULL: it overlaps another, or is one too many, or no memory. */
static struct sweep_axis *axis_of(struct sweep_tree *t, const char *path, const struct yaml_node *key, bool add,
                                  struct spec_diagnostics *found)
{
    for (int i = 0; i < t->naxes; i++) {
        struct sweep_axis *a = &t->axes[i];
        if (!add && strcmp(a->path, path) == 0)
            return a;
        if (strcmp(path, a->path) == 0) {
            spec_diagnostic_at(found, key, SPOT_KEY, "sweep: %s is given twice", path);
            return NULL;
        }
        if (is_or_below(path, a->path) || is_or_below(a->path, path)) {
            spec_diagnostic_at(found, key, SPOT_KEY, "sweep: %s and %s overlap; give each key once", a->path, path);
            return NULL;
        }
    }
    if (!add || t->naxes == SWEEP_KEYS_MAX) {
        spec_diagnostic_at(found, key, SPOT_KEY, add ? "sweep: %s is one key too many; a point has at most %d"
                           : "sweep: the first point has no %s; every point needs the same keys", path, SWEEP_KEYS_MAX);
        return NULL;
    }
    struct sweep_axis *a = &t->axes[t->naxes++];
    snprintf(a->path, sizeof(a->path), "%s", path);
    a->key_at = key->key_at;
    return a;
}

static int make_room(struct sweep_axis *a, int count, struct err *err)
{
    a->nodes = calloc((size_t)count + 1, sizeof(*a->nodes));
    a->values = calloc((size_t)count + 1, sizeof(json_t *));
    return a->nodes && a->values ? 0 : err_set(err, ERR_MEMORY, "out of memory for a sweep");
}

/* ---- a grid ---- */

/* "1-4" as values of their own, at its place. */
static int read_range(struct sweep_axis *a, struct sweep_tree *t, const struct yaml_node *values,
                      struct spec_diagnostics *found, struct err *err)
{
    struct index_list list;
    struct err why = {.code = ERR_NONE};
    char text[16];
    if (index_list_parse(&list, values->text, &why) < 0 || list.at_once > 0) {
        spec_diagnostic_at(found, values, SPOT_VALUE, "sweep: %s: %s", a->path,
                           list.at_once > 0 ? "%N is for array; write max_parallel" : why.text);
        return -1;
    }
    if (make_room(a, list.count, err) < 0)
        return -1;
    for (int i = index_list_next(&list, -1); i >= 0; i = index_list_next(&list, i)) {
        snprintf(text, sizeof(text), "%d", i);
        struct yaml_node *n = yaml_new_scalar(t->doc, text, true, err);
        if (!n)
            return -1;
        n->at = values->at;
        n->origin = values->origin;
        a->nodes[a->count++] = n;
    }
    return 0;
}

static int read_values(struct sweep_axis *a, struct sweep_tree *t, const struct yaml_node *values,
                       struct spec_diagnostics *found, struct err *err)
{
    const bool range = values->kind == YAML_SCALAR && values->plain && isdigit((unsigned char)values->text[0]) &&
                       strpbrk(values->text, "-,");
    if (range)
        return read_range(a, t, values, found, err);
    if (values->kind != YAML_LIST)
        return spec_diagnostic_at(found, values, SPOT_VALUE, "sweep: %s: expected a list of values, such as "
                                  "[1.0e-4, 3.0e-4], or a range, such as 1-4", a->path);
    if (values->count == 0)
        return spec_diagnostic_at(found, values, SPOT_VALUE, "sweep: %s: the list is empty; give at least one value",
                                  a->path);
    if (make_room(a, values->count, err) < 0)
        return -1;
    for (const struct yaml_node *n = values->first; n; n = n->next)
        a->nodes[a->count++] = n;
    return 0;
}

static int read_grid(struct sweep_tree *t, const struct yaml_node *sweep, const struct yaml_node *root,
                     struct spec_diagnostics *found, struct err *err)
{
    char path[SPEC_PATH];
    long points = 1;
    for (const struct yaml_node *n = sweep->first; n; n = n->next) {
        struct sweep_axis *a = read_path(path, n, root, found) < 0 ? NULL : axis_of(t, path, n, true, found);
        if (!a || read_values(a, t, n, found, err) < 0)
            return -1;
        points *= a->count;
        if (points > INDEX_COUNT_MAX)
            return spec_diagnostic_at(found, n, SPOT_KEY, "sweep: %ld or more points, but a sweep has at most %d; split "
                                      "it, or leave out some values", points, INDEX_COUNT_MAX);
    }
    t->points = (int)points;
    return 0;
}

/* ---- a list of points ---- */

static int read_point(struct sweep_tree *t, const struct yaml_node *point, int count, const struct yaml_node *root,
                      struct spec_diagnostics *found, struct err *err)
{
    char path[SPEC_PATH];
    const bool first = t->points == 0;
    for (const struct yaml_node *n = point->first; n; n = n->next) {
        struct sweep_axis *a = read_path(path, n, root, found) < 0 ? NULL : axis_of(t, path, n, first, found);
        if (!a || (first && make_room(a, count, err) < 0))
            return -1;
        if (a->count > t->points)
            return spec_diagnostic_at(found, n, SPOT_KEY, "sweep: %s is given twice in this point", a->path);
        a->nodes[a->count++] = n;
    }
    t->points++;
    for (int i = 0; i < t->naxes; i++)
        if (t->axes[i].count < t->points)
            return spec_diagnostic_at(found, point, SPOT_VALUE, "sweep: this point has no value for %s, which the first "
                                      "point has", t->axes[i].path);
    return 0;
}

static int read_list(struct sweep_tree *t, const struct yaml_node *sweep, const struct yaml_node *root,
                     struct spec_diagnostics *found, struct err *err)
{
    t->list = true;
    if (sweep->count > INDEX_COUNT_MAX)
        return spec_diagnostic_at(found, sweep, SPOT_VALUE, "sweep: %d points, but a sweep has at most %d; split it",
                                  sweep->count, INDEX_COUNT_MAX);
    for (const struct yaml_node *n = sweep->first; n; n = n->next) {
        if (n->kind != YAML_MAP || n->count == 0)
            return spec_diagnostic_at(found, n, SPOT_VALUE, "sweep: expected a point, such as "
                                      "{train.optimizer.lr: 1.0e-4, env.BATCH: 8}");
        if (read_point(t, n, sweep->count, root, found, err) < 0)
            return -1;
    }
    return 0;
}

int sweep_tree_read(struct sweep_tree *t, struct yaml_doc *doc, struct yaml_node *root, struct spec_diagnostics *found,
                    struct err *err)
{
    const struct yaml_node *sweep = yaml_get(root, "sweep");
    *t = (struct sweep_tree){.doc = doc};
    if (sweep->kind == YAML_SCALAR || sweep->count == 0)
        return spec_diagnostic_at(found, sweep, SPOT_VALUE, "sweep: expected keys with their values, such as "
                                  "{train.optimizer.lr: [1.0e-4, 3.0e-4], train.seed: 1-4}, or a list of points");
    return sweep->kind == YAML_MAP ? read_grid(t, sweep, root, found, err) : read_list(t, sweep, root, found, err);
}

void sweep_tree_fini(struct sweep_tree *t)
{
    for (int i = 0; i < t->naxes; i++) {
        for (int k = 0; t->axes[i].values && k < t->axes[i].count; k++)
            json_decref(t->axes[i].values[k]);
        free(t->axes[i].values);
        free(t->axes[i].nodes);
    }
    t->naxes = 0;
}

/* ---- points ---- */

/* Which value of an axis a point has; the last axis varies fastest. */
static int value_at(const struct sweep_tree *t, int axis, int point)
{
    int rest = 1;
    for (int i = axis + 1; i < t->naxes && !t->list; i++)
        rest *= t->axes[i].count;
    return t->list ? point : point / rest % t->axes[axis].count;
}

static int put_node(const struct sweep_tree *t, struct yaml_node *map, const char *key, const struct yaml_node *node,
                    struct yaml_mark key_at, struct err *err)
{
    struct yaml_node copy = *node;
    copy.key_at = key_at;
    if (yaml_get(map, key))
        return yaml_put(t->doc, map, key, &copy, err);
    struct yaml_node *added = yaml_new_scalar(t->doc, "", true, err);
    if (!added)
        return -1;
    copy.next = NULL;
    *added = copy;
    return yaml_put(t->doc, map, key, added, err);
}

/* The map of the last part of the path, made if there is none. */
static struct yaml_node *descend(const struct sweep_tree *t, struct yaml_node *root, const char **path,
                                 const struct yaml_node *node, struct yaml_mark key_at,
                                 struct spec_diagnostics *found, struct err *err)
{
    struct yaml_node *at = root;
    char part[SPEC_PATH];
    for (const char *dot; (dot = strchr(*path, '.')); *path = dot + 1) {
        snprintf(part, sizeof(part), "%.*s", (int)(dot - *path), *path);
        struct yaml_node *next = yaml_get(at, part);
        if (!next || yaml_is_null(next)) {
            struct yaml_node *made = yaml_new_map(t->doc, NULL, err);
            if (!made)
                return NULL;
            made->at = key_at;
            if (put_node(t, at, part, made, key_at, err) < 0)
                return NULL;
            next = yaml_get(at, part);
        }
        if (next->kind != YAML_MAP) {
            spec_diagnostic_at(found, node, SPOT_KEY, "sweep: the file has no map under %s", part);
            return NULL;
        }
        at = next;
    }
    return at;
}

int sweep_tree_put(const struct sweep_tree *t, struct yaml_node *root, int point, struct spec_diagnostics *found,
                   struct err *err)
{
    for (int i = 0; i < t->naxes; i++) {
        const struct yaml_node *node = t->axes[i].nodes[value_at(t, i, point)];
        const struct yaml_mark key_at = t->list ? node->key_at : t->axes[i].key_at;
        const char *path = t->axes[i].path;
        struct yaml_node *map = descend(t, root, &path, node, key_at, found, err);
        if (!map || put_node(t, map, path, node, key_at, err) < 0)
            return -1;
    }
    return 0;
}

void sweep_tree_note(struct sweep_tree *t, int point, const json_t *spec)
{
    for (int i = 0; i < t->naxes; i++) {
        json_t **value = &t->axes[i].values[value_at(t, i, point)];
        if (!*value)
            *value = json_incref(sweep_points_value(spec, t->axes[i].path));
    }
}

static json_t *value_or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

json_t *sweep_tree_canonical(const struct sweep_tree *t)
{
    json_t *out = t->list ? json_array() : json_object();
    for (int i = 0; i < t->naxes && !t->list; i++) {
        json_t *values = json_array();
        for (int k = 0; k < t->axes[i].count; k++)
            json_array_append_new(values, value_or_null(t->axes[i].values[k]));
        json_object_set_new(out, t->axes[i].path, values);
    }
    for (int p = 0; p < t->points && t->list; p++) {
        json_t *point = json_object();
        for (int i = 0; i < t->naxes; i++)
            json_object_set_new(point, t->axes[i].path, value_or_null(t->axes[i].values[p]));
        json_array_append_new(out, point);
    }
    return out;
}
