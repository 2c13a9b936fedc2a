/* SPDX-License-Identifier: Apache-2.0 */
/* container_choice.c - see container_choice.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_choice.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/container_command.h"
#include "agent/container/container_image.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/text_append.h"

static const json_t *row_of(const json_t *found, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach (found, i, row)
        if (strcmp(field_text(row, "runtime"), name) == 0)
            return row;
    return NULL;
}

static bool reads(enum container_runtime runtime, const char *image)
{
    if (!container_image_is_file(image))
        return true;
    if (text_ends_with(image, ".sqsh"))
        return runtime == CONTAINER_ENROOT;
    return runtime == CONTAINER_APPTAINER || runtime == CONTAINER_SINGULARITY;
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
    if (!reads(container_runtime_of(name), image)) {
        err_set(err, ERR_USAGE, "image.runtime: %s cannot run the file %.200s; a .sqsh file needs enroot, any other "
                                "apptainer or singularity", name, image);
        return NULL;
    }
    if (!row || field_text(row, "why")[0]) {
        err_set(err, ERR_CONFLICT, "image.runtime: %s on this node; install it, or leave image.runtime out to use what "
                                   "the node has", missing(row, name, text, sizeof(text)));
        return NULL;
    }
    snprintf(why, size, "set by image.runtime");
    return row;
}

/* Those that come before the chosen one, and why they were not taken. */
static void explain(const json_t *found, enum container_runtime chosen, const char *image, char *why, size_t size)
{
    size_t n = (size_t)snprintf(why, size, chosen ? "the first of" : "the first in the order");
    for (int i = 0; i < CONTAINER_RUNTIMES && n < size; i++)
        n += (size_t)snprintf(why + n, size - n, "%s %s", i ? "," : "",
                              container_runtime_name((enum container_runtime)i));
    if (n < size)
        n += (size_t)snprintf(why + n, size - n, chosen ? " that this node has" : "");
    for (int i = 0; i < (int)chosen && n < size; i++) {
        const char *name = container_runtime_name((enum container_runtime)i);
        const char *trouble = field_text(row_of(found, name), "why");
        if (trouble[0])
            n += (size_t)snprintf(why + n, size - n, "; %s %s", name, trouble);
        else if (!reads((enum container_runtime)i, image) && row_of(found, name))
            n += (size_t)snprintf(why + n, size - n, "; %s does not read such a file", name);
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
    err_set(err, ERR_CONFLICT, "image: this node has no runtime for %.200s%s; install podman, docker, or apptainer",
            image, text);
}

const json_t *container_choice(const json_t *found, const json_t *image, char *why, size_t size, struct err *err)
{
    const char *name = field_text(image, "image"), *asked = field_text(image, "runtime");
    if (asked[0] && strcmp(asked, "auto") != 0)
        return choose_asked(found, asked, name, why, size, err);
    for (int i = 0; i < CONTAINER_RUNTIMES; i++) {
        const json_t *row = row_of(found, container_runtime_name((enum container_runtime)i));
        if (!row || field_text(row, "why")[0] || !reads((enum container_runtime)i, name))
            continue;
        explain(found, (enum container_runtime)i, name, why, size);
        return row;
    }
    refuse_all(found, name, err);
    return NULL;
}
