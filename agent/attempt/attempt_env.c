/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_env.c - the environment of the job's submitter, from the files beside the job
 *
 * Only where the agent sees them, on the controller's machine and in an allocation of Slurm: LAUNCH says so. On
 * an SSH host ranks get the environment of the host. Called by attempt_launch.c.
 */
#include <stdlib.h>

#include "agent/attempt/attempt_internal.h"
#include "agent/core/redact.h"
#include "agent/core/submit_env.h"
#include "agent/nodes/follower.h"
#include "agent/os/env_file.h"
#include "agent/probe/probe.h"
#include "agent/ranks/launch_env.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

extern char **environ;

/* The secrets that the spec names: they override all other variables. */
static int give_secrets(struct attempt *a, const json_t *values, struct err *err)
{
    json_t *named = json_object(), *name;
    size_t i;
    json_array_foreach (json_object_get(json_object_get(a->launch, "spec"), "secrets"), i, name) {
        json_t *value = json_object_get(values, json_string_value(name));
        if (value)
            json_object_set(named, json_string_value(name), value);
    }
    if (redact_add_all(a->redact, values) < 0 || json_object_set_new(a->launch, "secrets", named) < 0)
        return err_set(err, ERR_MEMORY, "no memory for the launch");
    return 0;
}

/* Adds the values of secrets to the entries, if there are any. */
static int read_secrets(struct attempt *a, struct buf *entries, const char *dir, struct err *err)
{
    struct buf secret = {NULL, 0, 0};
    struct err why = {0};
    int rc = env_file_read(&secret, dir, ENV_FILE_SECRETS, &why);
    if (rc < 0 && why.code != ERR_NOT_FOUND)
        rc = err_set(err, why.code, "%s", why.text);
    else if (rc < 0)
        rc = 0;
    else {
        json_t *values = env_file_values(&secret);
        rc = give_secrets(a, values, err);
        if (rc == 0 && secret.size > 0 && buf_append(entries, secret.data, secret.size) < 0)
            rc = err_set(err, ERR_MEMORY, "no memory for the launch");
        json_decref(values);
    }
    buf_fini(&secret);
    return rc;
}

/* If the launch names no such file, the ranks get the agent's environment. */
static int read_entries(struct attempt *a, struct buf *entries, const char *dir, struct err *err)
{
    struct err why = {0};
    if (env_file_read(entries, dir, ENV_FILE, &why) == 0)
        return 1;
    if (why.code == ERR_NOT_FOUND && !json_object_get(json_object_get(a->launch, "spec"), "env_from"))
        return 0;
    return err_set(err, why.code, "the environment of the job cannot be read: %s; submit it again, or `jobctl retry` "
                                  "it", why.text);
}

int attempt_take_environment(struct attempt *a, struct err *err)
{
    const enum submit_env_place place = submit_env_place_of(field_text(a->launch, "env_place"));
    const char *dir = field_text(a->launch, "job_dir");
    struct buf entries = {NULL, 0, 0};
    if (place == SUBMIT_ENV_HOST)
        return 0;
    int rc = read_entries(a, &entries, dir, err);
    if (rc >= 0 && read_secrets(a, &entries, dir, err) < 0)
        rc = -1;
    if (rc > 0 && !(a->base = launch_env_base(place, environ, &entries)))
        rc = err_set(err, ERR_MEMORY, "no memory for the environment");
    if (rc > 0) {
        json_object_set_new(a->facts, "environment", probe_environment(a->base));
        follower_set_environment(a->follower, a->base);
    }
    buf_fini(&entries);
    return rc < 0 ? -1 : 0;
}
