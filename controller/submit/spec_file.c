/* SPDX-License-Identifier: Apache-2.0 */
/* spec_file.c - see spec_file.h */
#include "controller/submit/spec_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/base/far_host.h"
#include "controller/base/yaml.h"
#include "controller/cli/command.h"
#include "controller/spec/jobspec.h"
#include "controller/submit/submitter.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

bool spec_file_is(const char *word)
{
    return strcmp(word, "-") == 0 || access(word, F_OK) == 0 || strchr(word, '/') || text_ends_with(word, ".yaml") ||
           text_ends_with(word, ".yml");
}

static char *read_text(const char *file, struct err *err)
{
    FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    if (!f)
        err_set(err, errno == EIO || errno == EMFILE || errno == ENFILE || errno == ENOMEM ? ERR_SYSTEM : ERR_USAGE,
                "cannot read %s: %m", file);
    return f ? yaml_read(f, file, err) : NULL;
}

json_t *spec_file_secrets(const json_t *names, struct err *err)
{
    json_t *values = json_object();
    size_t i;
    json_t *name;
    json_array_foreach (names, i, name) {
        const char *key = json_string_value(name), *value = getenv(key);
        if (!value)
            value = submitter_variable(key);
        if (!value || json_object_set_new(values, key, json_string(value)) < 0) {
            err_set(err, ERR_USAGE, "secret %s is %s in your environment; export it, or remove it from secrets", key,
                    value ? "not UTF-8" : "not set");
            json_decref(values);
            return NULL;
        }
    }
    return values;
}

/* The daemon chooses from it (agent/core/submit_env.h). */
static json_t *environment_for(const json_t *canonical, struct err *err)
{
    return strcmp(field_text(canonical, "env_from"), "clean") == 0 ? json_object() : submitter_environment(err);
}

int spec_file_set(struct call *call, const char **set, char after[AFTER_TEXT])
{
    const char *text = options_text(&call->options, "after");
    const int n = call->options.nlist;
    memcpy(set, call->options.list, (size_t)n * sizeof(*set));
    if (!text)
        return n;
    size_t at = (size_t)snprintf(after, AFTER_TEXT, "after=[");
    for (const char *p = text; p; p = strchr(p, ',')) {
        p += *p == ',';
        const int length = (int)strcspn(p, ",");
        if (length == 0 || strcspn(p, "\"\\") < (size_t)length || at + (size_t)length + 8 > AFTER_TEXT)
            return err_set(&call->err, ERR_USAGE, "--after: expected job ids or names separated by commas, such as "
                           "7,afterany:prep, not \"%.60s\"", text);
        at += (size_t)snprintf(after + at, AFTER_TEXT - at, "%s\"%.*s\"", p == text ? "" : ", ", length, p);
    }
    snprintf(after + at, AFTER_TEXT - at, "]");
    set[n] = after;
    return n + 1;
}

/* The request of a canonical spec; *request stays NULL on failure. */
static int pack(struct call *call, json_t **request, const char *text, const char *file, const char *cwd,
                json_t *canonical, const char *const *set, int nset)
{
    char base[PATH_MAX];
    if (jobspec_base(base, sizeof(base), far_host_name() ? "-" : file, cwd, &call->err) < 0)
        return -1;
    json_t *secrets = spec_file_secrets(json_object_get(canonical, "secrets"), &call->err);
    json_t *environment = secrets ? environment_for(canonical, &call->err) : NULL;
    if (!environment) {
        json_decref(secrets);
        return -1;
    }
    *request = json_make("{s:o, s:o, s:O, s:o, s:o, s:o}", "spec", json_string(text), "cwd", json_string(base), "canonical",
                         canonical, "secrets", secrets, "environment", environment, "set", submitter_set(set, nset));
    return *request ? 0 : err_set(&call->err, ERR_USAGE, "%s or its path is not valid UTF-8", file);
}

int spec_file_text_request(struct call *call, const char *text, const char *file, const char *const *set, int nset,
                           json_t **request, json_t **spec)
{
    char cwd[PATH_MAX];
    json_t *canonical = NULL;
    *request = NULL;
    if (submitter_directory(cwd, sizeof(cwd), &call->err) < 0)
        return -1;
    snprintf(call->file, sizeof(call->file), "%s", file);
    int rc = submitter_parse(&canonical, text, file, cwd, set, nset, &call->found, &call->err);
    if (rc == 0)
        rc = pack(call, request, text, file, cwd, canonical, set, nset);
    if (rc == 0 && spec)
        *spec = json_incref(canonical);
    json_decref(canonical);
    return rc;
}

static int check_program(const char *file, const char *text, struct err *err)
{
    const bool python = text_ends_with(file, ".py"), shell = text_ends_with(file, ".sh");
    if (!python && !shell && strncmp(text, "#!", 2) != 0)
        return 0;
    return err_set(err, ERR_USAGE, "%s is a program, not a job file; start it with: jobctl run -- %s%s", file,
                   python ? "python3 " : shell ? "bash " : strchr(file, '/') ? "" : "./", file);
}

int spec_file_request(struct call *call, const char *file, const char *const *set, int nset,
                      json_t **request, json_t **spec)
{
    *request = NULL;
    char *text = read_text(file, &call->err);
    int rc = text && check_program(file, text, &call->err) == 0
                 ? spec_file_text_request(call, text, file, set, nset, request, spec) : -1;
    free(text);
    return rc;
}

int spec_file_post(struct call *call, struct client *c, json_t **answer, const json_t *request)
{
    int rc = client_post(c, answer, "/v1/jobs", request, &call->err);
    if (rc < 0)
        call->found = *client_diagnostics(c);
    return rc;
}
