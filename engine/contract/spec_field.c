/* SPDX-License-Identifier: Apache-2.0 */
/* spec_field.c - see spec_field.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/contract/spec_field.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { PATH_BYTES = 1023, ENTRIES_MOST = 1000 };

static const double seconds_most = 1e14;        /* what the text of a duration can say */

bool spec_field_choice(const char *choices, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (strcspn(p, "|") == n && memcmp(p, word, n) == 0)
            return true;
    }
    return false;
}

size_t spec_field_text_most(const struct spec_field *f)
{
    return f->type == FIELD_PATH ? PATH_BYTES : (size_t)f->max;
}

static int wrong(const struct spec_field *f, const char *path, const char *expected, const json_t *v, struct err *err)
{
    char *given = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    err_set(err, ERR_USAGE, "%s: expected %s%s, not %.60s", path, expected, f->auto_ok ? " or auto" : "",
            json_is_object(v) ? "a map" : json_is_array(v) ? "a list" : given ? given : "that");
    free(given);
    return -1;
}

static int check_range(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const double x = json_number_value(v);
    const json_int_t most = (json_int_t)1 << 53;    /* as many readers of JSON have it */
    const bool exact = !json_is_integer(v) || (json_integer_value(v) <= most && json_integer_value(v) >= -most);
    if (isfinite(x) && x >= f->min && x <= f->max && exact)
        return 0;
    return err_set(err, ERR_USAGE, "%s: %.12g is out of range; it may be from %.12g to %.12g", path, x, f->min,
                   f->max);
}

static int check_numbers(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    int low = 0, high = 0;
    if (sscanf(f->choices, "%d-%d", &low, &high) == 1)
        high = low;
    const int n = json_is_array(v) ? (int)json_array_size(v) : -1;
    if (n < low || n > high)
        return err_set(err, ERR_USAGE, "%s: expected a list of %s numbers", path, f->choices);
    for (int i = 0; i < n; i++) {
        const json_t *x = json_array_get(v, (size_t)i);
        if (!json_is_number(x))
            return err_set(err, ERR_USAGE, "%s: entry %d is not a number", path, i + 1);
        if (check_range(f, path, x, err) < 0)
            return -1;
    }
    return 0;
}

static int check_strings(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    if (!json_is_array(v) || json_array_size(v) > ENTRIES_MOST)
        return wrong(f, path, "a list of texts", v, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (json_string_length(json_array_get(v, i)) == 0)
            return err_set(err, ERR_USAGE, "%s: entry %zu is not text", path, i + 1);
    return 0;
}

static int check_string_map(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const char *key;
    json_t *one;
    if (!json_is_object(v))
        return wrong(f, path, "a map of names to texts", v, err);
    json_object_foreach ((json_t *)(uintptr_t)v, key, one)
        if (!json_is_string(one))
            return err_set(err, ERR_USAGE, "%s.%.60s: expected text", path, key);
    return 0;
}

/* Of a run in `train:`, steps only: its ranks have no common clock. */
static int check_every(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const json_t *steps = json_object_get(v, "steps"), *seconds = json_object_get(v, "seconds");
    const bool by_time = json_is_number(seconds) && f->min < 1 && json_number_value(seconds) > 0 &&
                         json_number_value(seconds) < seconds_most;
    const bool by_steps = json_is_integer(steps) && json_integer_value(steps) >= 1 &&
                          json_integer_value(steps) < 1000000000000000;
    if (json_object_size(v) == 1 && (by_time || by_steps))
        return 0;
    return wrong(f, path, "steps, such as {\"steps\": 250}", v, err);
}

static int check_duration_range(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const json_t *low = json_array_get(v, 0), *high = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_number(low) || !json_is_number(high) ||
        json_number_value(low) > json_number_value(high))
        return wrong(f, path, "a range of seconds, such as [5.0, 300.0]", v, err);
    return check_range(f, path, low, err) < 0 ? -1 : check_range(f, path, high, err);
}

static int check_text(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const size_t n = json_string_length(v), most = spec_field_text_most(f);
    if (most && n > most)
        return err_set(err, ERR_USAGE, "%s: longer than %zu bytes", path, most);
    if (json_is_string(v) && (n > 0 || (f->def && strcmp(f->def, "\"\"") == 0)))
        return 0;
    return wrong(f, path, f->type == FIELD_PATH ? "a path" : "text", v, err);
}

int spec_field_check(const struct spec_field *f, const char *path, const json_t *v, struct err *err)
{
    const char *text = json_string_value(v);
    if (f->auto_ok && text && strcmp(text, "auto") == 0)
        return 0;
    switch (f->type) {
    case FIELD_MAP:
        return json_is_object(v) ? 0 : wrong(f, path, "a map of keys", v, err);
    case FIELD_BOOL:
        return json_is_boolean(v) ? 0 : wrong(f, path, "true or false", v, err);
    case FIELD_INT:
        if (text && f->choices && spec_field_choice(f->choices, text))
            return 0;
        return json_is_integer(v) ? check_range(f, path, v, err) : wrong(f, path, "a whole number", v, err);
    case FIELD_NUMBER:
        return json_is_number(v) ? check_range(f, path, v, err) : wrong(f, path, "a number", v, err);
    case FIELD_DURATION:
        return json_is_number(v) ? check_range(f, path, v, err) : wrong(f, path, "a number of seconds", v, err);
    case FIELD_RANGE:
        return check_duration_range(f, path, v, err);
    case FIELD_NUMBERS:
        return check_numbers(f, path, v, err);
    case FIELD_STRINGS:
        return check_strings(f, path, v, err);
    case FIELD_STRING_MAP:
        return check_string_map(f, path, v, err);
    case FIELD_EVERY:
        return check_every(f, path, v, err);
    case FIELD_ENUM:
        if (text && spec_field_choice(f->choices, text))
            return 0;
        return err_set(err, ERR_USAGE, "%s: expected one of %s%s", path, f->choices, f->auto_ok ? "|auto" : "");
    case FIELD_PATH:
    case FIELD_STRING:
        return check_text(f, path, v, err);
    case FIELD_ITEMS:
        break;
    }
    return err_set(err, ERR_BUG, "%s: a value of this type is not checked by its row alone", path);
}
