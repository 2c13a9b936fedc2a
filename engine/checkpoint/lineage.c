/* SPDX-License-Identifier: Apache-2.0 */
/* lineage.c - see lineage.h */
#include "engine/checkpoint/lineage.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

static const char *origin_of(const json_t *job)
{
    return field_text(json_object_get(job, "checkpoint"), "origin");
}

static bool is_ancestor(const json_t *job, const char *origin)
{
    const json_t *list = json_object_get(json_object_get(job, "checkpoint"), "lineage");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && strcmp(one, origin) == 0)
            return true;
    }
    return false;
}

/* Does `resume:` name a checkpoint of this origin? */
static bool is_named(const json_t *job, const char *origin)
{
    const char *path = field_text(job, "resume");
    if (path[0] != '/')
        return false;
    json_t *notes = checkpoint_notes(path, NULL);
    const bool same = strcmp(origin_of(json_object_get(notes, "job")), origin) == 0;
    json_decref(notes);
    return same;
}

int lineage_check(const json_t *job, const char *path, struct err *err)
{
    int rc = 0;
    json_t *notes = checkpoint_notes(path, NULL);
    const json_t *writer = json_object_get(notes, "job");
    const char *own = origin_of(job), *theirs = origin_of(writer);
    if (own[0] && theirs[0] && strcmp(own, theirs) != 0 && !is_ancestor(job, theirs) &&
        !is_named(job, theirs))
        rc = err_set(err, ERR_CONFLICT,
                     "%s was written by another job (%s): set another checkpoint.dir for this job, or "
                     "continue from it with `resume: %s`",
                     path, field_text(writer, "name"), path);
    json_decref(notes);
    return rc;
}

int lineage_check_root(const json_t *job, const char *root, struct err *err)
{
    char path[CHECKPOINT_PATH];
    const int64_t step = checkpoint_newest_step(root);
    if (step < 0 || snprintf(path, sizeof(path), "%s/step-%08lld", root, (long long)step) >= (int)sizeof(path))
        return 0;
    return lineage_check(job, path, err);
}
