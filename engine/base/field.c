/* SPDX-License-Identifier: Apache-2.0 */
/* field.c - see field.h */
#include "engine/base/field.h"

#include <math.h>

const char *field_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int64_t field_int(const json_t *object, const char *key, int64_t absent)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : absent;
}

int64_t field_safe_int(const json_t *object, const char *key, int64_t absent)
{
    const int64_t most = INT64_C(1) << 53, n = field_int(object, key, absent);
    return n <= most && n >= -most ? n : absent;
}

double field_number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool field_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

int64_t field_seconds_ms(const json_t *object, const char *key)
{
    return (int64_t)(1000 * json_number_value(json_object_get(object, key)));
}
