/* SPDX-License-Identifier: Apache-2.0 */
/* machine_users.c - see machine_users.h */
#include "controller/nodes/machine_users.h"

#include <stdio.h>
#include <string.h>

#include "agent/machine/machine_claims.h"
#include "agent/machine/machine_dir.h"
#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/nodes/fleet.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

enum { TEXT = 400 };

/* The number that people know it by, or null. */
static json_t *index_of(const struct daemon *d, const char *uuid)
{
    const json_t *gpu, *slice;
    size_t i, k;
    json_array_foreach (json_object_get(d->fleet->facts, "gpus"), i, gpu) {
        if (strcmp(field_text(gpu, "uuid"), uuid) == 0)
            return json_integer(field_int(gpu, "index", 0));
        json_array_foreach (json_object_get(gpu, "mig_slices"), k, slice)
            if (strcmp(field_text(slice, "uuid"), uuid) == 0)
                return json_integer(field_int(gpu, "index", 0));
    }
    return json_null();
}

static json_t *gpus_of(const struct daemon *d, const json_t *claim)
{
    json_t *out = json_array();
    const json_t *uuid;
    size_t i;
    json_array_foreach (json_object_get(claim, "gpus"), i, uuid)
        if (json_is_string(uuid))
            json_array_append_new(out, json_make("{s:s, s:o}", "uuid", json_string_value(uuid), "index",
                                                 index_of(d, json_string_value(uuid))));
    return out;
}

static void add_slots(char *text, long long cpus, const char *before)
{
    if (cpus > 0)
        text_append(text, TEXT, "%s%lld CPU slot%s", before, cpus, cpus == 1 ? "" : "s");
}

/* "GPU 0, GPU 3 and 4 CPU slots", "2 GPUs and 1 CPU slot". */
static void what(char text[TEXT], const json_t *gpus, long long cpus)
{
    const json_t *gpu;
    const size_t n = json_array_size(gpus);
    size_t i;
    text[0] = '\0';
    json_array_foreach (gpus, i, gpu) {
        const json_t *index = json_object_get(gpu, "index");
        const char *before = i == 0 ? "" : i + 1 == n && cpus == 0 ? " and " : ", ";
        if (json_is_integer(index))
            text_append(text, TEXT, "%sGPU %lld", before, (long long)json_integer_value(index));
        else
            text_append(text, TEXT, "%s%.60s", before, field_text(gpu, "uuid"));
    }
    if (json_is_integer(gpus) && json_integer_value(gpus) > 0)
        text_append(text, TEXT, "%lld GPU%s", (long long)json_integer_value(gpus),
                    json_integer_value(gpus) == 1 ? "" : "s");
    add_slots(text, cpus, text[0] ? " and " : "");
}

static json_t *row_of(const struct daemon *d, const json_t *claim)
{
    const bool holds = strcmp(field_text(claim, "state"), "holds") == 0;
    const char *name = field_text(claim, "name");
    json_t *gpus = holds ? gpus_of(d, claim) : json_integer(field_int(claim, "need_gpus", 0));
    const int64_t cpus = holds ? (int64_t)json_array_size(json_object_get(claim, "cpus"))
                               : field_int(claim, "need_cpus", 0);
    char things[TEXT], who[200], text[2 * TEXT];
    what(things, gpus, (long long)cpus);
    machine_claims_text(who, sizeof(who), claim);
    snprintf(text, sizeof(text), holds ? "%s: %s" : "%s: waits for %s", who, things);
    return json_make("{s:s, s:b, s:s, s:o, s:o, s:I, s:o, s:s}", "user", field_text(claim, "user"), "mine",
                     (int)field_true(claim, "mine"), "state", holds ? "holds" : "waits", "since",
                     utc_json(1000 * field_int(claim, holds ? "since_s" : "arrived_s", 0)), "gpus", gpus, "cpus",
                     (json_int_t)cpus, "job", name[0] ? json_text(name) : json_null(), "text", text);
}

json_t *machine_users_list(const struct daemon *d)
{
    char dir[MACHINE_DIR_PATH];
    struct err err = {0};
    json_t *out = json_array(), *claim;
    size_t i;
    if (machine_dir_find(dir, &err) < 0)
        return out;
    json_t *claims = machine_claims_read(dir);
    json_array_foreach (claims, i, claim)
        json_array_append_new(out, row_of(d, claim));
    json_decref(claims);
    return out;
}

void machine_users_text(char *out, size_t size, const json_t *list)
{
    const json_t *one;
    size_t i;
    out[0] = '\0';
    json_array_foreach (list, i, one)
        if (!field_true(one, "mine"))
            text_append(out, size, "%s%s", out[0] ? "; " : "", field_text(one, "text"));
}
