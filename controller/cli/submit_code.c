/* SPDX-License-Identifier: Apache-2.0 */
/* submit_code.c - see submit_code.h */
#include "controller/cli/submit_code.h"

#include <limits.h>
#include <stdint.h>

#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/local_check.h"
#include "controller/remote/remote.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"

/* The mistake at its place in the file, if it is one of the file's. */
static int refuse(struct call *call, const json_t *request, const struct err *why)
{
    if (why->code != ERR_USAGE && why->code != ERR_NOT_FOUND)
        return err_set(&call->err, why->code, "%s", why->text);
    local_check_refuse(call, request, "snapshot", "%s", why->text);
    return diagnostics_first(&call->found, &call->err);
}

int submit_code_take(struct code_taken *t, struct call *call, const json_t *request, const json_t *spec)
{
    char home[PATH_MAX];
    struct err why = {.code = ERR_NONE};
    const json_t *wanted = json_object_get(spec, "snapshot");
    const bool hosts = !wanted && remote_of_spec(spec) == &remote_ssh;
    const struct code_wish wish = {.home = home, .workdir = field_text(spec, "workdir"),
                                   .snapshot = request && (hosts || json_is_true(wanted)),
                                   .must = request && json_is_true(wanted), .max_bytes = code_take_max()};
    *t = (struct code_taken){.lock = -1};
    if (home_dir(home, sizeof(home), &call->err) < 0)
        return -1;
    if (code_take(t, &wish, &why) == 0)
        return 0;
    if (wish.must)
        return refuse(call, request, &why);
    t->notes = json_array();
    json_array_append_new(t->notes, json_sprintf("the code of the job is not recorded: %s", why.text));
    return 0;
}

json_t *submit_code_request(const struct code_taken *t, const json_t *request)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)request);
    if (t->name[0])
        json_object_set_new(copy, "code", json_string(t->name));
    return copy;
}
