/* SPDX-License-Identifier: Apache-2.0 */
/* spec_merge.c - see spec_merge.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/spec_merge.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/contract/json_text.h"

enum { PATH_TEXT = 256 };

static json_t *merged(json_t *stored, json_t *was, json_t *now)
{
    if (stored && was && json_equal(was, now))
        return json_incref(stored);
    return json_is_object(stored) && json_is_object(was) && json_is_object(now) ? spec_merge(stored, was, now)
                                                                               : json_incref(now);
}

static void keep(json_t *out, const json_t *stored, const char *key)
{
    json_t *value = json_object_get(json_object_get(stored, "checkpoint"), key);
    if (value)
        json_object_set(json_object_get(out, "checkpoint"), key, value);
}

/* A value that is shared with `stored` is changed nowhere: the caller may change only the result's own maps. */
json_t *spec_merge(const json_t *stored, const json_t *was, const json_t *now)
{
    json_t *out = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)now, key, value)
        json_object_set_new(out, key, merged(json_object_get(stored, key), json_object_get(was, key), value));
    json_object_foreach ((json_t *)(uintptr_t)stored, key, value)
        if (!json_object_get(now, key) && !json_object_get(was, key))
            json_object_set(out, key, value);
    keep(out, stored, "origin");
    keep(out, stored, "lineage");
    return out;
}

static bool is_identity(const char *path)
{
    return strcmp(path, "checkpoint.origin") == 0 || strcmp(path, "checkpoint.lineage") == 0;
}

static void differ(json_t *out, const char *path, json_t *a, json_t *b);

static void differ_below(json_t *out, const char *path, json_t *a, json_t *b, bool only_new)
{
    char below[PATH_TEXT];
    const char *key;
    json_t *value;
    json_object_foreach (a, key, value) {
        snprintf(below, sizeof(below), "%.180s%s%.60s", path, path[0] ? "." : "", key);
        if (!only_new)
            differ(out, below, value, json_object_get(b, key));
        else if (!json_object_get(b, key))
            differ(out, below, value, NULL);
    }
}

static void differ(json_t *out, const char *path, json_t *a, json_t *b)
{
    if (is_identity(path) || (a && b && json_equal(a, b)))
        return;
    if (json_is_object(a) && json_is_object(b)) {
        differ_below(out, path, a, b, false);
        differ_below(out, path, b, a, true);
    } else {
        json_array_append_new(out, json_text(path));
    }
}

json_t *spec_merge_keys(const json_t *a, const json_t *b)
{
    json_t *out = json_array();
    differ(out, "", (json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
    return out;
}
