/* SPDX-License-Identifier: Apache-2.0 */
/* spec_after.c - see spec_after.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/spec_after.h"

#include <string.h>

static const char *const names[] = {[AFTER_OK] = "afterok", [AFTER_ANY] = "afterany", [AFTER_NOTOK] = "afternotok"};

enum spec_after spec_after_parse(const char **job, const char *text)
{
    const char *colon = strchr(text, ':');
    *job = text;
    for (int kind = AFTER_OK; colon && kind <= AFTER_NOTOK; kind++)
        if (strlen(names[kind]) == (size_t)(colon - text) && strncmp(names[kind], text, strlen(names[kind])) == 0) {
            *job = colon + 1;
            return (enum spec_after)kind;
        }
    return AFTER_OK;
}

const char *spec_after_name(enum spec_after kind)
{
    return names[kind];
}

bool spec_after_met(enum spec_after kind, bool succeeded)
{
    return kind == AFTER_ANY || succeeded == (kind == AFTER_OK);
}
