/* SPDX-License-Identifier: Apache-2.0 */
/* plan_print.c - prints a plan, and describes what changed since another; see plan.h */
#include <stdio.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

static bool is_of_nodes(const json_t *plan)
{
    return field_text(json_array_get(json_object_get(plan, "ranks"), 0), "name")[0] != '\0';
}

/* Is the variable also set by the job or the environment, which takes precedence? */
static bool is_overruled(const json_t *plan, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(plan, "user_env"), i, row)
    {
        if (strcmp(field_text(row, "name"), name) == 0)
            return true;
    }
    return false;
}

static void print_env(FILE *out, const json_t *plan, const char *list)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(plan, list), i, row)
    {
        const char *fact = field_text(row, "fact"), *sure = field_text(row, "confidence");
        if (strcmp(list, "env") == 0 && is_overruled(plan, field_text(row, "name")))
            continue;
        fprintf(out, "  %s=%s\n      %s", field_text(row, "name"), field_text(row, "value"), field_text(row, "why"));
        if (fact[0])
            fprintf(out, " [%s; confidence %s]", fact, sure);
        fputc('\n', out);
    }
}

/* Prints the variables that are set on one node only, or to a different value there. */
static void print_nodes(FILE *out, const json_t *plan)
{
    size_t i;
    const json_t *node;
    json_array_foreach(json_object_get(plan, "node_env"), i, node)
    {
        fprintf(out, "on %s:\n", field_text(node, "name"));
        print_env(out, node, "env");
    }
}

void plan_print(FILE *out, const json_t *plan)
{
    size_t i;
    const json_t *row;
    int nodes = (int)json_integer_value(json_object_get(plan, "nodes"));
    const char *where = nodes < 2 ? "" : is_of_nodes(plan) ? " on all nodes" : " on each node";
    fprintf(out, "ranks: %d%s (%s)\n", (int)json_integer_value(json_object_get(plan, "np")), where,
            field_text(plan, "why"));
    json_array_foreach(json_object_get(plan, "ranks"), i, row)
    {
        const char *gpu = field_text(row, "gpu"), *cpus = field_text(row, "cpus");
        const char *name = field_text(row, "name");
        fprintf(out, "  rank %d%s%s: %s%s%s", (int)i, name[0] ? " on " : "", name,
                field_text(row, "device"), gpu[0] ? " " : "", gpu);
        if (cpus[0])
            fprintf(out, ", on CPUs %s of NUMA node %d", cpus, (int)json_integer_value(json_object_get(row, "numa")));
        fputc('\n', out);
    }
    const json_t *container = json_object_get(plan, "container");
    if (container)
        fprintf(out, "container: %s with %s (%s)\n", field_text(container, "image"), field_text(container, "runtime"),
                field_text(container, "why"));
    if (field_text(plan, "expects")[0])
        fprintf(out, "NCCL is expected to use: %s\n", field_text(plan, "expects"));
    fprintf(out, "environment of every rank:\n");
    print_env(out, plan, "env");
    print_nodes(out, plan);
    print_env(out, plan, "user_env");
    if (json_object_get(plan, "fallbacks"))
        fprintf(out, "fallbacks, added one per restart after a hang before the first step:\n");
    print_env(out, plan, "fallbacks");
    json_array_foreach(json_object_get(plan, "notes"), i, row)
    {
        fprintf(out, "note: %s\n", json_string_value(row));
    }
    fprintf(out, "plan %s\n", field_text(plan, "hash"));
}

/* --- changes ------------------------------------------------------------------------------- */

static const json_t *find(const json_t *list, const char *key, const char *value)
{
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        if (strcmp(field_text(row, key), value) == 0)
            return row;
    }
    return NULL;
}

static void compare_env(json_t *out, const json_t *before, const json_t *after)
{
    size_t i;
    const json_t *row;
    json_array_foreach(after, i, row)
    {
        const char *name = field_text(row, "name"), *value = field_text(row, "value");
        const json_t *was = find(before, "name", name);
        if (plan_is_words(row))
            continue;
        if (!was)
            json_array_append_new(out, json_text_f("%.60s=%.200s was added: %.200s", name, value,
                                                   field_text(row, "why")));
        else if (strcmp(field_text(was, "value"), value) != 0)
            json_array_append_new(out, json_text_f("%.60s changed from %.200s to %.200s", name,
                                                   field_text(was, "value"), value));
    }
    json_array_foreach(before, i, row)
    {
        if (!plan_is_words(row) && !find(after, "name", field_text(row, "name")))
            json_array_append_new(out, json_text_f("%.60s is no longer set", field_text(row, "name")));
    }
}

static void compare_notes(json_t *out, const json_t *before, const json_t *after)
{
    size_t i, k;
    const json_t *row, *was;
    json_array_foreach(after, i, row)
    {
        bool same = false;
        json_array_foreach(before, k, was)
        {
            same = same || json_equal(row, was);
        }
        if (!same)
            json_array_append_new(out, json_text_f("new note: %.300s", json_string_value(row)));
    }
}

json_t *plan_changes(const json_t *before, const json_t *after)
{
    static const char *const lists[] = {"env", "user_env"};
    json_t *out = json_array();
    const char *hash = field_text(before, "hash");
    if (hash[0] && strcmp(hash, field_text(after, "hash")) == 0)
        return out;
    json_int_t np = json_integer_value(json_object_get(before, "np"));
    json_int_t now = json_integer_value(json_object_get(after, "np"));
    if (np != now)
        json_array_append_new(out, json_text_f("ranks changed from %d to %d: %.150s", (int)np,
                                               (int)now, field_text(after, "why")));
    for (int i = 0; i < 2; i++)
        compare_env(out, json_object_get(before, lists[i]), json_object_get(after, lists[i]));
    compare_notes(out, json_object_get(before, "notes"), json_object_get(after, "notes"));
    if (json_array_size(out) == 0)
        json_array_append_new(out, json_text("devices, CPUs or reasons changed"));
    return out;
}
