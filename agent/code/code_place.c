/* SPDX-License-Identifier: Apache-2.0 */
/* code_place.c - see code_place.h */
#include "agent/code/code_place.h"

#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

static json_t *path_here(const char *dir, const char *run_dir)
{
    const char *end = run_dir + strlen(run_dir);
    if (strncmp(dir, "hosted/", 7) != 0)
        return json_text(dir);
    for (int up = 0; up < 3 && end > run_dir; up += *end == '/')
        end--;
    return json_text_f("%.*s/%s", (int)(end - run_dir), run_dir, dir);
}

int code_place_settle(json_t *spec, const json_t *code, const char *run_dir, struct err *err)
{
    struct stat st;
    if (!json_is_object(code))
        return 0;
    json_t *path = path_here(field_text(code, "dir"), run_dir);
    const char *text = path ? json_string_value(path) : "";
    const bool there = stat(text, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = 0;
    if (there)
        rc = json_object_set(spec, "workdir", path);
    else if (field_true(code, "must"))
        rc = err_set(err, ERR_SYSTEM, "the copy of the job's code, %s, is missing; daemon.log has the reason", text);
    else
        json_object_set(spec, "workdir", json_object_get(code, "workdir"));
    json_decref(path);
    return rc;
}
