/* SPDX-License-Identifier: Apache-2.0 */
/* key_text.c - see key_text.h */
#include "controller/help/key_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/spec_rows.h"

const char *key_text_type(const struct spec_field *f)
{
    static const char *const names[] = {
        [FIELD_MAP] = "map", [FIELD_BOOL] = "true, false", [FIELD_INT] = "whole number",
        [FIELD_NUMBER] = "number", [FIELD_STRING] = "text", [FIELD_ENUM] = "one word",
        [FIELD_PATH] = "path", [FIELD_NUMBERS] = "numbers", [FIELD_STRINGS] = "list",
        [FIELD_STRING_MAP] = "map of texts", [FIELD_DURATION] = "duration",
        [FIELD_RANGE] = "durations", [FIELD_EVERY] = "steps or time", [FIELD_ITEMS] = "list of maps",
    };
    return strcmp(f->path, "sweep") == 0 ? "map or list" : names[f->type];
}

void key_text_default(char *out, size_t size, const struct spec_field *f)
{
    if (!f->def || strcmp(f->def, "null") == 0 || strcmp(f->def, "\"\"") == 0)
        snprintf(out, size, "-");
    else if (f->type == FIELD_EVERY)
        snprintf(out, size, "500 steps");
    else if (f->type == FIELD_RANGE)
        snprintf(out, size, "5s..5m");
    else if (f->type == FIELD_DURATION && f->def[0] != '"')
        snprintf(out, size, "%gs", strtod(f->def, NULL));
    else if (f->def[0] == '"')
        snprintf(out, size, "%.*s", (int)strlen(f->def) - 2, f->def + 1);
    else
        snprintf(out, size, "%s", f->def);
}
