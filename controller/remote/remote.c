/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - see remote.h */
#include "controller/remote/remote.h"

#include <stdio.h>
#include <string.h>

static const struct remote *const remotes[] = { &remote_local, &remote_ssh, &remote_slurm };

const struct remote *remote_of_spec(const json_t *spec)
{
    const char *launch = json_string_value(json_object_get(spec, "launch"));
    for (size_t i = 0; launch && i < sizeof(remotes) / sizeof(remotes[0]); i++)
        if (strcmp(remotes[i]->name, launch) == 0)
            return remotes[i];
    return &remote_local;
}

void remote_key(char *out, size_t size, const char *instance, int64_t job)
{
    snprintf(out, size, "%s-%lld", instance, (long long)job);
}
