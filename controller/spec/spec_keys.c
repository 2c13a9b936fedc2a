/* SPDX-License-Identifier: Apache-2.0 */
/* spec_keys.c - see spec_keys.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/spec_keys.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json_text.h"

enum { PATH_TEXT = 256 };

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

json_t *spec_keys_differ(const json_t *a, const json_t *b)
{
    json_t *out = json_array();
    differ(out, "", (json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
    return out;
}
