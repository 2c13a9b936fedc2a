/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease_why.c - why a lease is waited for, in words; see machine_lease.h */
#include <stdio.h>
#include <string.h>

#include "agent/machine/machine_claims.h"
#include "agent/machine/machine_lease_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/text_append.h"

enum { NAMED_MOST = 3 };

static const json_t *holder_of(const struct machine_lease *l, int resource)
{
    const json_t *claim;
    size_t i;
    json_array_foreach (l->claims, i, claim) {
        const struct machine_set has = machine_lease_set_of(l, claim, "gpus", "cpus");
        if (machine_lease_is_holding(claim) && machine_set_has(&has, resource))
            return claim;
    }
    return NULL;
}

bool machine_lease_other(char *out, size_t size, const struct machine_lease *l, int gpu)
{
    char name[MACHINE_DIR_NAME], who[200];
    machine_lease_lock_name(name, l, gpu);
    const json_t *claim = holder_of(l, gpu);
    if (claim)
        machine_claims_text(who, sizeof(who), claim);
    if (claim)
        snprintf(out, size, "held by %s", who);
    else if (field_text(l->busy, name)[0])
        snprintf(out, size, "locked by %s", field_text(l->busy, name));
    else if (l->ask.gpus[gpu].foreign[0])
        snprintf(out, size, "%s", l->ask.gpus[gpu].foreign);
    else
        return false;
    return true;
}

static void explain_gpus(char *text, const struct machine_lease *l, int have)
{
    char who[240];
    int named = 0, more = 0;
    text_append(text, MACHINE_TEXT, "waiting for %d GPU%s, %d of %d %s free", l->ask.need_gpus,
                l->ask.need_gpus == 1 ? "" : "s", have, l->ask.ngpus, have == 1 ? "is" : "are");
    for (int i = 0; i < l->ask.ngpus; i++) {
        if (!machine_lease_other(who, sizeof(who), l, i) || !l->ask.gpus[i].would_do)
            continue;
        if (named < NAMED_MOST)
            text_append(text, MACHINE_TEXT, "%sGPU %d is %s", named ? ", " : ": ", l->ask.gpus[i].index, who);
        more += named++ >= NAMED_MOST;
    }
    if (more)
        text_append(text, MACHINE_TEXT, ", and %d more", more);
}

static void explain_cpus(char *text, const struct machine_lease *l, int have)
{
    char who[200];
    const json_t *claim, *held;
    const char *name;
    size_t i;
    int named = 0;
    text_append(text, MACHINE_TEXT, "waiting for %d CPU slot%s, %d of %d %s free", l->ask.need_cpus,
                l->ask.need_cpus == 1 ? "" : "s", have, machine_set_cpus(&l->ask.cpus), have == 1 ? "is" : "are");
    json_array_foreach (l->claims, i, claim) {
        const size_t n = json_array_size(json_object_get(claim, "cpus"));
        if (!machine_lease_is_holding(claim) || n == 0 || named >= NAMED_MOST)
            continue;
        machine_claims_text(who, sizeof(who), claim);
        text_append(text, MACHINE_TEXT, "%s%zu %s held by %s", named++ ? ", " : ": ", n, n == 1 ? "is" : "are", who);
    }
    json_object_foreach (l->busy, name, held)
        if (strncmp(name, "cpu-", 4) == 0 && named < NAMED_MOST)
            text_append(text, MACHINE_TEXT, "%s%s is locked by %s", named++ ? ", " : ": ", name,
                        json_string_value(held));
}

static void explain_turn(char *text, const struct machine_lease *l, const struct machine_view *v, int place)
{
    char who[200];
    text_append(text, MACHINE_TEXT, "waiting for its turn: %d job%s ahead of it", place, place == 1 ? " is" : "s are");
    for (int i = 0; i < place && i < NAMED_MOST; i++) {
        machine_claims_text(who, sizeof(who), json_array_get(l->claims, (size_t)v->claims[i].id - 1));
        text_append(text, MACHINE_TEXT, "%s%s", i ? ", " : ": ", who);
    }
}

void machine_lease_explain(char text[MACHINE_TEXT], const struct machine_lease *l, const struct machine_view *v,
                           int place)
{
    const int gpus = machine_set_gpus(&v->free), cpus = machine_set_cpus(&v->free);
    text[0] = '\0';
    if (gpus < l->ask.need_gpus)
        explain_gpus(text, l, gpus);
    if (cpus < l->ask.need_cpus && text[0])
        text_append(text, MACHINE_TEXT, "; ");
    if (cpus < l->ask.need_cpus)
        explain_cpus(text, l, cpus);
    if (!text[0] && place > 0)
        explain_turn(text, l, v, place);
    else if (!text[0])
        explain_gpus(text, l, gpus);
    err_make_printable(text);
}
