/* SPDX-License-Identifier: Apache-2.0 */
/* canonical.c - canonical JSON to a tree, the checks of a file, and a comparison of both; see canonical.h */
#include "controller/spec/canonical.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/base/yaml_write.h"
#include "controller/spec/jobspec.h"
#include "controller/spec/spec_check.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { SCHEMA = 1, PATH_TEXT = 2 * SPEC_PATH, ORIGIN_DIGITS = 32, VALUE_TEXT = 60 };

struct tree {
    struct yaml_doc *doc;
    struct err      *err; /* set: a node could not be made */
};

/* --- canonical JSON as the tree of a file ------------------------------------------------------------ */

static struct yaml_node *plain(struct tree *t, const char *text)
{
    return yaml_new_scalar(t->doc, text, true, t->err);
}

static struct yaml_node *scalar(struct tree *t, const json_t *v)
{
    char text[40];
    if (json_is_string(v))
        return yaml_new_scalar(t->doc, json_string_value(v), false, t->err);
    if (json_is_integer(v))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(text, sizeof(text), "%.17g", json_real_value(v));
    else
        snprintf(text, sizeof(text), "%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
    return plain(t, text);
}

/* As spec_units.h reads it: no exponent, at most 15 digits. */
static void seconds_text(char *out, size_t size, const json_t *v)
{
    const double seconds = json_number_value(v);
    const int whole = (int)fmin(fmax(floor(log10(fmax(fabs(seconds), 1))) + 1, 1), 14);
    snprintf(out, size, "%.*fs", 14 - whole, seconds);
}

static struct yaml_node *duration(struct tree *t, const json_t *v)
{
    char text[400];
    seconds_text(text, sizeof(text), v);
    return plain(t, text);
}

static struct yaml_node *range(struct tree *t, const json_t *v)
{
    char low[400], high[400], both[820];
    seconds_text(low, sizeof(low), json_array_get(v, 0));
    seconds_text(high, sizeof(high), json_array_get(v, 1));
    snprintf(both, sizeof(both), "%s..%s", low, high);
    return plain(t, both);
}

static struct yaml_node *every(struct tree *t, const json_t *v)
{
    char text[40];
    const json_t *steps = json_object_get(v, "steps");
    if (!steps)
        return duration(t, json_object_get(v, "seconds"));
    snprintf(text, sizeof(text), "%lld steps", (long long)json_integer_value(steps));
    return plain(t, text);
}

/* The forms that a file has as text; NULL: another form, or no memory (t->err). */
static struct yaml_node *with_unit(struct tree *t, const struct spec_field *row, const json_t *v)
{
    if (row->type == FIELD_DURATION && json_is_number(v))
        return duration(t, v);
    if (row->type == FIELD_RANGE && json_array_size(v) == 2 && json_is_number(json_array_get(v, 0)) &&
        json_is_number(json_array_get(v, 1)))
        return range(t, v);
    if (row->type == FIELD_EVERY && json_object_size(v) == 1 &&
        (json_is_integer(json_object_get(v, "steps")) || json_is_number(json_object_get(v, "seconds"))))
        return every(t, v);
    return NULL;
}

static struct yaml_node *node_of(struct tree *t, const json_t *v, const char *path);

static struct yaml_node *list(struct tree *t, const json_t *v, const char *path)
{
    struct yaml_node *out = yaml_new_list(t->doc, t->err);
    char item[PATH_TEXT + 8];
    size_t i;
    json_t *one;
    snprintf(item, sizeof(item), "%s[]", path);
    if (out)
        json_array_foreach ((json_t *)(uintptr_t)v, i, one)
            if (yaml_append(t->doc, out, NULL, json_is_object(one) ? node_of(t, one, item) : scalar(t, one),
                            t->err) < 0)
                return NULL;
    return out;
}

/* A text that only the default has: a file leaves the key out. */
static bool is_left_out(const struct spec_field *row, const json_t *v)
{
    return row && row->def && strcmp(row->def, "\"\"") == 0 && json_is_string(v) && !json_string_length(v);
}

/* The keys that only a stored spec has, which check_identity() looks at; and the points of a sweep. */
static bool is_identity(const char *path)
{
    return strcmp(path, "schema") == 0 || strcmp(path, "checkpoint.origin") == 0 ||
           strcmp(path, "checkpoint.lineage") == 0 || strcmp(path, "sweep") == 0;
}

static struct yaml_node *map(struct tree *t, const json_t *v, const char *path)
{
    struct yaml_node *out = yaml_new_map(t->doc, NULL, t->err);
    char whole[PATH_TEXT];
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)v, key, value) {
        snprintf(whole, sizeof(whole), "%s%s%.60s", path, path[0] ? "." : "", key);
        if (!is_identity(whole) && !is_left_out(spec_row_find(whole), value) &&
            (!out || yaml_append(t->doc, out, key, node_of(t, value, whole), t->err) < 0))
            return NULL;
    }
    return out;
}

/* The depth is that of the rows: below a key that no row has, or one that is not a map, nothing is read. */
static struct yaml_node *node_of(struct tree *t, const json_t *v, const char *path)
{
    const struct spec_field *row = spec_row_find(path);
    const size_t n = strlen(path);
    const bool is_map = !path[0] || (n > 2 && strcmp(path + n - 2, "[]") == 0) ||
                        (row && (row->type == FIELD_MAP || row->type == FIELD_STRING_MAP));
    struct yaml_node *text = row ? with_unit(t, row, v) : NULL;
    if (text)
        return text;
    if (json_is_object(v))
        return is_map ? map(t, v, path) : yaml_new_map(t->doc, NULL, t->err);
    if (json_is_array(v))
        return row ? list(t, v, path) : yaml_new_list(t->doc, t->err);
    return scalar(t, v);
}

/* --- what the checker made, compared with what was given ------------------------------------------------ */

static void value_text(char out[VALUE_TEXT], const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    snprintf(out, VALUE_TEXT, "%s", json_is_object(v) ? "a map" : json_is_array(v) ? "a list" : text ? text : "?");
    free(text);
}

static void unlike(const char *path, const json_t *given, const json_t *made, struct spec_diagnostics *found)
{
    char is[VALUE_TEXT], want[VALUE_TEXT];
    value_text(is, given);
    value_text(want, made);
    if (made)
        spec_diagnostic_of(found, path, "%s: expected %s, not %s", path, want, is);
    else
        spec_diagnostic_of(found, path, "%s: not a key of a canonical spec", path);
}

/* Whole numbers as reals and the last digits of seconds may differ: the checker's are used. */
static void compare(const json_t *given, const json_t *made, const char *path, struct spec_diagnostics *found)
{
    char below[PATH_TEXT];
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(given) && json_is_object(made)) {
        json_object_foreach ((json_t *)(uintptr_t)given, key, value) {
            snprintf(below, sizeof(below), "%.110s%s%.60s", path, path[0] ? "." : "", key);
            if (!is_identity(below))
                compare(value, json_object_get(made, key), below, found);
        }
    } else if (json_is_array(given) && json_array_size(given) == json_array_size(made)) {
        json_array_foreach ((json_t *)(uintptr_t)given, i, value) {
            snprintf(below, sizeof(below), "%.110s[%zu]", path, i);
            compare(value, json_array_get(made, i), below, found);
        }
    } else if (!(json_is_number(given) && json_is_number(made)) && (!made || !json_equal(given, made))) {
        unlike(path, given, made, found);
    }
}

/* --- schema, origin, lineage --------------------------------------------------------------------------------- */

static bool is_origin(const json_t *v)
{
    const char *text = json_string_value(v);
    return text && strlen(text) == ORIGIN_DIGITS && strspn(text, "0123456789abcdef") == ORIGIN_DIGITS;
}

/* A client may not say whose checkpoints its job continues. */
static void check_identity(json_t *spec, const json_t *given, bool stored, struct spec_diagnostics *found)
{
    const json_t *from = json_object_get(given, "checkpoint");
    json_t *origin = json_object_get(from, "origin"), *lineage = json_object_get(from, "lineage"), *one, *schema;
    json_t *checkpoint = json_object_get(spec, "checkpoint");
    size_t i;
    if ((schema = json_object_get(given, "schema")) && json_integer_value(schema) != SCHEMA)
        spec_diagnostic_of(found, "schema", "schema: expected %d", SCHEMA);
    if ((origin || lineage) && !stored)
        spec_diagnostic_of(found, "checkpoint", "checkpoint.%s: set by jobctl only; remove it",
                           origin ? "origin" : "lineage");
    else if (stored && !is_origin(origin))
        spec_diagnostic_of(found, "checkpoint", "checkpoint.origin: expected %d hexadecimal digits", ORIGIN_DIGITS);
    else if (stored)
        json_object_set(checkpoint, "origin", origin);
    if (!stored || !lineage)
        return;
    if (!json_is_array(lineage))
        spec_diagnostic_of(found, "checkpoint", "checkpoint.lineage: expected a list of origins");
    json_array_foreach (lineage, i, one)
        if (!is_origin(one))
            spec_diagnostic_of(found, "checkpoint", "checkpoint.lineage[%zu]: expected %d hexadecimal digits", i,
                               ORIGIN_DIGITS);
    json_object_set(checkpoint, "lineage", lineage);
}

/* --- all of it ------------------------------------------------------------------------------------------------ */

static int check(json_t **out, const json_t *given, bool stored, struct spec_diagnostics *found, struct err *err)
{
    struct tree t = {.doc = yaml_new(err), .err = err};
    json_t *checked = NULL;
    int rc = -1;
    if (!json_is_object(given)) {
        err_set(err, ERR_USAGE, "a canonical spec is a map of keys");
        diagnostics_add(&found->found, 0, 0, err);
        goto out;
    }
    found->root = t.doc ? node_of(&t, given, "") : NULL;
    if (!found->root || spec_check(&checked, found->root, found, err) < 0)
        goto out;
    *out = json_make("{s:i}", "schema", SCHEMA);
    if (!*out || json_object_update(*out, checked) < 0) {
        err_set(err, ERR_MEMORY, "out of memory while checking the spec");
        goto out;
    }
    check_identity(*out, given, stored, found);
    json_object_set(*out, "sweep", json_object_get(given, "sweep"));
    jobspec_check_members(*out, found);
    if (jobspec_check_whole(*out, NULL, found, err) == 0 && found->found.count == 0)
        compare(given, *out, "", found);
    rc = 0;
out:
    found->root = NULL;
    json_decref(checked);
    yaml_destroy(t.doc);
    return rc;
}

int canonical_check(json_t **out, const json_t *canonical, bool stored, struct diagnostics *found, struct err *err)
{
    struct spec_diagnostics diagnostics;
    *out = NULL;
    *found = (struct diagnostics){.count = 0};
    if (spec_diagnostics_init(&diagnostics, err) < 0)
        return -1;
    int rc = check(out, canonical, stored, &diagnostics, err);
    if (diagnostics_first(&diagnostics.found, err) < 0)
        rc = -1;
    *found = diagnostics.found;
    spec_diagnostics_fini(&diagnostics);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

/* --- as a file -------------------------------------------------------------------------------------------------- */

/* The object that has the last part of `path`, or NULL. */
static json_t *above(json_t *at, const char *path)
{
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        char part[SPEC_PATH];
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        at = json_object_get(at, part);
    }
    return at;
}

static void drop_default(json_t *spec, const struct spec_row *row)
{
    json_t *map = above(spec, row->path), *value = json_object_get(map, spec_row_leaf(row->path));
    json_t *def = value && row->field->def ? json_loads(row->field->def, JSON_DECODE_ANY, NULL) : NULL;
    const bool empty = row->field->type == FIELD_MAP && !row->field->def && json_is_object(value) &&
                       json_object_size(value) == 0;
    if (empty || (def && json_equal(def, value)))
        json_object_del(map, spec_row_leaf(row->path));
    json_decref(def);
}

/* Again for maps that are empty once their keys are gone. */
static json_t *without_defaults(const json_t *canonical)
{
    json_t *out = json_deep_copy(canonical);
    struct spec_row row;
    for (int turn = 0; turn < 3; turn++)
        for (size_t cursor = 0; spec_row_next(&row, &cursor);)
            drop_default(out, &row);
    return out;
}

int canonical_text(char **text, const json_t *canonical, struct err *err)
{
    json_t *spec = without_defaults(canonical);
    struct tree t = {.doc = yaml_new(err), .err = err};
    const struct yaml_node *root = spec && t.doc ? node_of(&t, spec, "") : NULL;
    const int rc = root ? yaml_write(text, root, err) : err_set(err, ERR_MEMORY, "out of memory for the text of a spec");
    json_decref(spec);
    yaml_destroy(t.doc);
    return rc;
}
