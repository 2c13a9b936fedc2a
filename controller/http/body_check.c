/* SPDX-License-Identifier: Apache-2.0 */
/* body_check.c - see body_check.h */
#include "controller/http/body_check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

static bool all_texts(const json_t *value)
{
    const char *key;
    json_t *entry;
    size_t i;
    json_array_foreach ((json_t *)(uintptr_t)value, i, entry)
        if (!json_is_string(entry))
            return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, entry)
        if (!json_is_string(entry))
            return false;
    return true;
}

/* The name of the expected type, or NULL if the value has it. */
static const char *type_wanted(const json_t *value, char type)
{
    switch (type) {
    case 's':
        return json_is_string(value) ? NULL : "a text";
    case 'b':
        return json_is_boolean(value) ? NULL : "true or false";
    case 'i':
        return json_is_integer(value) ? NULL : "a whole number";
    case 'l':
        return json_is_array(value) && all_texts(value) ? NULL : "a list of texts";
    case 'o':
        return json_is_object(value) ? NULL : "an object";
    default:
        return json_is_object(value) && all_texts(value) ? NULL : "a map of texts";
    }
}

int body_check(const json_t *body, const char *fields, struct err *err)
{
    size_t known = 0;
    for (const char *f = fields ? fields : ""; *f; f += strcspn(f, " "), f += strspn(f, " ")) {
        char name[32];
        size_t n = strcspn(f, ":");
        snprintf(name, sizeof(name), "%.*s", (int)n, f);
        const json_t *value = json_object_get(body, name);
        const char *wanted = value ? type_wanted(value, f[n + 1]) : NULL;
        if (wanted)
            return err_set(err, ERR_USAGE, "'%s' in the body is not %s", name, wanted);
        if (!value && f[n + 2] == '!')
            return err_set(err, ERR_USAGE, "the body lacks '%s'", name);
        known += value != NULL;
    }
    if (known == json_object_size(body))
        return 0;
    return err_set(err, ERR_USAGE, "the body has a field that is not one of:%s%s",
                   fields ? " " : " (it has none)", fields ? fields : "");
}
