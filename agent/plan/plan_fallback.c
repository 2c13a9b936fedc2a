/* SPDX-License-Identifier: Apache-2.0 */
/* plan_fallback.c - variables to try after ranks have hung before their first step
 *
 * Pure: no clock, no I/O.
 * NCCL takes the fastest path that the driver permits, and on some machines that path hangs. Every
 * row costs speed, so none is set in advance: the plan only lists what the next start would add,
 * one row after the other (agent/core/nccl_fallback.h). A variable already set by the job or its
 * environment is not tried. If a self-test of two ranks (gpu_selftest.h) needed a row, it is set at
 * once.
 */
#include <stdio.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { FACT = 160 };

/* Counts the pairs between which NCCL would copy directly, but not over NVLink. */
static int count_blamed_gpus(const struct plan_view *v, struct plan_pairs *p)
{
    plan_count_pairs(p, v);
    return p->near + p->unknown + (plan_p2p_everywhere(v) ? p->far : 0);
}

static bool tell_blamed_gpus(const struct plan_view *v, char *fact, bool nvlink)
{
    struct plan_pairs p;
    const int n = count_blamed_gpus(v, &p);
    snprintf(fact, FACT, "%d of %d pairs of GPUs %scopy directly over PCIe%s", n, p.pairs, p.unknown ? "may " : "",
             field_true(v->facts, "iommu") ? ", and an IOMMU is enabled" : "");
    return n > 0 && nvlink == (p.direct + p.through_switch > 0);
}

static bool pcie_beside_nvlink(const struct plan_view *v, char *fact)
{
    return tell_blamed_gpus(v, fact, true);
}

static bool pcie_alone(const struct plan_view *v, char *fact)
{
    return tell_blamed_gpus(v, fact, false);
}

static bool switches(const struct plan_view *v, char *fact)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    snprintf(fact, FACT, "%d of %d pairs of GPUs are connected by NVLink switches", p.through_switch, p.pairs);
    return p.through_switch > 0;
}

static bool converged_ethernet(const struct plan_view *v, char *fact)
{
    const int ports = plan_rdma_ports(v);
    snprintf(fact, FACT, "%d RDMA port%s, none of them InfiniBand", ports, ports == 1 ? "" : "s");
    return v->nodes > 1 && plan_rdma_is_ethernet(v);
}

static const struct row {
    const char *name, *value;
    const char *rival; /* a variable with the same effect: if set, skip this row */
    bool      (*when)(const struct plan_view *, char *fact);
    const char *why;
} rows[] = {
    {"NCCL_P2P_DISABLE", "1", "NCCL_P2P_LEVEL", pcie_alone,
     "copies between GPUs over PCIe can hang although the driver permits them; data then goes "
     "through host memory"},
    {"NCCL_P2P_LEVEL", "NVL", "NCCL_P2P_DISABLE", pcie_beside_nvlink,
     "copies between GPUs over PCIe can hang although the driver permits them; NVLink remains "
     "in use"},
    {"NCCL_IB_DISABLE", "1", "NCCL_IB_HCA", converged_ethernet,
     "RDMA over Ethernet hangs if the network drops packets; data then goes over sockets"},
    {"NCCL_NVLS_ENABLE", "0", "NCCL_NVLS_ENABLE", switches,
     "reductions inside NVLink switches (NVLS) need memory that some rank may fail to get"},
};

static bool is_decided(const struct plan_view *v, const char *name)
{
    return plan_env(v->plan, name) || json_object_get(json_object_get(v->facts, "environment"), name) ||
           json_object_get(json_object_get(v->facts, "nccl_conf"), name);
}

/* Finds the row for a pair's "NCCL_P2P_DISABLE=1"; NULL: no such row. */
static const struct row *find_row(const char *setting)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].name);
        if (strncmp(setting, rows[i].name, n) == 0 && setting[n] == '=' &&
            strcmp(setting + n + 1, rows[i].value) == 0)
            return &rows[i];
    }
    return NULL;
}

static bool are_in_use(const struct plan_view *v, const json_t *pair)
{
    int used = 0;
    for (int i = 0; i < v->gpus; i++) {
        const json_t *index = json_object_get(v->gpu[i].facts, "index");
        used += json_equal(index, json_object_get(pair, "a")) ||
                json_equal(index, json_object_get(pair, "b"));
    }
    return used == 2;
}

static void heed_sum(struct plan_view *v, const json_t *pair)
{
    char fact[FACT];
    const char *sum = field_text(pair, "sum"), *needs = field_text(pair, "sum_needs");
    const struct row *row = find_row(needs);
    const int a = (int)json_integer_value(json_object_get(pair, "a"));
    const int b = (int)json_integer_value(json_object_get(pair, "b"));
    if (!sum[0] || strcmp(sum, "ok") == 0 || !are_in_use(v, pair))
        return;
    snprintf(fact, sizeof(fact), "self-test of an NCCL sum between GPU %d and GPU %d: %s", a, b, sum);
    if (!row)
        plan_note(v,
                  "%s even with every fallback; jobs with several ranks will probably fail here; `jobctl doctor` "
                  "repeats the test",
                  fact);
    else if (!is_decided(v, row->name))
        plan_set(v, row->name, row->value,
                 "the self-test of an NCCL sum passes with this setting and fails without it",
                 fact, "high");
}

void plan_set_fallbacks(struct plan_view *v)
{
    size_t i;
    const json_t *pair;
    json_array_foreach(json_object_get(v->facts, "pairs"), i, pair)
    {
        if (v->np > 1)
            heed_sum(v, pair);
    }
}

void plan_add_fallbacks(struct plan_view *v)
{
    char fact[FACT];
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(rows) && v->gpus > 0 && v->np * v->nodes > 1; i++)
        if (!is_decided(v, rows[i].name) && !is_decided(v, rows[i].rival) && rows[i].when(v, fact))
            json_array_append_new(list, json_make("{s:s, s:s, s:s, s:s, s:s}", "name", rows[i].name,
                                                  "value", rows[i].value, "why", rows[i].why,
                                                  "fact", fact, "confidence", "low"));
    if (json_array_size(list) > 0)
        json_object_set(v->plan, "fallbacks", list);
    json_decref(list);
}
