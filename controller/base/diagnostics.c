/* SPDX-License-Identifier: Apache-2.0 */
/* diagnostics.c - see diagnostics.h */
#include "controller/base/diagnostics.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json_make.h"

/* Mistakes without a line sort last. */
static bool stands_before(const struct finding *a, const struct finding *b)
{
    if (!a->line || !b->line)
        return a->line && !b->line;
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

static bool same(const struct finding *a, const struct finding *b)
{
    return a->line == b->line && a->column == b->column && strcmp(a->err.text, b->err.text) == 0;
}

void diagnostics_add(struct diagnostics *found, int line, int column, const struct err *err)
{
    const struct finding one = {.line = line, .column = column, .err = *err};
    int at = found->count;
    for (int i = 0; i < found->count; i++)
        if (same(&found->list[i], &one))
            return;
    while (at > 0 && stands_before(&one, &found->list[at - 1]))
        at--;
    if (found->count == DIAGNOSTICS_MAX)
        found->more++;
    else
        found->count++;
    if (at == DIAGNOSTICS_MAX)
        return;
    memmove(&found->list[at + 1], &found->list[at], (size_t)(found->count - at - 1) * sizeof(found->list[0]));
    found->list[at] = one;
}

int diagnostics_first(const struct diagnostics *found, struct err *err)
{
    const struct err *first = &found->list[0].err;
    return found->count ? err_set(err, first->code, "%s", first->text) : 0;
}

static json_t *place_of(const struct finding *f, const char *file)
{
    if (!f->line)
        return json_object();
    return json_make("{s:s, s:i, s:i}", "file", file, "line", f->line, "column", f->column);
}

json_t *diagnostics_to_json(const struct diagnostics *found, const char *file)
{
    json_t *out = json_object(), *errors = json_array();
    if (found->count)
        json_object_set_new(out, "error", place_of(&found->list[0], file));
    for (int i = 0; i < found->count; i++) {
        json_t *one = json_make("{s:s}", "text", found->list[i].err.text);
        json_t *place = place_of(&found->list[i], file);
        json_object_update(one, place);
        json_decref(place);
        json_array_append_new(errors, one);
    }
    if (found->count)
        json_object_set(out, "errors", errors);
    if (found->more)
        json_object_set_new(out, "more", json_integer(found->more));
    json_decref(errors);
    return out;
}

void diagnostics_from_json(struct diagnostics *found, const json_t *answer)
{
    size_t i;
    json_t *one;
    *found = (struct diagnostics){.count = 0};
    json_array_foreach (json_object_get(answer, "errors"), i, one) {
        const char *text = json_string_value(json_object_get(one, "text"));
        struct err err = {.code = ERR_NONE};
        err_set(&err, ERR_USAGE, "%s", text ? text : "a mistake without a description");
        diagnostics_add(found, (int)json_integer_value(json_object_get(one, "line")),
                        (int)json_integer_value(json_object_get(one, "column")), &err);
    }
    found->more += (int)json_integer_value(json_object_get(answer, "more"));
}
