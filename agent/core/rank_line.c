/* SPDX-License-Identifier: Apache-2.0 */
/* rank_line.c - see rank_line.h */
#include "agent/core/rank_line.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/json_make.h"

const char *rank_line_text(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

json_t *rank_line_broadcast(int generation, const json_t *line, const char *keys)
{
    json_t *body = json_make("{s:i}", "generation", generation);
    for (const char *p = keys; body && *p;) {
        char key[32];
        size_t n = strcspn(p, " ");
        if (n < sizeof(key)) {
            memcpy(key, p, n);
            key[n] = '\0';
            json_t *v = json_object_get(line, key);
            bool plain = json_is_number(v) || json_is_string(v) || json_is_boolean(v);
            json_object_set_new(body, key, plain ? json_incref(v) : json_null());
        }
        p += n + (p[n] == ' ');
    }
    return body;
}
