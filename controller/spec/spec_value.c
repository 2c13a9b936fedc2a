/* SPDX-License-Identifier: Apache-2.0 */
/* spec_value.c - checks one scalar or list of a spec against its row; see spec_check.h */
#include "controller/spec/spec_check.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_suggest.h"
#include "controller/spec/spec_units.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/contract/train_spec.h"

/* "a whole number from 0 to 64, or auto" */
static void describe(char *out, size_t size, const struct spec_field *row)
{
    char what[200];
    switch (row->type) {
    case FIELD_BOOL:
        snprintf(what, sizeof(what), "true or false");
        break;
    case FIELD_INT:
        snprintf(what, sizeof(what), "a whole number from %.15g to %.15g", row->min, row->max);
        break;
    case FIELD_NUMBER:
        snprintf(what, sizeof(what), "a number from %.9g to %.9g", row->min, row->max);
        break;
    case FIELD_NUMBERS:
        snprintf(what, sizeof(what), "a list of %s numbers from %.9g to %.9g", row->choices, row->min, row->max);
        break;
    case FIELD_STRINGS:
        snprintf(what, sizeof(what), "a list, such as [a, b]");
        break;
    case FIELD_STRING_MAP:
        snprintf(what, sizeof(what), "a map of names to values, such as {NAME: value}");
        break;
    case FIELD_DURATION:
        snprintf(what, sizeof(what), "a duration, such as 30s, 5m or \"24:00:00\"");
        break;
    case FIELD_RANGE:
        snprintf(what, sizeof(what), "a range of durations, such as 5s..5m");
        break;
    case FIELD_EVERY:
        snprintf(what, sizeof(what), "a number of steps, such as \"500 steps\"%s", row->min >= 1 ? "" : ", or a duration");
        break;
    case FIELD_MAP:
        snprintf(what, sizeof(what), "a map of keys");
        break;
    case FIELD_PATH:
        snprintf(what, sizeof(what), "a path");
        break;
    default:
        snprintf(what, sizeof(what), "text");
    }
    const char *word = row->type == FIELD_INT && row->choices ? row->choices : "";
    snprintf(out, size, "%s%s%s%s", what, word[0] ? ", " : "", word, row->auto_ok ? ", or auto" : "");
}

static void describe_given(char *out, size_t size, const struct yaml_node *node)
{
    if (node->kind == YAML_LIST)
        snprintf(out, size, "a list");
    else if (node->kind == YAML_MAP)
        snprintf(out, size, "a map");
    else if (yaml_is_null(node))
        snprintf(out, size, "nothing");
    else
        snprintf(out, size, "\"%.40s\"%s", node->text, strpbrk(node->text, "\n") ? " on several lines" : "");
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

/* "PATH: expected WHAT, not GIVEN" and a hint. */
static json_t *wrong(const struct spec_field *row, const char *path, const struct yaml_node *node,
                     const char *hint, struct spec_diagnostics *diagnostics)
{
    char what[256], given[96];
    describe(what, sizeof(what), row);
    describe_given(given, sizeof(given), node);
    spec_diagnostic_at(diagnostics, node, SPOT_VALUE, "%s: expected %s, not %s%s", path, what, given, hint ? hint : "");
    return NULL;
}

static json_t *check_bool(const struct spec_field *row, const char *path,
                          const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    static const char *const yes[] = {"yes", "Yes", "YES", "on", "On", "ON", "True", "TRUE", "y"};
    static const char *const no[] = {"no", "No", "NO", "off", "Off", "OFF", "False", "FALSE", "n"};
    if (n->plain && strcmp(n->text, "true") == 0)
        return json_true();
    if (n->plain && strcmp(n->text, "false") == 0)
        return json_false();
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (strcmp(n->text, yes[i]) == 0)
            return wrong(row, path, n, "; write true", diagnostics);
        else if (strcmp(n->text, no[i]) == 0)
            return wrong(row, path, n, "; write false", diagnostics);
    return wrong(row, path, n, n->plain ? NULL : "; leave the quotes out", diagnostics);
}

/* Parses the whole text as a decimal number with exponent; no hex, octal, inf or nan. */
static bool read_number(double *value, const char *text)
{
    const char *p = text;
    p += *p == '-' || *p == '+';
    if (!isdigit((unsigned char)*p) && *p != '.')
        return false;
    if (text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

static json_t *check_number(const struct spec_field *row, const char *path,
                            const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    double v;
    if (!read_number(&v, n->text))
        return wrong(row, path, n, NULL, diagnostics);
    if (!n->plain)
        return wrong(row, path, n, " in quotes; leave the quotes out", diagnostics);
    bool whole = v == floor(v) && fabs(v) <= 9007199254740992.0;
    if ((row->type == FIELD_INT && !whole) || v < row->min || v > row->max)
        return wrong(row, path, n, NULL, diagnostics);
    if (row->type == FIELD_INT)
        return json_integer((json_int_t)v);
    return json_real(v);
}

static json_t *check_enum(const struct spec_field *row, const char *path,
                          const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    char list[200] = "", near[64], hint[100] = "";
    size_t at = 0;
    if (spec_field_choice(row->choices, n->text))
        return json_string(n->text);
    for (const char *p = row->choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        const size_t len = strcspn(p, "|");
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.*s", at ? ", " : "", (int)len, p);
    }
    spec_nearest_choice(near, sizeof(near), row->choices, n->text);
    if (near[0])
        snprintf(hint, sizeof(hint), "; did you mean %s?", near);
    spec_diagnostic_at(diagnostics, n, SPOT_VALUE, "%s: expected one of %s%s, not \"%.40s\"%s", path,
                       row->auto_ok ? "auto, " : "", list, n->text, hint);
    return NULL;
}

static json_t *check_duration(const struct spec_field *row, const char *path,
                              const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    double low, high;
    struct spec_every every;
    struct err why = {.code = ERR_NONE};
    int rc = row->type == FIELD_DURATION ? spec_duration_parse(&low, n->text, &why)
             : row->type == FIELD_RANGE  ? spec_range_parse(&low, &high, n->text, &why)
                                         : spec_every_parse(&every, n->text, &why);
    if (rc < 0) {
        spec_diagnostic_at(diagnostics, n, SPOT_VALUE, "%s: %s", path, why.text);
        return NULL;
    }
    if (row->type == FIELD_EVERY && row->min >= 1 && !every.steps)
        return wrong(row, path, n, NULL, diagnostics);
    if (row->type == FIELD_EVERY)
        return every.steps ? json_make("{s:I}", "steps", (json_int_t)every.steps)
                           : json_make("{s:f}", "seconds", every.seconds);
    if (row->type == FIELD_DURATION)
        high = low;
    if (low < row->min || high > row->max) {
        spec_diagnostic_at(diagnostics, n, SPOT_VALUE,
                           "%s: \"%.40s\" is out of range; the limits are %.9g s "
                           "and %.9g s", path, n->text, row->min, row->max);
        return NULL;
    }
    return row->type == FIELD_DURATION ? json_real(low) : json_make("[f,f]", low, high);
}

static json_t *check_text(const struct spec_field *row, const char *path,
                          const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    if (!n->text[0])
        return wrong(row, path, n, NULL, diagnostics);
    const size_t most = spec_field_text_most(row);
    if (most && strlen(n->text) > most) {
        spec_diagnostic_at(diagnostics, n, SPOT_VALUE, "%s: the %s is longer than %zu bytes", path,
                           row->type == FIELD_PATH ? "path" : "text", most);
        return NULL;
    }
    return json_string(n->text);
}

static json_t *check_scalar(const struct spec_field *row, const char *path,
                            const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    if (row->auto_ok && strcmp(n->text, "auto") == 0)
        return json_string("auto");
    if (row->type == FIELD_INT && row->choices && spec_field_choice(row->choices, n->text))
        return json_string(n->text);
    switch (row->type) {
    case FIELD_BOOL:
        return check_bool(row, path, n, diagnostics);
    case FIELD_INT:
    case FIELD_NUMBER:
        return check_number(row, path, n, diagnostics);
    case FIELD_ENUM:
        return check_enum(row, path, n, diagnostics);
    case FIELD_DURATION:
    case FIELD_RANGE:
    case FIELD_EVERY:
        return check_duration(row, path, n, diagnostics);
    case FIELD_STRING:
    case FIELD_PATH:
        return check_text(row, path, n, diagnostics);
    default:
        return wrong(row, path, n, NULL, diagnostics);
    }
}

/* A list with a wrong entry is wrong, but all entries are checked. */
static json_t *keep_if_whole(json_t *value, int bad)
{
    if (bad == 0)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *check_list(const struct spec_field *row, const char *path,
                          const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    int low = 0, high = 1000;
    if (row->type == FIELD_NUMBERS && sscanf(row->choices, "%d-%d", &low, &high) == 1)
        high = low;
    if (n->count < low || n->count > high) {
        spec_diagnostic_at(diagnostics, n, SPOT_VALUE, "%s: expected a list of %s entries, not %d", path,
                           row->choices ? row->choices : "at most 1000", n->count);
        return NULL;
    }
    struct spec_field item = *row;
    item.type = row->type == FIELD_NUMBERS ? FIELD_NUMBER : FIELD_STRING;
    item.auto_ok = false;
    json_t *list = json_array();
    int i = 0, bad = 0;
    for (const struct yaml_node *e = n->first; e; e = e->next, i++) {
        char where[160];
        snprintf(where, sizeof(where), "%s[%d]", path, i);
        json_t *v = e->kind != YAML_SCALAR || yaml_is_null(e)
                        ? wrong(&item, where, e, NULL, diagnostics)
                        : check_scalar(&item, where, e, diagnostics);
        bad += !v || json_array_append_new(list, v) < 0;
    }
    return keep_if_whole(list, bad);
}

static json_t *check_string_map(const struct spec_field *row, const char *path,
                                const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    struct spec_field item = {.path = row->path, .type = FIELD_STRING};
    json_t *map = json_object();
    int bad = 0;
    for (const struct yaml_node *e = n->first; e; e = e->next) {
        char where[160];
        snprintf(where, sizeof(where), "%s.%.60s", path, e->key);
        if (e->kind != YAML_SCALAR || yaml_is_null(e)) {
            wrong(&item, where, e, e->kind == YAML_SCALAR ? "; write \"\" for an empty text" : NULL, diagnostics);
            bad++;
            continue;
        }
        json_object_set_new(map, e->key, json_string(e->text));
    }
    return keep_if_whole(map, bad);
}

json_t *spec_check_value(const struct spec_field *row, const char *path,
                         const struct yaml_node *n, struct spec_diagnostics *diagnostics)
{
    bool list = row->type == FIELD_NUMBERS || row->type == FIELD_STRINGS;
    if (yaml_is_null(n)) {
        if (row->null_ok || (row->def && strcmp(row->def, "null") == 0))
            return json_null();
        return wrong(row, path, n, "; remove the key to use the default", diagnostics);
    }
    if (list && n->kind == YAML_LIST)
        return check_list(row, path, n, diagnostics);
    if (row->type == FIELD_STRING_MAP && n->kind == YAML_MAP)
        return check_string_map(row, path, n, diagnostics);
    if (strcmp(path, "array") == 0 && n->kind == YAML_LIST)
        return wrong(row, path, n, "; write indices such as 0-9 or 1,3,7, without brackets", diagnostics);
    if (row->type == FIELD_STRING && n->kind == YAML_LIST)
        return wrong(row, path, n, "; write \"|\" after the key, then one command per line", diagnostics);
    if (n->kind != YAML_SCALAR)
        return wrong(row, path, n, NULL, diagnostics);
    return check_scalar(row, path, n, diagnostics);
}
