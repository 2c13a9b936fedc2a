/* SPDX-License-Identifier: Apache-2.0 */
/* container_choice.c - see container_choice.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_choice.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/container_kind.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

static const json_t *row_of(const json_t *found, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach (found, i, row)
        if (strcmp(field_text(row, "runtime"), name) == 0)
            return row;
    return NULL;
}

/* "podman is not installed" */
static const char *missing(const json_t *row, const char *name, char *out, size_t size)
{
    const char *why = field_text(row, "why");
    snprintf(out, size, "%s %s", name, why[0] ? why : "is not installed");
    return out;
}

static const json_t *choose_asked(const json_t *found, const char *name, const char *image, char *why, size_t size,
                                  struct err *err)
{
    char text[200];
    const json_t *row = row_of(found, name);
    if (!container_kind_reads(container_kind_of(name), image)) {
        err_set(err, ERR_USAGE, "%s cannot run the file %.200s; a .sqsh file needs enroot, any other "
                                "apptainer or singularity", name, image);
        return NULL;
    }
    if (!row || field_text(row, "why")[0]) {
        err_set(err, ERR_CONFLICT, "%s on this node; install it, or leave image.runtime out to use what "
                                   "the node has", missing(row, name, text, sizeof(text)));
        return NULL;
    }
    snprintf(why, size, "set by image.runtime");
    return row;
}

/* Those that come before the chosen one, and why they were not taken. */
static void explain(const json_t *found, const struct container_kind *chosen, const char *image, char *why, size_t size)
{
    const bool first = chosen == container_kinds;
    size_t n = (size_t)snprintf(why, size, first ? "the first in the order" : "the first of");
    for (const struct container_kind *k = container_kinds; k->name && n < size; k++)
        n += (size_t)snprintf(why + n, size - n, "%s %s", k == container_kinds ? "" : ",", k->name);
    if (n < size)
        n += (size_t)snprintf(why + n, size - n, first ? "" : " that this node has");
    for (const struct container_kind *k = container_kinds; k < chosen && n < size; k++) {
        const json_t *row = row_of(found, k->name);
        if (field_text(row, "why")[0])
            n += (size_t)snprintf(why + n, size - n, "; %s %s", k->name, field_text(row, "why"));
        else if (row && !container_kind_reads(k, image))
            n += (size_t)snprintf(why + n, size - n, "; %s does not read such a file", k->name);
    }
}

static void refuse_all(const json_t *found, const char *image, struct err *err)
{
    size_t i;
    const json_t *row;
    char text[300] = "";
    json_array_foreach (found, i, row) {
        const size_t n = strlen(text);
        const char *name = field_text(row, "runtime"), *why = field_text(row, "why");
        snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? "; " : ": ", name,
                 why[0] ? why : "does not read such a file");
    }
    err_set(err, ERR_CONFLICT, "this node has no runtime for %.200s%s; install podman, docker, or apptainer",
            image, text);
}

const char *container_choice_key(const json_t *image)
{
    const char *asked = field_text(image, "runtime");
    return asked[0] && strcmp(asked, "auto") != 0 ? "image.runtime" : "image";
}

const json_t *container_choice(const json_t *found, const json_t *image, char *why, size_t size, struct err *err)
{
    const char *name = field_text(image, "image"), *asked = field_text(image, "runtime");
    if (asked[0] && strcmp(asked, "auto") != 0)
        return choose_asked(found, asked, name, why, size, err);
    for (const struct container_kind *k = container_kinds; k->name; k++) {
        const json_t *row = row_of(found, k->name);
        if (!row || field_text(row, "why")[0] || !container_kind_reads(k, name))
            continue;
        explain(found, k, name, why, size);
        return row;
    }
    refuse_all(found, name, err);
    return NULL;
}
