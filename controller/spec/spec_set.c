/* SPDX-License-Identifier: Apache-2.0 */
/* spec_set.c - see spec_set.h */
#include "controller/spec/spec_set.h"

#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/err.h"

/* A text that is short for a map, such as `image: NAME` for `image: {image: NAME}`: that map in its place.  NULL: it is
 * no such text, or there is no memory. */
static struct yaml_node *widen(struct yaml_doc *doc, struct yaml_node *map, const char *key,
                               const struct yaml_node *given, const char *origin, struct err *err)
{
    char own[2 * SPEC_PATH];
    snprintf(own, sizeof(own), "%.90s.%.90s", key, key);
    if (given->kind != YAML_SCALAR || !spec_row_find(own))
        return NULL;
    struct yaml_node *value = yaml_new_scalar(doc, given->text, given->plain, err);
    struct yaml_node *wide = yaml_new_map(doc, origin, err);
    if (value)
        value->at = value->key_at = given->at;
    if (!value || !wide || yaml_put(doc, wide, key, value, err) < 0 || yaml_put(doc, map, key, wide, err) < 0)
        return NULL;
    return yaml_get(map, key);
}

/* The map that holds the last part of `path`; created if missing. */
static struct yaml_node *descend(struct yaml_doc *doc, struct yaml_node *root, char *path,
                                 char **leaf, const char *origin, struct err *err)
{
    struct yaml_node *at = root, *wide;
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = '\0';
        struct yaml_node *next = yaml_get(at, path);
        if (!next || yaml_is_null(next)) {
            if (!(next = yaml_new_map(doc, origin, err)) ||
                yaml_put(doc, at, path, next, err) < 0)
                return NULL;
            next = yaml_get(at, path);
        }
        if (next->kind != YAML_MAP && at == root && (wide = widen(doc, at, path, next, origin, err)))
            next = wide;
        if (next->kind != YAML_MAP) {
            err_set(err, ERR_USAGE, "%s: the file has no map under %s", origin, path);
            return NULL;
        }
        at = next;
    }
    *leaf = path;
    return at;
}

int spec_set(struct yaml_doc *doc, struct yaml_node *root, const char *assignment, struct err *err)
{
    char origin[160];
    snprintf(origin, sizeof(origin), "--set %s", assignment);
    return spec_set_as(doc, root, assignment, origin, err);
}

int spec_set_as(struct yaml_doc *doc, struct yaml_node *root, const char *assignment, const char *origin,
                struct err *err)
{
    char path[SPEC_PATH];
    const char *equals = strchr(assignment, '=');
    size_t size = equals ? (size_t)(equals - assignment) : 0;
    if (size == 0)
        return err_set(err, ERR_USAGE, "%s: expected KEY=VALUE, such as --set train.steps=100", origin);
    if (size >= sizeof(path) || assignment[0] == '.' || equals[-1] == '.' ||
        (strstr(assignment, "..") && strstr(assignment, "..") < equals))
        return err_set(err, ERR_USAGE, "%s: \"%.*s\" is not the path of a key, such as "
                       "train.steps", origin, (int)(size > 60 ? 60 : size), assignment);
    snprintf(path, sizeof(path), "%.*s", (int)size, assignment);
    const char *canonical = spec_row_alias(path);
    if (canonical)
        snprintf(path, sizeof(path), "%s", canonical);

    char *leaf;
    struct yaml_node *value, *map;
    if (yaml_parse_value(doc, &value, equals + 1, origin, err) < 0)
        return err_prefix(err, "%s: ", origin);
    if (!(map = descend(doc, root, path, &leaf, origin, err)))
        return -1;
    return yaml_put(doc, map, leaf, value, err);
}
