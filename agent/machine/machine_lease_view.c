/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease_view.c - what one look at the claims of all users sees; see machine_lease_internal.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine/machine_claims.h"
#include "agent/machine/machine_lease_internal.h"
#include "engine/base/field.h"

void machine_lease_lock_name(char out[MACHINE_DIR_NAME], const struct machine_lease *l, int resource)
{
    if (resource < MACHINE_GPUS)
        snprintf(out, MACHINE_DIR_NAME, "gpu-%s", l->ask.gpus[resource].uuid);
    else
        snprintf(out, MACHINE_DIR_NAME, "cpu-%d", resource - MACHINE_GPUS);
}

struct machine_set machine_lease_any(const struct machine_lease *l)
{
    struct machine_set any = l->ask.cpus;
    for (int i = 0; i < l->ask.ngpus; i++)
        if (l->ask.gpus[i].would_do)
            machine_set_add(&any, i);
    return any;
}

static int gpu_of(const struct machine_lease *l, const char *uuid)
{
    for (int i = 0; i < l->ask.ngpus; i++)
        if (strcmp(l->ask.gpus[i].uuid, uuid) == 0)
            return i;
    return -1;
}

struct machine_set machine_lease_set_of(const struct machine_lease *l, const json_t *claim, const char *gpus,
                                        const char *cpus)
{
    struct machine_set out = {{0}};
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get(claim, gpus), i, one) {
        const int gpu = json_is_string(one) ? gpu_of(l, json_string_value(one)) : -1;
        if (gpu >= 0)
            machine_set_add(&out, gpu);
    }
    json_array_foreach (json_object_get(claim, cpus), i, one)
        if (json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) < MACHINE_CPUS)
            machine_set_add(&out, MACHINE_GPUS + (int)json_integer_value(one));
    return out;
}

void machine_view_remove(struct machine_set *from, const struct machine_set *these)
{
    for (int i = 0; i < MACHINE_WORDS; i++)
        from->bits[i] &= ~these->bits[i];
}

static int limited(int64_t n)
{
    return n < 0 ? 0 : n > MACHINE_CPUS ? MACHINE_CPUS : (int)n;
}

bool machine_lease_is_holding(const json_t *claim)
{
    return strcmp(field_text(claim, "state"), "holds") == 0;
}

static void see_claim(struct machine_view *v, const struct machine_lease *l, const json_t *claim, int64_t id)
{
    const int64_t user = field_int(claim, "uid", -1);
    const bool own = strcmp(field_text(claim, "file"), l->file) == 0;
    if (own)
        v->id = id;
    if (machine_lease_is_holding(claim)) {
        const struct machine_set has = machine_lease_set_of(l, claim, "gpus", "cpus");
        machine_view_remove(&v->free, &has);
        v->holders[v->state.nholders++] = user;
    } else if (own || !field_true(claim, "stale")) {
        v->claims[v->state.nclaims++] = (struct machine_claim){
            .user = user, .id = id, .arrived_ms = field_int(claim, "arrived_ms", 0),
            .need = {.any = machine_lease_set_of(l, claim, "any_gpus", "any_cpus"),
                     .gpus = limited(field_int(claim, "need_gpus", 0)),
                     .cpus = limited(field_int(claim, "need_cpus", 0))}};
    }
}

void machine_view_fini(struct machine_view *v)
{
    free(v->claims);
    free(v->holders);
}

int machine_view_init(struct machine_view *v, const struct machine_lease *l)
{
    const size_t n = json_array_size(l->claims);
    const json_t *claim;
    size_t i;
    *v = (struct machine_view){.claims = calloc(n + 1, sizeof(*v->claims)),
                               .holders = calloc(n + 1, sizeof(*v->holders)), .free = machine_lease_any(l)};
    const bool fine = v->claims && v->holders;
    for (int k = 0; k < l->ask.ngpus; k++)
        if (l->ask.gpus[k].foreign[0])
            machine_set_drop(&v->free, k);
    json_array_foreach (l->claims, i, claim)
        if (fine)
            see_claim(v, l, claim, (int64_t)i + 1);
    v->state.claims = v->claims;
    v->state.holders = v->holders;
    machine_turn_sort(&v->state);
    return fine && v->id ? 0 : -1;
}
