/* SPDX-License-Identifier: Apache-2.0 */
/* config_reader.c - see config_reader.h */
#include "engine/model/config_reader.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/err.h"

const json_t *config_reader_get(const struct config_reader *s, const char *key)
{
    const json_t *v = json_object_get(s->json, key);
    return json_is_null(v) ? NULL : v;
}

void config_reader_int(struct config_reader *s, const char *key, int *value)
{
    const json_t *v = config_reader_get(s, key);
    if (!v)
        return;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1 << 24) {
        err_set(s->err, ERR_USAGE, "%s.%s is not a whole number from 0 to 16777216", s->name, key);
        s->failed = true;
        return;
    }
    *value = (int)json_integer_value(v);
}

void config_reader_number(struct config_reader *s, const char *key, double *value)
{
    const json_t *v = config_reader_get(s, key);
    if (!v)
        return;
    if (!json_is_number(v)) {
        err_set(s->err, ERR_USAGE, "%s.%s is not a number", s->name, key);
        s->failed = true;
        return;
    }
    *value = json_number_value(v);
}

void config_reader_bool(struct config_reader *s, const char *key, bool *value)
{
    const json_t *v = config_reader_get(s, key);
    if (!v)
        return;
    if (!json_is_boolean(v)) {
        err_set(s->err, ERR_USAGE, "%s.%s is neither true nor false", s->name, key);
        s->failed = true;
        return;
    }
    *value = json_is_true(v);
}

void config_reader_must_be(struct config_reader *s, const char *key, const char *built)
{
    const json_t *v = config_reader_get(s, key);
    const char *text = json_string_value(v);
    if (!v)
        return;
    for (const char *p = built; text && p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (strncmp(p, text, strlen(text)) == 0 && strchr("|", p[strlen(text)]))
            return;
    err_set(s->err, ERR_USAGE, "%s.%s is %s%.40s%s; this engine supports %s", s->name, key,
            text ? "\"" : "", text ? text : "not a string", text ? "\"" : "", built);
    s->failed = true;
}

void config_reader_only(struct config_reader *s, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)s->json, key, value) {
        const char *p = keys;
        while (*p && (strncmp(p, key, strlen(key)) != 0 || strchr(" ", p[strlen(key)]) == NULL))
            p += strcspn(p, " "), p += *p == ' ';
        if (*p || s->failed)
            continue;
        err_set(s->err, ERR_USAGE, "%s.%.60s: this engine does not know the key", s->name, key);
        s->failed = true;
    }
}

struct config_reader config_reader_open(const json_t *config, const char *name, struct err *err)
{
    struct config_reader s = {name, json_object_get(config, name), err, false};
    if (s.json && !json_is_object(s.json)) {
        err_set(err, ERR_USAGE, "\"%s\" in the configuration is not an object", name);
        s.failed = true;
    }
    return s;
}
