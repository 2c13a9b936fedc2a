/* SPDX-License-Identifier: Apache-2.0 */
/* spec_file.c - see spec_file.h */
#include "controller/cli/spec_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/base/yaml.h"
#include "controller/cli/command.h"
#include "controller/spec/jobspec.h"

static char *read_text(const char *file, struct err *err)
{
    FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    if (!f)
        err_set(err, ERR_USAGE, "cannot read %s: %m", file);
    return f ? yaml_read(f, file, err) : NULL;
}

json_t *spec_file_secrets(const json_t *names, struct err *err)
{
    json_t *values = json_object();
    size_t i;
    json_t *name;
    json_array_foreach (names, i, name) {
        const char *key = json_string_value(name), *value = getenv(key);
        if (!value) {
            err_set(err, ERR_USAGE, "secret %s is not set in your environment; export it, or "
                    "remove it from secrets", key);
            json_decref(values);
            return NULL;
        }
        json_object_set_new(values, key, json_string(value));
    }
    return values;
}

int spec_file_request(struct call *call, const char *file, const char *const *set, int nset,
                      json_t **request, json_t **spec)
{
    char cwd[PATH_MAX];
    json_t *canonical = NULL, *secrets = NULL;
    int rc = -1;

    *request = NULL;
    char *text = read_text(file, &call->err);
    if (!text)
        return -1;
    if (!getcwd(cwd, sizeof(cwd))) {
        err_set(&call->err, ERR_SYSTEM, "the current directory does not exist any more");
        goto out;
    }
    snprintf(call->file, sizeof(call->file), "%s", file);
    if (jobspec_parse(&canonical, text, file, cwd, set, nset, &call->found, &call->err) < 0)
        goto out;
    if (!(secrets = spec_file_secrets(json_object_get(canonical, "secrets"), &call->err)))
        goto out;
    *request = json_pack("{s:s, s:s, s:O, s:O}", "spec", text, "cwd", cwd, "canonical", canonical,
                         "secrets", secrets);
    if (!*request) {
        err_set(&call->err, ERR_USAGE, "%s or its path is not valid UTF-8", file);
        goto out;
    }
    if (spec)
        *spec = json_incref(canonical);
    rc = 0;
out:
    json_decref(canonical);
    json_decref(secrets);
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
