/* SPDX-License-Identifier: Apache-2.0 */
/* submitter.c - see submitter.h; cmd_relay.c answers what is asked here */
#include "controller/submit/submitter.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/far_host.h"
#include "controller/cli/command.h"
#include "controller/spec/jobspec.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* What the far host says of itself, asked for once. */
static json_t *far_self(struct err *err)
{
    static json_t *self;
    json_t *question = self ? NULL : json_make("{s:s}", "do", "submitter");
    if (question && far_host_ask(&self, question, err) < 0) {
        json_decref(self);
        self = NULL;
    }
    json_decref(question);
    return self;
}

int submitter_directory(char *out, size_t size, struct err *err)
{
    if (!far_host_name())
        return getcwd(out, size) ? 0 : err_set(err, ERR_SYSTEM, "the current directory no longer exists");
    const json_t *self = far_self(err);
    if (!self)
        return -1;
    snprintf(out, size, "%s", field_text(self, "directory"));
    return 0;
}

static json_t *own_environment(void)
{
    json_t *out = json_object();
    char name[256];
    for (char **e = environ; *e; e++) {
        const size_t len = strcspn(*e, "=");
        if (!(*e)[len] || len == 0 || len >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)len, *e);
        json_t *value = json_string(*e + len + 1);
        if (!value || json_object_set_new(out, name, value) < 0)
            fprintf(stderr, "note: the variable %s is not valid UTF-8 and is not passed to the job\n", name);
    }
    return out;
}

json_t *submitter_environment(struct err *err)
{
    if (!far_host_name())
        return own_environment();
    const json_t *self = far_self(err), *data = json_object_get(self, "data");
    if (self && !json_is_object(data))
        err_set(err, ERR_SYSTEM, "%s did not report its environment; compare the versions: jobctl -H %s version",
                far_host_name(), far_host_name());
    return json_is_object(data) ? json_deep_copy(data) : NULL;
}

const char *submitter_variable(const char *name)
{
    if (!far_host_name())
        return NULL;
    return json_string_value(json_object_get(json_object_get(far_self(NULL), "data"), name));
}

json_t *submitter_set(const char *const *set, int nset)
{
    json_t *out = json_array();
    for (int i = 0; i < nset; i++)
        json_array_append_new(out, json_string(set[i]));
    return out;
}

/* Asks and takes the mistakes that the answer lists; *answer is NULL after a failure. */
static int ask(json_t **answer, json_t *question, struct diagnostics *found, struct err *err)
{
    *answer = NULL;
    if (!question)
        return err_set(err, ERR_USAGE, "the job spec, or its path, is not valid UTF-8");
    const int rc = far_host_ask(answer, question, err);
    if (rc < 0) {
        diagnostics_from_json(found, *answer);
        json_decref(*answer);
        *answer = NULL;
    }
    json_decref(question);
    return rc;
}

int submitter_parse(json_t **spec, const char *text, const char *file, const char *base, const char *const *set,
                    int nset, struct diagnostics *found, struct err *err)
{
    json_t *answer;
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    if (!far_host_name())
        return jobspec_parse(spec, text, file, base, set, nset, found, err);
    *spec = NULL;
    if (ask(&answer, json_make("{s:s, s:o, s:s, s:o, s:o}", "do", "parse", "text", json_string(text), "file", name, "base",
                               json_string(base), "set", submitter_set(set, nset)), found, err) < 0)
        return -1;
    *spec = json_incref(json_object_get(answer, "spec"));
    json_decref(answer);
    return *spec ? 0 : err_set(err, ERR_SYSTEM, "cannot understand the answer from %s", far_host_name());
}

static int ask_of_spec(json_t **answer, const char *what, struct call *call, const json_t *request, const json_t *spec)
{
    json_t *question = json_make("{s:s, s:O, s:O, s:O}", "do", what, "text", json_object_get(request, "spec"), "set",
                                 json_object_get(request, "set"), "spec", spec);
    return ask(answer, question, &call->found, &call->err);
}

int submitter_code(json_t **answer, struct call *call, const json_t *request, const json_t *spec)
{
    return ask_of_spec(answer, "code", call, request, spec);
}

void submitter_code_end(void)
{
    struct diagnostics none = {.count = 0};
    struct err ignored = {.code = ERR_NONE};    /* the end of this process does the same */
    json_t *answer;
    ask(&answer, json_make("{s:s}", "do", "code_end"), &none, &ignored);
    json_decref(answer);
}

int submitter_check(struct call *call, const json_t *request, json_t *spec, json_t *notes)
{
    json_t *answer;
    if (ask_of_spec(&answer, "check", call, request, spec) < 0)
        return -1;
    json_array_extend(notes, json_object_get(answer, "notes"));
    if (json_is_object(json_object_get(answer, "spec"))) /* with the commits of models */
        json_object_update(spec, json_object_get(answer, "spec"));
    json_decref(answer);
    return 0;
}

static int far_real_path(char *out, const char *path, struct err *err)
{
    json_t *answer = NULL, *question = json_make("{s:s, s:o}", "do", "real_path", "path", json_string(path));
    struct diagnostics none = {.count = 0};
    if (ask(&answer, question, &none, err) < 0)
        return -1;
    snprintf(out, PATH_MAX, "%s", field_text(answer, "path"));
    json_decref(answer);
    return 0;
}

int submitter_real_path(char *out, const char *path, struct err *err)
{
    if (far_host_name())
        return far_real_path(out, path, err);
    return realpath(path, out) ? 0 : err_set(err, ERR_NOT_FOUND, "directory '%.300s' does not exist", path);
}
