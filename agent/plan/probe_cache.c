/* SPDX-License-Identifier: Apache-2.0 */
/* probe_cache.c - see probe_cache.h */
#include "agent/plan/probe_cache.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/plan/plan_internal.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { SCHEMA = 1 };

/* The keys of a pair that come from self-tests. */
static const char *const tried[] = {"copy", "copy_gb_per_s", "sum", "sum_needs"};

enum { TRIED = sizeof(tried) / sizeof(tried[0]) };

/* One file per host: several machines may share the directory. */
static int path_of(char path[PATH_MAX], const json_t *facts, const char *dir)
{
    char host[65];
    snprintf(host, sizeof(host), "%.64s", field_text(facts, "hostname"));
    for (char *c = host; *c; c++)
        *c = *c == '/' || *c == '.' ? '_' : *c;
    return (size_t)snprintf(path, PATH_MAX, "%s/gpus-%s.json", dir, host[0] ? host : "here") <
                   PATH_MAX ? 0 : -1;
}

/* The results are valid only for this state. */
static json_t *state_of(const json_t *facts)
{
    static const char *const keys[] = {"boot_id", "driver", "nccl"};
    json_t *state = json_make("{s:i}", "schema", SCHEMA), *uuids = json_array();
    size_t i;
    const json_t *gpu;
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        json_object_set_new(state, keys[i], json_deep_copy(json_object_get(facts, keys[i])));
    json_array_foreach(json_object_get(facts, "gpus"), i, gpu)
    {
        json_array_append_new(uuids, json_text(field_text(gpu, "uuid")));
    }
    json_object_set_new(state, "gpus", uuids);
    return state;
}

void probe_cache_recall(json_t *facts, const char *dir)
{
    char path[PATH_MAX];
    size_t i;
    json_t *row;
    if (json_array_size(json_object_get(facts, "pairs")) == 0 || path_of(path, facts, dir) < 0)
        return;
    json_t *kept = safe_open_json(path, 0, NULL), *state = state_of(facts);
    const json_t *rows = json_object_get(kept, "pairs");
    if (json_equal(json_object_get(kept, "state"), state))
        json_array_foreach(json_object_get(facts, "pairs"), i, row)
        {
            const json_t *was = json_array_get(rows, i);
            for (int k = 0; k < TRIED; k++)
                if (json_object_get(was, tried[k]) && !json_object_get(row, tried[k]))
                    json_object_set(row, tried[k], json_object_get(was, tried[k]));
        }
    json_decref(state);
    json_decref(kept);
}

void probe_cache_keep(const json_t *facts, const char *dir)
{
    char path[PATH_MAX], temp[PATH_MAX];
    size_t i;
    const json_t *row;
    json_t *rows = json_array();
    bool any = false;
    json_array_foreach(json_object_get(facts, "pairs"), i, row)
    {
        json_t *kept = json_object();
        for (int k = 0; k < TRIED; k++)
            if (json_object_get(row, tried[k]))
                any = json_object_set(kept, tried[k], json_object_get(row, tried[k])) == 0;
        json_array_append_new(rows, kept);
    }
    json_t *all = json_make("{s:o, s:o}", "state", state_of(facts), "pairs", rows);
    if (any && path_of(path, facts, dir) == 0 &&
        (size_t)snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid()) < sizeof(temp) &&
        (json_file_save(all, temp, JSON_INDENT(1)) < 0 || rename(temp, path) < 0))
        unlink(temp);
    json_decref(all);
}
