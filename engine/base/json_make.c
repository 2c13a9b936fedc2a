/* SPDX-License-Identifier: Apache-2.0 */
/* json_make.c - see json_make.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/base/json_make.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/utf8.h"

/* When a value is missing, the rest of the format is still read, so that the values given by o are released. */
struct maker {
    const char *at;
    va_list     args;
    bool        failed;
};

static json_t *make_value(struct maker *m, char kind, bool *left_out);

static char next(struct maker *m)
{
    m->at += strspn(m->at, " \t\n,:");
    return *m->at ? *m->at++ : '\0';
}

static json_t *wrong(struct maker *m)
{
    m->failed = true;
    m->at = "";     /* what the other arguments are is not known */
    return NULL;
}

static bool takes(struct maker *m, char mark)
{
    const bool there = *m->at == mark;
    m->at += there;
    return there;
}

static void set(struct maker *m, json_t *object, const char *key, json_t *value)
{
    json_t *clean = utf8_valid(key, strlen(key)) ? NULL : json_text(key);
    if (json_object_set_new_nocheck(object, clean ? json_string_value(clean) : key, value) < 0)
        m->failed = true;
    json_decref(clean);
}

static json_t *make_object(struct maker *m)
{
    json_t *out = json_object();
    char kind;
    while ((kind = next(m)) == 's') {
        const char *key = va_arg(m->args, const char *);
        bool left_out = false;
        json_t *value = make_value(m, next(m), &left_out);
        if (!left_out)
            set(m, out, key ? key : "", value);
    }
    if (kind != '}')
        wrong(m);
    return out;
}

static json_t *make_array(struct maker *m)
{
    json_t *out = json_array();
    char kind;
    while ((kind = next(m)) != ']' && kind) {
        bool left_out = false;
        json_t *value = make_value(m, kind, &left_out);
        if (!left_out && json_array_append_new(out, value) < 0)
            m->failed = true;
    }
    if (!kind)
        wrong(m);
    return out;
}

/* A text, or a value that exists, by the mark behind its letter. */
static json_t *optional(struct maker *m, json_t *value, bool *left_out)
{
    const bool null = takes(m, '?');
    *left_out = takes(m, '*') && !value;
    return value || !null ? value : json_null();
}

static json_t *make_value(struct maker *m, char kind, bool *left_out)
{
    json_t *value;
    double x;
    switch (kind) {
    case '{':
        return make_object(m);
    case '[':
        return make_array(m);
    case 's':
        value = optional(m, json_text(va_arg(m->args, const char *)), left_out);
        return value || *left_out ? value : json_null();
    case 'o':
        return optional(m, va_arg(m->args, json_t *), left_out);
    case 'O':
        return optional(m, json_incref(va_arg(m->args, json_t *)), left_out);
    case 'n':
        return json_null();
    case 'b':
        return json_boolean(va_arg(m->args, int));
    case 'i':
        return json_integer(va_arg(m->args, int));
    case 'I':
        return json_integer(va_arg(m->args, json_int_t));
    case 'f':
        x = va_arg(m->args, double);
        return isfinite(x) ? json_real(x) : json_null();
    default:
        return wrong(m);
    }
}

json_t *json_make(const char *format, ...)
{
    struct maker m = {.at = format};
    bool left_out = false;
    va_start(m.args, format);
    json_t *out = make_value(&m, next(&m), &left_out);
    va_end(m.args);
    if (m.failed || *m.at) {
        json_decref(out);
        return NULL;
    }
    return out;
}
