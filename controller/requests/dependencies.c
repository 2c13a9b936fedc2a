/* SPDX-License-Identifier: Apache-2.0 */
/* dependencies.c - see dependencies.h */
#include "controller/requests/dependencies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/requests/request_job.h"
#include "controller/spec/spec_after.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

/* A job that waits for another may continue the other's checkpoints, and those that the other continued. */
static int inherit(json_t *lineage, struct daemon *d, int64_t id, struct err *err)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, d->store, id, err) < 0)
        return -1;
    json_t *spec = json_loads(canonical, 0, NULL);
    const json_t *checkpoint = json_object_get(spec, "checkpoint");
    const char *origin = field_text(checkpoint, "origin");
    if (origin[0])
        json_array_append_new(lineage, json_text(origin));
    json_t *older = json_object_get(checkpoint, "lineage");
    if (json_is_array(older))
        json_array_extend(lineage, older);
    json_decref(spec);
    free(yaml);
    free(canonical);
    return 0;
}

int dependencies_resolve(json_t *spec, struct daemon *d, int64_t of, struct err *err)
{
    const json_t *after = json_object_get(spec, "after");
    json_t *ids = json_array(), *lineage = json_array();
    for (size_t i = 0; i < json_array_size(after); i++) {
        const json_t *v = json_array_get(after, i);
        char word[96];
        const char *name;
        int64_t id;
        struct job_row row;
        if (json_is_integer(v))
            snprintf(word, sizeof(word), "%lld", (long long)json_integer_value(v));
        else
            snprintf(word, sizeof(word), "%s", json_is_string(v) ? json_string_value(v) : "");
        const enum spec_after kind = spec_after_parse(&name, word);
        if (request_job_id_before(&id, d, name, of, err) < 0 || jobs_get(&row, d->store, id, err) < 0)
            goto fail;
        if (id >= of) {
            err_set(err, ERR_CONFLICT, "job %lld was not submitted before job %lld, and a job can wait only for "
                    "earlier ones", (long long)id, (long long)of);
            goto fail;
        }
        if (row.result[0] && !spec_after_met(kind, strcmp(row.result, "succeeded") == 0)) {
            err_set(err, ERR_CONFLICT, kind == AFTER_NOTOK
                    ? "job %lld has %s, so a job that waits for its failure could never start"
                    : "job %lld did not succeed (%s), so a job that waits for its success could never start",
                    (long long)id, row.result);
            goto fail;
        }
        if (inherit(lineage, d, id, err) < 0)
            goto fail;
        json_array_append_new(ids, kind == AFTER_OK ? json_integer(id)
                                                    : json_text_f("%s:%lld", spec_after_name(kind), (long long)id));
    }
    if (json_array_size(lineage) > 0)
        json_object_set(json_object_get(spec, "checkpoint"), "lineage", lineage);
    json_decref(lineage);
    return json_object_set_new(spec, "after", ids);
fail:
    err_prefix(err, "after: ");
    json_decref(lineage);
    json_decref(ids);
    return -1;
}
