/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.c - see host_groups.h */
#include "controller/spec/host_groups.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "controller/spec/config.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"

static bool has(const json_t *list, const json_t *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), name))
            return true;
    return false;
}

static int no_group(const char *name, const json_t *groups, struct err *err)
{
    char near[80] = "";
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)groups, key, value)
        if (!near[0] && spec_distance(key, name) <= 2)
            snprintf(near, sizeof(near), "; did you mean @%.60s?", key);
    return err_set(err, ERR_USAGE, "hosts: unknown group @%.60s%s", name,
                   near[0] ? near : json_object_size(groups) ? ""
                   : "; define groups in ~/.config/jobctl/config.yaml, such as groups: {gpus: "
                     "[gpu1]}");
}

int host_groups_expand(json_t *hosts, struct err *err)
{
    struct config config = { .groups = NULL };
    json_t *all = json_array();
    int rc = json_array_size(hosts) > 0 ? config_load(&config, err) : 0;
    const json_t *groups = config.groups;
    for (size_t i = 0; rc == 0 && i < json_array_size(hosts); i++) {
        json_t *one = json_array_get(hosts, i), *member;
        const char *name = json_string_value(one);
        const bool meant = name && name[0] == '@';
        const json_t *group = name ? json_object_get(groups, name + meant) : NULL;
        size_t k;
        if (meant && !group)
            rc = no_group(name + 1, groups, err);
        else if (!group)
            json_array_append(all, one);
        json_array_foreach (group, k, member)
            if (!has(all, member))
                json_array_append(all, member);
    }
    if (rc == 0 && json_array_size(hosts) > 0) {
        json_array_clear(hosts);
        json_array_extend(hosts, all);
    }
    config_fini(&config);
    json_decref(all);
    return rc;
}
