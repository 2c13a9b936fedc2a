/* SPDX-License-Identifier: Apache-2.0 */
/* spec_check.c - walks the tree; spec_value.c checks values; see spec_check.h
 *
 * Two passes: the first walks the file in its order and reports every mistake;
 * the second walks the rows to put all values in canonical order and fill in
 * defaults, also for invalid keys: rules between other keys need a complete spec.
 */
#include "controller/spec/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"

static void unknown(const char *map, const struct yaml_node *node, struct spec_diagnostics *diagnostics)
{
    char hint[360], in[SPEC_PATH + 8] = "";
    spec_suggest(hint, sizeof(hint), map, node->key);
    if (map[0])
        snprintf(in, sizeof(in), " in %s", map);
    spec_diagnostics_stranger(diagnostics, map);
    spec_diagnostic_at(diagnostics, node, SPOT_KEY, "unknown key \"%.60s\"%s%s", node->key, in, hint);
}

/* Checks the map of a list key by key. -1: a key is wrong. */
static int check_given(json_t *given, const struct yaml_node *item, const char *prefix,
                       const char *where, struct spec_diagnostics *diagnostics)
{
    char row[SPEC_PATH * 2], path[SPEC_PATH * 2];
    int rc = 0;
    for (const struct yaml_node *n = item->first; n; n = n->next) {
        snprintf(row, sizeof(row), "%s.%.60s", prefix, n->key);
        const struct spec_field *field = strchr(n->key, '.') ? NULL : spec_row_find(row);
        snprintf(path, sizeof(path), "%s.%.60s", where, n->key);
        json_t *value = field ? spec_check_value(field, path, n, diagnostics) : NULL;
        if (!field)
            unknown(prefix, n, diagnostics);
        if (!value)
            rc = -1;
        else
            json_object_set_new(given, row, value);
    }
    return rc;
}

json_t *spec_item_complete(const json_t *flat, const char *list, const char **missing)
{
    char prefix[SPEC_PATH];
    struct spec_row row;
    size_t cursor = 0;
    json_t *out = json_object();
    const int n = snprintf(prefix, sizeof(prefix), "%.60s[].", list);
    *missing = NULL;
    while (spec_row_next(&row, &cursor)) {
        const char *leaf = spec_row_leaf(row.path);
        json_t *value = json_object_get(flat, row.path);
        if (strncmp(row.path, prefix, (size_t)n) != 0)
            continue;
        if (!value && !row.field->def)
            *missing = *missing ? *missing : spec_row_leaf(row.field->path);
        else
            json_object_set_new(out, leaf, value ? json_incref(value) : json_loads(row.field->def, JSON_DECODE_ANY, NULL));
    }
    if (!*missing)
        return out;
    json_decref(out);
    return NULL;
}

/* One map of a list of maps; its rows are those of "LIST[]". If a key is wrong, a missing key is
 * not reported: the wrong key may be the missing one misspelt. */
static json_t *check_item(const struct yaml_node *item, const char *list, const char *where,
                          struct spec_diagnostics *diagnostics)
{
    char prefix[SPEC_PATH];
    const char *missing = NULL;
    json_t *given = json_object(), *out = NULL;
    snprintf(prefix, sizeof(prefix), "%.60s[]", list);
    if (check_given(given, item, prefix, where, diagnostics) == 0)
        out = spec_item_complete(given, list, &missing);
    if (missing)
        spec_diagnostic_at(diagnostics, item, SPOT_VALUE, "%s: %s is missing", where, missing);
    json_decref(given);
    return out;
}

static json_t *check_items(const struct yaml_node *node, const char *path, struct spec_diagnostics *diagnostics)
{
    char where[SPEC_PATH];
    int i = 0, bad = 0;
    if (node->kind != YAML_LIST || node->count > SPEC_ITEMS_MOST) {
        spec_diagnostic_at(diagnostics, node, SPOT_VALUE, "%s: expected a list of at most %d maps", path,
                           SPEC_ITEMS_MOST);
        return NULL;
    }
    json_t *list = json_array();
    for (const struct yaml_node *e = node->first; e; e = e->next, i++) {
        snprintf(where, sizeof(where), "%.60s[%d]", path, i);
        json_t *item = NULL;
        if (e->kind != YAML_MAP)
            spec_diagnostic_at(diagnostics, e, SPOT_VALUE,
                               "%s: expected a map such as {name: loss, pattern: '...'}", where);
        else
            item = check_item(e, path, where, diagnostics);
        bad += !item || json_array_append_new(list, item) < 0;
    }
    if (bad == 0)
        return list;
    json_decref(list);
    return NULL;
}

static void check_map(json_t *flat, const struct yaml_node *map, const char *prefix,
                      struct spec_diagnostics *diagnostics);

/* A text instead of a map with a key of the map's own name, such as `image: NAME`, is the value of that key. */
static bool check_short(json_t *flat, const char *path, const struct yaml_node *node,
                        struct spec_diagnostics *diagnostics)
{
    char own[SPEC_PATH * 3];
    snprintf(own, sizeof(own), "%s.%s", path, spec_row_leaf(path));
    const struct spec_field *row = node->kind == YAML_SCALAR ? spec_row_find(own) : NULL;
    json_t *value = row ? spec_check_value(row, path, node, diagnostics) : NULL;
    if (value)
        json_object_set_new(flat, own, value);
    else if (row)
        spec_diagnostics_suppress(diagnostics, path);
    return row != NULL;
}

static void check_block(json_t *flat, const struct spec_field *row, const char *path,
                        const struct yaml_node *node, struct spec_diagnostics *diagnostics)
{
    const bool none = yaml_is_null(node) && row->def;
    json_object_set_new(flat, path, none ? json_null() : json_true());
    if (none || yaml_is_null(node))
        return;
    if (node->kind == YAML_MAP) {
        check_map(flat, node, path, diagnostics);
        return;
    }
    if (check_short(flat, path, node, diagnostics))
        return;
    spec_check_value(row, path, node, diagnostics);
    spec_diagnostics_suppress(diagnostics, path);
}

/* One entry of the file; its canonical value is stored in `flat` under its full path. */
static void check_entry(json_t *flat, const struct yaml_node *node, const char *map,
                        struct spec_diagnostics *diagnostics)
{
    char path[SPEC_PATH * 2];
    int n = snprintf(path, sizeof(path), "%s%s%s", map, map[0] ? "." : "", node->key);
    const char *alias = n < SPEC_PATH ? spec_row_alias(path) : NULL;
    if (alias)
        snprintf(path, sizeof(path), "%s", alias);
    const struct spec_field *row = n < SPEC_PATH && !strchr(node->key, '.') ? spec_row_find(path)
                                                                            : NULL;
    if (!row) {
        unknown(map, node, diagnostics);
    } else if (json_object_get(flat, path)) {
        spec_diagnostic_at(diagnostics, node, SPOT_KEY, "%s: given twice, as %s and under another name", path,
                           node->key);
    } else if (strcmp(path, "sweep") == 0) {    /* its points are put into the tree (sweep_tree.h) */
        json_object_set_new(flat, path, json_object());
    } else if (row->type == FIELD_MAP) {
        check_block(flat, row, path, node, diagnostics);
    } else {
        json_t *value = row->type == FIELD_ITEMS ? check_items(node, path, diagnostics)
                                                 : spec_check_value(row, path, node, diagnostics);
        if (!value)
            spec_diagnostics_suppress(diagnostics, path);
        else
            json_object_set_new(flat, path, value);
    }
}

static void check_map(json_t *flat, const struct yaml_node *map, const char *prefix,
                      struct spec_diagnostics *diagnostics)
{
    for (const struct yaml_node *n = map->first; n; n = n->next)
        check_entry(flat, n, prefix, diagnostics);
}

/* The object that holds the last part of `path`, or NULL if a map above is null. */
static json_t *parent_of(json_t *root, const char *path)
{
    json_t *at = root;
    for (const char *dot; at && (dot = strchr(path, '.')); path = dot + 1) {
        char part[SPEC_PATH];
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        at = json_object_get(at, part);
    }
    return json_is_object(at) ? at : NULL;
}

json_t *spec_unfold(const json_t *flat, struct err *err)
{
    struct spec_row row;
    size_t cursor = 0;
    json_t *root = json_object();
    while (root && spec_row_next(&row, &cursor)) {
        json_t *parent = parent_of(root, row.path);
        json_t *given = json_object_get(flat, row.path);
        json_t *value;
        if (!parent)
            continue;
        if (row.field->type == FIELD_MAP)
            value = given ? (json_is_null(given) ? json_null() : json_object())
                          : row.field->def ? json_null() : json_object();
        else if (given)
            value = json_incref(given);
        else if (row.field->def)
            value = json_loads(row.field->def, JSON_DECODE_ANY, NULL);
        else
            continue;
        if (json_object_set_new(parent, spec_row_leaf(row.path), value) < 0) {
            err_set(err, ERR_BUG, "the default of %s is not JSON: %s", row.path, row.field->def);
            json_decref(root);
            return NULL;
        }
    }
    return root;
}

int spec_check(json_t **out, const struct yaml_node *root, struct spec_diagnostics *diagnostics, struct err *err)
{
    json_t *flat = json_object();
    check_map(flat, root, "", diagnostics);
    *out = spec_unfold(flat, err);
    json_decref(flat);
    if (!*out)
        return err_set(err, ERR_MEMORY, "out of memory while checking the spec");
    return 0;
}
