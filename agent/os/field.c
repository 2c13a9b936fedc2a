/* SPDX-License-Identifier: Apache-2.0 */
/* field.c - see field.h */
#include "agent/os/field.h"

const char *field_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int64_t field_int(const json_t *object, const char *key, int64_t otherwise)
{
    const int64_t most = INT64_C(1) << 53;
    const json_t *v = json_object_get(object, key);
    const int64_t n = json_integer_value(v);
    return json_is_integer(v) && n <= most && n >= -most ? n : otherwise;
}
