/* SPDX-License-Identifier: Apache-2.0 */
/* submit_code.c - see submit_code.h */
#include "controller/submit/submit_code.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/remote/remote.h"
#include "controller/submit/local_check.h"
#include "controller/submit/submitter.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

/* The mistake at its place in the file, if it is one of the file's. */
static int refuse(struct call *call, const json_t *request, const struct err *why)
{
    if (why->code != ERR_USAGE && why->code != ERR_NOT_FOUND)
        return err_set(&call->err, why->code, "%s", why->text);
    local_check_refuse(call, request, "snapshot", "%s", why->text);
    return diagnostics_first(&call->found, &call->err);
}

/* Where a login of the far host begins is not a directory of code. */
static bool is_named_there(const json_t *spec)
{
    char directory[PATH_MAX];
    const char *workdir = field_text(spec, "workdir");
    return workdir[0] && submitter_directory(directory, sizeof(directory), NULL) == 0 &&
           strcmp(workdir, directory) != 0;
}

/* With -H the workdir is on the other machine, whose jobctl takes the snapshot. */
static int take_there(struct code_taken *t, struct call *call, const json_t *request, const json_t *spec, bool must)
{
    struct err why = {.code = ERR_NONE};
    json_t *answer;
    if (!is_named_there(spec) && must)
        err_set(&why, ERR_USAGE, "the snapshot is taken on %s, but the spec names no directory there: add workdir: DIR",
                far_host_name());
    if (why.code)
        return refuse(call, request, &why);
    if (!is_named_there(spec))
        return 0;
    if (submitter_code(&answer, call, request, spec) < 0)
        return -1;
    snprintf(t->name, sizeof(t->name), "%s", field_text(answer, "name"));
    t->notes = json_incref(json_object_get(answer, "notes"));
    json_decref(answer);
    return 0;
}

/* The directory of the code: on hosts the default of workdir is the file's folder here. */
static int find_workdir(char dir[PATH_MAX], const json_t *request, const json_t *spec)
{
    const char *given = field_text(spec, "workdir"), *cwd = field_text(request, "cwd");
    const char *from = given[0] ? given : cwd;
    return snprintf(dir, PATH_MAX, "%s", from) < PATH_MAX && from[0] ? 0 : -1;
}

/* Unasked, where the job can have code of its own and may run without its workdir. */
static bool is_for_hosts(const json_t *spec)
{
    return remote_of_spec(spec) == &remote_ssh &&
           (json_is_string(json_object_get(spec, "run")) || json_is_string(json_object_get(spec, "setup")));
}

bool submit_code_is_sent(const json_t *spec)
{
    const json_t *wanted = json_object_get(spec, "snapshot");
    const char *workdir = field_text(spec, "workdir");
    if (remote_of_spec(spec) != &remote_ssh)
        return false;
    return wanted ? json_is_true(wanted) : is_for_hosts(spec) && (!workdir[0] || access(workdir, X_OK) == 0);
}

int submit_code_take(struct code_taken *t, struct call *call, const json_t *request, const json_t *spec)
{
    char home[PATH_MAX], workdir[PATH_MAX];
    struct err why = {.code = ERR_NONE};
    const json_t *wanted = json_object_get(spec, "snapshot");
    const struct code_wish wish = {.home = home, .workdir = workdir,
                                   .snapshot = request && (wanted ? json_is_true(wanted) : is_for_hosts(spec)),
                                   .must = request && json_is_true(wanted), .max_bytes = code_take_max()};
    *t = (struct code_taken){.lock = -1};
    if (far_host_name())
        return request ? take_there(t, call, request, spec, wish.must) : 0;
    if (home_dir(home, sizeof(home), &call->err) < 0)
        return -1;
    if (find_workdir(workdir, request, spec) < 0 || code_take(t, &wish, &why) == 0)
        return 0;
    if (wish.must)
        return refuse(call, request, &why);
    t->notes = json_array();
    json_array_append_new(t->notes, json_text_f("the job's code was not recorded: %s", why.text));
    return 0;
}

void submit_code_end(struct code_taken *t)
{
    if (far_host_name() && t->name[0])
        submitter_code_end();
    if (far_host_name())
        t->name[0] = t->dir[0] = '\0'; /* nothing of it is here */
    code_take_end(t);
}

json_t *submit_code_request(const struct code_taken *t, const json_t *request)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)request);
    if (t->name[0])
        json_object_set_new(copy, "code", json_text(t->name));
    return copy;
}
