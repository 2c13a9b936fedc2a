/* SPDX-License-Identifier: Apache-2.0 */
/* canonical.c - each value of canonical JSON against its row, then the rules of files; see canonical.h */
#include "controller/spec/canonical.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/diagnostics.h"
#include "controller/base/yaml_write.h"
#include "controller/spec/jobspec.h"
#include "controller/spec/spec_check.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_suggest.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { SCHEMA = 1, PATH_TEXT = 2 * SPEC_PATH, ORIGIN_DIGITS = 32 };

/* --- values against their rows ------------------------------------------------------------------------- */

/* The keys that only a stored spec has, which check_identity() looks at; and the points of a sweep. */
static const char *const identity[] = {"schema", "checkpoint.origin", "checkpoint.lineage", "sweep"};

static bool is_identity(const char *path)
{
    for (size_t i = 0; i < sizeof(identity) / sizeof(*identity); i++)
        if (strcmp(path, identity[i]) == 0)
            return true;
    return false;
}

static bool is_real(enum field_type type)
{
    return type == FIELD_NUMBER || type == FIELD_DURATION || type == FIELD_NUMBERS || type == FIELD_RANGE;
}

/* A value that fits; whole numbers of another writer are reals where the checker of files makes reals. */
static json_t *as_made(const struct spec_field *row, const json_t *v)
{
    size_t i;
    json_t *one, *list = json_is_array(v) && is_real(row->type) ? json_array() : NULL;
    if (json_is_number(v) && is_real(row->type))
        return json_real(json_number_value(v));
    if (row->type == FIELD_EVERY && json_object_get(v, "seconds"))
        return json_make("{s:f}", "seconds", json_number_value(json_object_get(v, "seconds")));
    if (!list)
        return json_deep_copy(v);
    json_array_foreach ((json_t *)(uintptr_t)v, i, one)
        json_array_append_new(list, json_real(json_number_value(one)));
    return list;
}

/* Ids of jobs are numbers, names are texts. */
static int check_after(const json_t *v, struct err *err)
{
    size_t i;
    json_t *one;
    json_array_foreach ((json_t *)(uintptr_t)v, i, one) {
        const char *text = json_string_value(one);
        if (text ? text[strspn(text, "0123456789")] == '\0' : json_integer_value(one) <= 0)
            return err_set(err, ERR_USAGE, "after[%zu]: expected the number or the name of a job", i);
    }
    return json_is_array(v) ? 0 : err_set(err, ERR_USAGE, "after: expected a list");
}

static void unknown(const char *map, const char *path, const char *key, struct spec_diagnostics *found)
{
    char hint[360];
    spec_suggest(hint, sizeof(hint), map, key);
    spec_diagnostics_stranger(found, map);
    spec_diagnostic_of(found, path, "unknown key \"%.60s\"%s%s%s", key, map[0] ? " in " : "", map, hint);
}

static json_t *check_items(const json_t *v, const char *path, struct spec_diagnostics *found);

/* The value as the checker of files makes it; NULL: reported. */
static json_t *check_value(const struct spec_field *row, const char *path, const json_t *v,
                           struct spec_diagnostics *found)
{
    struct err why = {.code = ERR_NONE};
    const bool null_ok = row->null_ok || (row->def && strcmp(row->def, "null") == 0);
    if (json_is_null(v) && null_ok)
        return json_null();
    if (json_is_null(v))
        err_set(&why, ERR_USAGE, "%s: null; remove the key to use the default", path);
    else if (row->type == FIELD_ITEMS)
        return check_items(v, path, found);
    else if ((strcmp(path, "after") == 0 ? check_after(v, &why) : spec_field_check(row, path, v, &why)) == 0)
        return as_made(row, v);
    spec_diagnostic_err(found, path, &why);
    return NULL;
}

/* Adds the values of a map under their full paths; missing keys get their defaults later. */
static void check_map(json_t *flat, const json_t *map, const char *prefix, struct spec_diagnostics *found)
{
    char path[PATH_TEXT];
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)map, key, v) {
        snprintf(path, sizeof(path), "%s%s%.60s", prefix, prefix[0] ? "." : "", key);
        const struct spec_field *row = strpbrk(key, ".[") ? NULL : spec_row_find(path);
        if (is_identity(path))
            continue;
        json_t *value = row ? check_value(row, path, v, found) : NULL;
        if (!row)
            unknown(prefix, path, key, found);
        else if (!value)
            spec_diagnostics_suppress(found, path);
        else if (row->type == FIELD_MAP && json_is_object(value)) {
            check_map(flat, v, path, found);
            json_object_set_new(flat, path, json_true());
        } else {
            json_object_set(flat, path, value);
        }
        json_decref(value);
    }
}

static json_t *check_items(const json_t *v, const char *path, struct spec_diagnostics *found)
{
    char rows[SPEC_PATH];
    const char *missing = NULL;
    json_t *list = json_array();
    const int before = found->found.count;
    snprintf(rows, sizeof(rows), "%.60s[]", path);
    if (!json_is_array(v) || json_array_size(v) > SPEC_ITEMS_MOST)
        spec_diagnostic_of(found, path, "%s: expected a list of at most %d maps", path, SPEC_ITEMS_MOST);
    for (size_t i = 0; found->found.count == before && i < json_array_size(v); i++) {
        json_t *flat = json_object();
        check_map(flat, json_array_get(v, i), rows, found);
        json_t *item = found->found.count == before ? spec_item_complete(flat, path, &missing) : NULL;
        if (missing || !json_is_object(json_array_get(v, i)))
            spec_diagnostic_of(found, path, "%s[%zu]: %s is missing", path, i, missing ? missing : "a map");
        json_array_append_new(list, item);
        json_decref(flat);
    }
    if (found->found.count == before)
        return list;
    json_decref(list);
    return NULL;
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
    if (!json_is_object(given)) {
        err_set(err, ERR_USAGE, "a canonical spec is a map of keys");
        diagnostics_add(&found->found, 0, 0, err);
        return -1;
    }
    json_t *flat = json_object();
    check_map(flat, given, "", found);
    json_t *checked = spec_unfold(flat, err);
    json_decref(flat);
    *out = json_make("{s:i}", "schema", SCHEMA);
    const bool whole = *out && checked && json_object_update(*out, checked) == 0;
    json_decref(checked);
    if (!whole)
        return err_set(err, ERR_MEMORY, "out of memory while checking the spec");
    check_identity(*out, given, stored, found);
    json_object_set(*out, "sweep", json_object_get(given, "sweep"));
    jobspec_check_members(*out, found);
    return jobspec_check_whole(*out, NULL, found, err);
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
    const bool differs = strcmp(row->path, "resources.gpus") == 0 && sweep_points_is(spec); /* its default is `one` */
    if (empty || (def && !differs && json_equal(def, value)))
        json_object_del(map, spec_row_leaf(row->path));
    json_decref(def);
}

/* Again for maps that are empty once their keys are gone. */
static json_t *without_defaults(const json_t *canonical)
{
    json_t *out = json_deep_copy(canonical);
    struct spec_row row;
    for (size_t i = 0; i < sizeof(identity) / sizeof(*identity); i++)
        json_object_del(above(out, identity[i]), spec_row_leaf(identity[i]));
    for (int turn = 0; turn < 3; turn++)
        for (size_t cursor = 0; spec_row_next(&row, &cursor);)
            drop_default(out, &row);
    return out;
}

/* As spec_units.h reads it: no exponent, at most 15 digits. */
static void seconds_text(char *out, size_t size, const json_t *v)
{
    const double seconds = json_number_value(v);
    const int whole = (int)fmin(fmax(floor(log10(fmax(fabs(seconds), 1))) + 1, 1), 14);
    snprintf(out, size, "%.*fs", 14 - whole, seconds);
}

/* The text that a file has for seconds; NULL: the row's values have no unit. */
static json_t *with_unit(const struct spec_field *row, const json_t *v)
{
    char low[400], high[400];
    const json_t *steps = json_object_get(v, "steps");
    const bool range = row->type == FIELD_RANGE && json_is_array(v);
    if (row->type == FIELD_EVERY && steps)
        return json_text_f("%lld steps", (long long)json_integer_value(steps));
    if (!range && !(row->type == FIELD_EVERY && json_is_object(v)) && !(row->type == FIELD_DURATION && json_is_number(v)))
        return NULL;
    seconds_text(low, sizeof(low), range ? json_array_get(v, 0) : json_is_object(v) ? json_object_get(v, "seconds") : v);
    seconds_text(high, sizeof(high), json_array_get(v, 1));
    return json_text_f("%s%s%s", low, range ? ".." : "", range ? high : "");
}

static void put_unit(json_t *map, const struct spec_row *row)
{
    const char *leaf = spec_row_leaf(row->path);
    json_t *v = json_object_get(map, leaf), *text = v ? with_unit(row->field, v) : NULL;
    if (text)
        json_object_set_new(map, leaf, text);
}

int canonical_text(char **text, const json_t *canonical, struct err *err)
{
    json_t *spec = without_defaults(canonical), *item;
    struct spec_row row;
    size_t i;
    for (size_t cursor = 0; spec_row_next(&row, &cursor);) {
        char list[SPEC_PATH];
        snprintf(list, sizeof(list), "%.*s", (int)strcspn(row.path, "["), row.path);
        if (!strchr(row.path, '['))
            put_unit(above(spec, row.path), &row);
        else
            json_array_foreach (json_object_get(spec, list), i, item)
                put_unit(item, &row);
    }
    const int rc = yaml_write(text, spec, err);
    json_decref(spec);
    return rc;
}
