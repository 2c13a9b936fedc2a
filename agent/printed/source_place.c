/* SPDX-License-Identifier: Apache-2.0 */
/* source_place.c - see source_place.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/source_place.h"

#include <stdio.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Parts of the paths of files that are not the user's. */
static const char *const foreign[] = {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python",
                                      "/torch/", "<frozen ", "<__array_function__", "<decorator", "/bin/torchrun",
                                      "/bin/accelerate", "/bin/deepspeed", "/multiprocessing/"};

bool source_place_frame(struct text_line line, struct text_line *file, struct text_line *number)
{
    static const char head[] = "File \"", middle[] = "\", line ";
    line = text_line_trim(line);
    if (!text_line_begins(line, head))
        return false;
    const char *end = text_line_find(line, middle);
    if (!end)
        return false;
    const char *digits = end + strlen(middle);
    *file = (struct text_line){line.at + strlen(head), (size_t)(end - line.at) - strlen(head)};
    *number = (struct text_line){digits, 0};
    while (digits + number->n < line.at + line.n && strchr("0123456789", digits[number->n]))
        number->n++;
    return number->n > 0;
}

static bool is_foreign(struct text_line file)
{
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (text_line_find(file, foreign[i]))
            return true;
    return false;
}

/* The last part of a path; the last two, where one alone says little: "models/__init__.py". */
static struct text_line base_name(struct text_line file)
{
    size_t at = file.n;
    while (at && file.at[at - 1] != '/')
        at--;
    if (at > 1 && file.n - at > 2 && memcmp(file.at + at, "__", 2) == 0)
        for (at--; at && file.at[at - 1] != '/';)
            at--;
    return (struct text_line){file.at + at, file.n - at};
}

void source_place_take(struct source_place *p, struct text_line file, struct text_line number)
{
    const bool code = text_line_begins(file, "<");
    if (is_foreign(file) || (code && p->file))
        return;
    const struct text_line name = base_name(file);
    p->file = !code;
    snprintf(p->text, sizeof(p->text), "%.*s:%.*s", (int)(name.n < 48 ? name.n : 48), name.at,
             (int)(number.n < 9 ? number.n : 9), number.at);
}
