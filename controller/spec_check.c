/* SPDX-License-Identifier: Apache-2.0 */
/* spec_check.c - the walk over the tree; values are spec_value.c's; see spec_check.h
 *
 * Two passes: over the file, in its order, so that the first mistake of the file
 * is the one that is told; then over the rows, to put everything in canonical
 * order and fill in defaults.
 */
#include "controller/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "controller/spec_rows.h"
#include "controller/spec_suggest.h"
#include "controller/yaml.h"
#include "engine/err.h"

static int later(const struct spec_field *row, const char *path, const struct yaml_node *node,
                 struct spec_place *place, struct err *err)
{
    *place = (struct spec_place){.node = node, .is_key = 1};
    return err_set(err, ERR_USAGE, "%s: %s%s", path,
                   strstr(row->later, "not supported yet") ? "" : "not supported yet: ",
                   row->later);
}

static bool equals_default(const struct spec_field *row, const json_t *value)
{
    json_t *def = row->def ? json_loads(row->def, JSON_DECODE_ANY, NULL) : NULL;
    bool same = def && json_equal(def, value);
    json_decref(def);
    return same;
}

static int unknown(const char *map, const struct yaml_node *node, struct spec_place *place,
                   struct err *err)
{
    char hint[360], in[SPEC_PATH + 8] = "";
    spec_suggest(hint, sizeof(hint), map, node->key);
    if (map[0])
        snprintf(in, sizeof(in), " in %s", map);
    *place = (struct spec_place){.node = node, .is_key = 1};
    return err_set(err, ERR_USAGE, "unknown key \"%.60s\"%s%s", node->key, in, hint);
}

static int check_map(json_t *flat, const struct yaml_node *map, const char *prefix,
                     struct spec_place *place, struct err *err);

/* One map of a list of maps; its rows are those of "LIST[]". */
static json_t *check_item(const struct yaml_node *item, const char *list, const char *where,
                          struct spec_place *place, struct err *err)
{
    char path[SPEC_PATH * 2], prefix[SPEC_PATH];
    struct spec_row row;
    size_t cursor = 0;
    json_t *given = json_object(), *out = json_object();
    snprintf(prefix, sizeof(prefix), "%.60s[]", list);
    for (const struct yaml_node *n = item->first; n; n = n->next) {
        snprintf(path, sizeof(path), "%s.%.60s", prefix, n->key);
        const struct spec_field *field = strchr(n->key, '.') ? NULL : spec_row_find(path);
        if (!field) {
            unknown(prefix, n, place, err);
            goto failed;
        }
        snprintf(path, sizeof(path), "%s.%.60s", where, n->key);
        json_t *value = spec_check_value(field, path, n, place, err);
        if (!value)
            goto failed;
        json_object_set_new(given, n->key, value);
    }
    size_t len = strlen(prefix);
    while (spec_row_next(&row, &cursor)) {
        if (strncmp(row.path, prefix, len) != 0 || row.path[len] != '.')
            continue;
        const char *leaf = spec_row_leaf(row.path);
        json_t *value = json_object_get(given, leaf);
        if (!value && !row.field->def) {
            *place = (struct spec_place){.node = item};
            err_set(err, ERR_USAGE, "%s: %s is missing", where, leaf);
            goto failed;
        }
        json_object_set_new(out, leaf,
                            value ? json_incref(value)
                                  : json_loads(row.field->def, JSON_DECODE_ANY, NULL));
    }
    json_decref(given);
    return out;
failed:
    json_decref(given);
    json_decref(out);
    return NULL;
}

static json_t *check_items(const struct yaml_node *node, const char *path,
                           struct spec_place *place, struct err *err)
{
    enum { MOST = 32 };
    char where[SPEC_PATH];
    int i = 0;
    *place = (struct spec_place){.node = node};
    if (node->kind != YAML_LIST || node->count > MOST) {
        err_set(err, ERR_USAGE, "%s: expected a list of at most %d maps", path, MOST);
        return NULL;
    }
    json_t *list = json_array();
    for (const struct yaml_node *e = node->first; e; e = e->next, i++) {
        snprintf(where, sizeof(where), "%.60s[%d]", path, i);
        json_t *item = NULL;
        *place = (struct spec_place){.node = e};
        if (e->kind != YAML_MAP)
            err_set(err, ERR_USAGE, "%s: expected a map such as {name: loss, pattern: '...'}", where);
        else
            item = check_item(e, path, where, place, err);
        if (!item || json_array_append_new(list, item) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* One entry of the file; its canonical value goes into `flat` under its whole path. */
static int check_entry(json_t *flat, const struct yaml_node *node, const char *map,
                       struct spec_place *place, struct err *err)
{
    char path[SPEC_PATH * 2];
    int n = snprintf(path, sizeof(path), "%s%s%s", map, map[0] ? "." : "", node->key);
    const char *alias = n < SPEC_PATH ? spec_row_alias(path) : NULL;
    if (alias)
        snprintf(path, sizeof(path), "%s", alias);
    const struct spec_field *row = n < SPEC_PATH && !strchr(node->key, '.') ? spec_row_find(path)
                                                                            : NULL;
    if (!row)
        return unknown(map, node, place, err);
    if (json_object_get(flat, path)) {
        *place = (struct spec_place){.node = node, .is_key = 1};
        return err_set(err, ERR_USAGE, "%s: given twice, as %s and under another name", path,
                       node->key);
    }
    if (row->later && !row->def)
        return later(row, path, node, place, err);
    if (row->type == FIELD_MAP) {
        bool none = yaml_is_null(node) && row->def;
        if (row->later && !none)
            return later(row, path, node, place, err);
        if (none)
            return json_object_set_new(flat, path, json_null());
        json_object_set_new(flat, path, json_true());
        if (node->kind != YAML_MAP && !yaml_is_null(node))
            return spec_check_value(row, path, node, place, err) ? 0 : -1;
        return check_map(flat, node, path, place, err);
    }
    json_t *value = row->type == FIELD_ITEMS ? check_items(node, path, place, err)
                                             : spec_check_value(row, path, node, place, err);
    if (!value)
        return -1;
    bool refused = row->later && !equals_default(row, value);
    json_object_set_new(flat, path, value);
    return refused ? later(row, path, node, place, err) : 0;
}

static int check_map(json_t *flat, const struct yaml_node *map, const char *prefix,
                     struct spec_place *place, struct err *err)
{
    for (const struct yaml_node *n = map->first; n; n = n->next)
        if (check_entry(flat, n, prefix, place, err) < 0)
            return -1;
    return 0;
}

/* The object that holds the last part of `path`, or NULL where a map above is null. */
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

static json_t *unfold(const json_t *flat, struct err *err)
{
    struct spec_row row;
    size_t cursor = 0;
    json_t *root = json_object();
    while (root && spec_row_next(&row, &cursor)) {
        json_t *parent = parent_of(root, row.path);
        json_t *given = json_object_get(flat, row.path);
        json_t *value;
        if (!parent || (row.field->later && !row.field->def))
            continue;
        if (row.field->later && strcmp(row.field->def, "null") == 0)
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

int spec_check(json_t **out, const struct yaml_node *root, struct spec_place *place,
               struct err *err)
{
    *out = NULL;
    *place = (struct spec_place){.node = root};
    json_t *flat = json_object();
    int rc = check_map(flat, root, "", place, err);
    if (rc == 0 && !(*out = unfold(flat, err)))
        rc = -1;
    json_decref(flat);
    return rc;
}
