/* SPDX-License-Identifier: Apache-2.0 */
/* container_try.c - see container_try.h */
#include "agent/container/container_try.h"

#include <stdio.h>
#include <string.h>

#include "agent/container/container_kind.h"
#include "agent/container/container_words.h"
#include "agent/os/subprocess.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { WAIT_MS = 15 * 1000 };

/* The last word of the first line ("apptainer version 1.3.1"), or the last line. */
static void keep(json_t *row, const char *key, const char *text)
{
    char line[200];
    const size_t n = strcspn(text, "\n");
    const bool version = strcmp(key, "version") == 0;
    if (!version)
        for (const char *next; (next = strchr(text, '\n')) && next[1];)
            text = next + 1;
    snprintf(line, sizeof(line), "%.*s", (int)(version ? n : strcspn(text, "\n")), text);
    err_make_printable(line);
    const char *word = version ? strrchr(line, ' ') : NULL;
    json_object_set_new(row, key, json_text(word ? word + 1 : line));
}

static void ask(json_t *row)
{
    struct buf out[2] = {{0}, {0}};
    struct err err = {.code = ERR_NONE};
    const struct container_kind *kind = container_kind_of(field_text(row, "runtime"));
    struct container_words argv = {.word = NULL};
    if (!kind)
        return;
    container_words_add(&argv, kind->beside ? kind->beside : field_text(row, "path"));
    container_words_add_all(&argv, kind->version);
    const struct subprocess_spec s = {.argv = container_words_end(&argv), .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE, .session = true};
    const int code = subprocess_run(&s, out, WAIT_MS, &err);
    if (code == 0 && out[0].size)
        keep(row, "version", subprocess_text(&out[0]));
    else
        keep(row, "error", code < 0 ? err.text : out[1].size ? subprocess_text(&out[1]) : "it does not start");
    container_words_fini(&argv);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

void container_try(json_t *found)
{
    size_t i;
    json_t *row;
    json_array_foreach (found, i, row)
        if (!field_text(row, "why")[0])
            ask(row);
}
