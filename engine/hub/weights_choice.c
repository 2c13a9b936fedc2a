/* SPDX-License-Identifier: Apache-2.0 */
/* weights_choice.c - see weights_choice.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/hub/weights_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text_append.h"

/* What a name ends with, the best last. */
static const char *const endings[] = {"", ".bin", ".pt", ".pth", ".index.json", ".safetensors",
                                      ".safetensors.index.json"};

enum { ENDINGS = sizeof(endings) / sizeof(endings[0]), SHARD = sizeof("-00001-of-00002") - 1 };

static int form_of(const char *name)
{
    int form = ENDINGS - 1;
    while (form > 0 && !text_ends_with(name, endings[form]))
        form--;
    return name[0] == '.' ? 0 : form;
}

static bool is_variant(const char *name)
{
    return strstr(name, ".fp16.") || strstr(name, ".bf16.") || strstr(name, ".non_ema.");
}

void weights_choice_add(struct weights_choice *c, const char *name)
{
    const int form = form_of(name);
    if (form == 0 || form < c->form || (form == c->form && is_variant(name) && !is_variant(c->name)))
        return;
    c->files = form > c->form || (is_variant(c->name) && !is_variant(name)) ? 1 : c->files + 1;
    c->form = form;
    snprintf(c->name, sizeof(c->name), "%s", name);
}

const char *weights_choice_ending(const struct weights_choice *c)
{
    return endings[c->form];
}

bool weights_choice_is_weights(const char *name)
{
    return form_of(name) > 0;
}

/* "-00001-of-00002" */
static bool read_shard(const char *text, int *number, int *total)
{
    static const char shape[] = "-#####-of-#####";
    for (size_t i = 0; i < SHARD; i++)
        if (shape[i] == '#' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
            return false;
    *number = (int)strtol(text + 1, NULL, 10);
    *total = (int)strtol(text + SHARD - 5, NULL, 10);
    return *number >= 1 && *number <= *total;
}

bool weights_choice_is_shard(const char *index, const char *name, int *number, int *total)
{
    static const char end[] = ".index.json";
    if (!text_ends_with(index, end))
        return false;
    const char *stem_end = index + strlen(index) - (sizeof(end) - 1), *dot = stem_end - 1;
    while (dot > index && *dot != '.')
        dot--;
    const size_t stem = (size_t)(dot - index), ending = (size_t)(stem_end - dot);
    return stem > 0 && strlen(name) == stem + SHARD + ending && strncmp(name, index, stem) == 0 &&
           strncmp(name + stem + SHARD, dot, ending) == 0 && read_shard(name + stem, number, total);
}
