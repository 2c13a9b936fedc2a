/* SPDX-License-Identifier: Apache-2.0 */
/* plan_nodes.c - see plan_nodes.h; checks that nodes fit together, plans each, then the whole */
#include "agent/plan/plan_nodes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* Input and state of the planning. */
struct crowd {
    const struct plan_node *nodes;
    int                     n;
    bool                    engine;
    json_t                **parts;
    json_t                 *notes, *common;     /* common: those of no one node */
};

static int np_of(const json_t *part)
{
    return (int)json_integer_value(json_object_get(part, "np"));
}

static bool uses_gpus(const json_t *part)
{
    const json_t *first = json_array_get(json_object_get(part, "ranks"), 0);
    return json_is_string(json_object_get(first, "gpu"));
}

static void note(struct crowd *c, json_t *text)
{
    json_array_append_new(c->notes, text);
}

static void note_all(struct crowd *c, json_t *text)
{
    json_array_append(c->common, text);
    note(c, text);
}

/* --- do the nodes fit together? ------------------------------------------------------------- */

/* Simulated nodes of one machine, or a host listed twice, see the same GPUs. */
static int compare_gpus(const struct crowd *c, int a, int b, struct err *err)
{
    size_t i, k;
    const json_t *mine, *theirs;
    json_array_foreach(json_object_get(c->parts[a], "ranks"), i, mine)
    {
        const char *gpu = field_text(mine, "gpu");
        json_array_foreach(json_object_get(c->parts[b], "ranks"), k, theirs)
        {
            if (gpu[0] && strcmp(gpu, field_text(theirs, "gpu")) == 0)
                return err_set(
                    err, ERR_CONFLICT,
                    "%.60s and %.60s see the same GPU %.50s: they are one machine, and two ranks on one GPU fail in "
                    "NCCL; list it once, or set `gpus: 0`",
                    c->nodes[a].name, c->nodes[b].name, gpu);
        }
    }
    return 0;
}

/* The engine computes either on GPUs of all nodes, with the same NCCL, or on none. */
static int compare_devices(const struct crowd *c, int k, struct err *err)
{
    const struct plan_node *first = &c->nodes[0], *other = &c->nodes[k];
    const bool here = uses_gpus(c->parts[0]), there = uses_gpus(c->parts[k]);
    if (here != there)
        return err_set(err, ERR_CONFLICT,
                       "%.60s has no usable GPU but %.60s has: the ranks "
                       "of a `train:` job need GPUs on all nodes; set `gpus: 0` to use none",
                       (here ? other : first)->name, (here ? first : other)->name);
    if (!here)
        return 0;
    const char *ours = field_text(first->facts, "nccl"), *theirs = field_text(other->facts, "nccl");
    if (!ours[0] || !theirs[0])
        return err_set(err, ERR_CONFLICT,
                       "%.60s: libnccl.so.2 was not found, but GPUs of several "
                       "nodes need it; install it there or add its directory to LD_LIBRARY_PATH",
                       (ours[0] ? other : first)->name);
    if (strcmp(ours, theirs) != 0)
        return err_set(err, ERR_CONFLICT,
                       "%.60s has NCCL %.20s but %.60s has %.20s: install the same version on all nodes",
                       first->name, ours, other->name, theirs);
    return 0;
}

/* The plan is sent as one event (agent/wire/wire.h), whose size is limited. */
static int count(const struct crowd *c, struct err *err)
{
    int np = 0;
    for (int k = 0; k < c->n; k++)
        np += np_of(c->parts[k]);
    if (np > PLAN_RANKS_MOST)
        return err_set(err, ERR_USAGE,
                       "%d ranks on %d nodes exceed the limit of %d per job: request fewer nodes "
                       "or `ranks`",
                       np, c->n, PLAN_RANKS_MOST);
    return 0;
}

static int compare(const struct crowd *c, struct err *err)
{
    for (int a = 0; a < c->n; a++)
        for (int b = a + 1; b < c->n; b++)
            if (compare_gpus(c, a, b, err) < 0)
                return -1;
    for (int k = 1; c->engine && k < c->n; k++)
        if (compare_devices(c, k, err) < 0)
            return -1;
    return 0;
}

/* --- permitted differences -------------------------------------------------------------------- */

static const char *model_of(const struct crowd *c, int k)
{
    return field_text(json_array_get(json_object_get(c->parts[k], "ranks"), 0), "device");
}

static const char *fact_of(const struct crowd *c, int k, const char *key)
{
    return field_text(c->nodes[k].facts, key);
}

/* The first node that differs from node 0, or 0; `of` returns the value to compare. */
static int first_other(const struct crowd *c, const char *key,
                       const char *(*of)(const struct crowd *, int k, const char *key))
{
    for (int k = 1; k < c->n; k++) {
        const char *ours = of(c, 0, key), *theirs = of(c, k, key);
        if (ours[0] && theirs[0] && strcmp(ours, theirs) != 0)
            return k;
    }
    return 0;
}

static const char *device_of(const struct crowd *c, int k, const char *key)
{
    (void)key;
    return model_of(c, k);
}

/* NCCL copies directly between containers of a machine only if host name and boot id are equal
 * and both see the same /dev/shm. */
static void heed_containers(struct crowd *c, int a, int b)
{
    static const char *const keys[] = {"boot_id", "hostname", "shm_device"};
    bool same[3];
    for (int i = 0; i < 3; i++) {
        const char *ours = fact_of(c, a, keys[i]), *theirs = fact_of(c, b, keys[i]);
        same[i] = strcmp(ours, theirs) == 0 || (i == 2 && (!ours[0] || !theirs[0]));
    }
    if (!fact_of(c, a, "boot_id")[0] || !same[0] || (same[1] && same[2]))
        return;
    note_all(c,
         json_text_f(
             "%s and %s are containers of one machine, each with its own %s: NCCL uses the network between their GPUs. "
             "Use one container with all GPUs, or --ipc=host and the same --hostname for both, for direct copies",
             c->nodes[a].name, c->nodes[b].name, same[2] ? "host name" : "/dev/shm"));
}

static void heed_all_containers(struct crowd *c)
{
    for (int a = 0; a < c->n; a++)
        for (int b = a + 1; b < c->n; b++)
            if (uses_gpus(c->parts[a]) && uses_gpus(c->parts[b])) {
                const size_t before = json_array_size(c->notes);
                heed_containers(c, a, b);
                if (json_array_size(c->notes) > before)
                    return; /* one note is enough */
            }
}

static void heed_differences(struct crowd *c)
{
    static const struct {
        const char *key; /* NULL: the device of the ranks */
        bool        gpus;
        const char *what, *so;
    } rows[] = {
        {NULL, true, "", "the slowest limits the speed"},
        {"driver", true, "driver ", "if the first collective fails, install the same driver on all nodes"},
        {"nccl", true, "NCCL ", "a program that does not bundle NCCL fails to connect its ranks"},
        {"arch", false, "", "results may differ in the last digits"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *(*of)(const struct crowd *, int, const char *) = rows[i].key ? fact_of : device_of;
        const int k = first_other(c, rows[i].key, of);
        if (k && (!rows[i].gpus || uses_gpus(c->parts[0])))
            note_all(c, json_text_f("%s has %s%s and %s %s%s: %s", c->nodes[0].name, rows[i].what,
                                of(c, 0, rows[i].key), c->nodes[k].name, rows[i].what,
                                of(c, k, rows[i].key), rows[i].so));
    }
    const int few = first_other(c, "boot_id", fact_of);
    if (c->n > 1 && !few && fact_of(c, 0, "boot_id")[0] && !uses_gpus(c->parts[0]))
        note_all(c, json_text("all nodes are simulated on one machine: useful for tests, but not faster"));
    heed_all_containers(c);
}

/* --- the plan of each node -------------------------------------------------------------------- */

static int make_part(const struct crowd *c, int k, const json_t *spec, struct err *err)
{
    struct err why = {0};
    if (plan_make(&c->parts[k], c->nodes[k].facts, spec, &why) == 0)
        return 0;
    return err_set(err, why.code, "%.60s: %s", c->nodes[k].name, why.text);
}

/* resources.nodes may be more than the nodes now present: the job continues with those left. */
static json_t *spec_for(const json_t *spec, int n)
{
    json_t *own = json_deep_copy(spec), *resources = json_object_get(own, "resources");
    if (own && !resources)
        json_object_set_new(own, "resources", resources = json_object());
    if (resources)
        json_object_set_new(resources, "nodes", json_integer(n));
    return own;
}

static int make_parts(struct crowd *c, const json_t *spec, struct err *err)
{
    json_t *own = spec_for(spec, c->n);
    int rc = own ? 0 : err_set(err, ERR_MEMORY, "no memory for a plan");
    for (int k = 0; k < c->n && rc == 0; k++)
        rc = make_part(c, k, own, err);
    json_decref(own);
    return rc;
}

/* --- the whole plan -------------------------------------------------------------------------- */

/* Variables are equal if their values are, whatever the fact behind them. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (!json_is_object(a))
        return json_equal(a, b);
    return strcmp(field_text(a, "name"), field_text(b, "name")) == 0 &&
           strcmp(field_text(a, "value"), field_text(b, "value")) == 0;
}

static bool has_row(const json_t *list, const json_t *row)
{
    size_t i;
    const json_t *other;
    json_array_foreach(list, i, other)
    {
        if (is_same(other, row))
            return true;
    }
    return false;
}

static bool all_have(const struct crowd *c, const char *list, const json_t *row)
{
    for (int k = 0; k < c->n; k++)
        if (!has_row(json_object_get(c->parts[k], list), row))
            return false;
    return true;
}

/* The rows of a list of node k that all nodes have, or those that only some have. */
static json_t *rows_of(const struct crowd *c, int k, const char *list, bool common)
{
    size_t i;
    json_t *row, *out = json_array();
    json_array_foreach(json_object_get(c->parts[k], list), i, row)
    {
        if (all_have(c, list, row) == common)
            json_array_append(out, row);
    }
    return out;
}

static json_t *env_of_nodes(const struct crowd *c)
{
    json_t *out = json_array();
    for (int k = 0; k < c->n; k++) {
        json_t *own = rows_of(c, k, "env", false);
        if (json_array_size(own) > 0)
            json_array_append_new(out, json_make("{s:i, s:s, s:O}", "node", k, "name", c->nodes[k].name, "env", own));
        json_decref(own);
    }
    return out;
}

static bool names(const json_t *list, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        if (strcmp(field_text(row, "name"), name) == 0)
            return true;
    }
    return false;
}

/* The fallbacks of all nodes, each variable once; every part gets the same list. */
static void share_fallbacks(struct crowd *c, json_t *plan)
{
    json_t *all = json_array(), *row;
    size_t i;
    for (int k = 0; k < c->n; k++)
        json_array_foreach(json_object_get(c->parts[k], "fallbacks"), i, row)
        {
            if (!names(all, field_text(row, "name")))
                json_array_append(all, row);
        }
    for (int k = 0; k < c->n && json_array_size(all) > 0; k++)
        json_object_set(c->parts[k], "fallbacks", all);
    if (json_array_size(all) > 0)
        json_object_set(plan, "fallbacks", all);
    json_decref(all);
}

/* Adds a note of all nodes once, and others with the node's name. */
static void gather_notes(struct crowd *c)
{
    for (int k = 0; k < c->n; k++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(c->parts[k], "notes"), i, row)
        {
            const bool common = all_have(c, "notes", row);
            if (common && k == 0)
                note_all(c, json_incref(row));
            else if (!common)
                note(c, json_text_f("%s: %s", c->nodes[k].name, json_string_value(row)));
        }
    }
}

/* Numbers the ranks globally; part and whole share the same objects. */
static json_t *number_ranks(const struct crowd *c)
{
    json_t *all = json_array(), *rank;
    size_t i;
    for (int k = 0, next = 0; k < c->n; k++) {
        json_object_set_new(c->parts[k], "first_rank", json_integer(next));
        json_array_foreach(json_object_get(c->parts[k], "ranks"), i, rank)
        {
            json_object_set_new(rank, "rank", json_integer(next++));
            json_object_set_new(rank, "node", json_integer(k));
            json_object_set_new(rank, "name", json_text(c->nodes[k].name));
            json_array_append(all, rank);
        }
    }
    return all;
}

static json_t *why_of(const struct crowd *c)
{
    bool same = true;
    for (int k = 1; k < c->n; k++)
        same = same && strcmp(field_text(c->parts[k], "why"), field_text(c->parts[0], "why")) == 0;
    return same ? json_text_f("on each of %d nodes: %s", c->n, field_text(c->parts[0], "why"))
                : json_text_f("on %d nodes with different devices; on %s: %s", c->n,
                              c->nodes[0].name, field_text(c->parts[0], "why"));
}

static json_t *put_together(struct crowd *c)
{
    int np = 0;
    for (int k = 0; k < c->n; k++)
        np += np_of(c->parts[k]);
    json_t *plan = json_make("{s:i, s:i, s:i, s:b, s:o}", "schema", 1, "np", np, "nodes", c->n,
                             "engine", c->engine, "why", why_of(c));
    if (!plan)
        return NULL;
    json_object_set(plan, "threads", json_object_get(c->parts[0], "threads"));
    if (json_object_get(c->parts[0], "container"))
        json_object_set(plan, "container", json_object_get(c->parts[0], "container"));
    if (json_object_get(c->parts[0], "expects"))
        json_object_set(plan, "expects", json_object_get(c->parts[0], "expects"));
    json_object_set_new(plan, "ranks", number_ranks(c));
    json_object_set_new(plan, "env", rows_of(c, 0, "env", true));
    json_object_set(plan, "user_env", json_object_get(c->parts[0], "user_env"));
    json_t *own = env_of_nodes(c);
    if (json_array_size(own) > 0)
        json_object_set(plan, "node_env", own);
    json_decref(own);
    share_fallbacks(c, plan);
    gather_notes(c);
    heed_differences(c);
    json_object_set(plan, "notes", c->notes);
    json_object_set(plan, "common_notes", c->common);
    plan_set_hash(plan);
    return plan;
}

int plan_nodes_make(json_t **plan, json_t **parts, const struct plan_node *nodes, int n,
                    const json_t *spec, struct err *err)
{
    struct crowd c = {.nodes = nodes,
                      .n = n,
                      .engine = json_is_object(json_object_get(spec, "train")),
                      .parts = parts,
                      .notes = json_array(),
                      .common = json_array()};
    json_t *whole = NULL;
    for (int k = 0; k < n; k++)
        parts[k] = NULL;
    int rc = make_parts(&c, spec, err) < 0 || count(&c, err) < 0 || compare(&c, err) < 0
                 ? -1 : 0;
    if (rc == 0 && !(whole = put_together(&c)))
        rc = err_set(err, ERR_MEMORY, "no memory for a plan");
    for (int k = 0; k < n && rc < 0; k++) {
        json_decref(parts[k]);
        parts[k] = NULL;
    }
    json_decref(c.notes);
    json_decref(c.common);
    if (rc == 0)
        *plan = whole;
    return rc;
}
