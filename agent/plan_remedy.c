/* SPDX-License-Identifier: Apache-2.0 */
/* plan_remedy.c - what to change after ranks have hung before their first step
 *
 * NCCL takes the fastest path that the driver permits, and there are machines where that path
 * stands still.  Each row costs speed, so none is set before it was needed: the plan only says
 * what the next start would try, one row after the other (agent/remedy.h).  What the job or its
 * environment has already decided is not tried.
 */
#include <stdio.h>

#include "agent/plan.h"
#include "agent/plan_parts.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { FACT = 160 };

/* Pairs between which NCCL would copy directly, but not over NVLink. */
static int count_suspects(const struct plan_view *v, struct plan_pairs *p)
{
    plan_count_pairs(p, v);
    return p->near + p->unknown + (plan_p2p_everywhere(v) ? p->far : 0);
}

static bool tell_suspects(const struct plan_view *v, char *fact, bool nvlink)
{
    struct plan_pairs p;
    const int n = count_suspects(v, &p);
    snprintf(fact, FACT, "%d of %d pairs of GPUs %scopy directly over PCIe%s", n, p.pairs,
             p.unknown ? "may " : "", plan_true(v->facts, "iommu") ? ", and an IOMMU is on" : "");
    return n > 0 && nvlink == (p.direct + p.through_switch > 0);
}

static bool pcie_beside_nvlink(const struct plan_view *v, char *fact)
{
    return tell_suspects(v, fact, true);
}

static bool pcie_alone(const struct plan_view *v, char *fact)
{
    return tell_suspects(v, fact, false);
}

static bool switches(const struct plan_view *v, char *fact)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    snprintf(fact, FACT, "%d of %d pairs of GPUs are joined by NVLink switches", p.through_switch,
             p.pairs);
    return p.through_switch > 0;
}

static bool converged_ethernet(const struct plan_view *v, char *fact)
{
    const int ports = plan_rdma_ports(v);
    snprintf(fact, FACT, "%d RDMA port%s, and not one of InfiniBand", ports, ports == 1 ? "" : "s");
    return v->nodes > 1 && plan_rdma_is_ethernet(v);
}

static const struct row {
    const char *name, *value;
    const char *rival; /* decided by this one, too */
    bool      (*when)(const struct plan_view *, char *fact);
    const char *why;
} rows[] = {
    {"NCCL_P2P_DISABLE", "1", "NCCL_P2P_LEVEL", pcie_alone,
     "copies between GPUs over PCIe can stand still although the driver permits them; the host's "
     "memory carries them then"},
    {"NCCL_P2P_LEVEL", "NVL", "NCCL_P2P_DISABLE", pcie_beside_nvlink,
     "copies between GPUs over PCIe can stand still although the driver permits them; NVLink stays "
     "in use"},
    {"NCCL_IB_DISABLE", "1", "NCCL_IB_HCA", converged_ethernet,
     "RDMA over Ethernet stands still where the network drops packets; sockets carry the data then"},
    {"NCCL_NVLS_ENABLE", "0", "NCCL_NVLS_ENABLE", switches,
     "sums within the switches need memory that not every rank may have got"},
};

static bool is_decided(const struct plan_view *v, const char *name)
{
    return plan_env(v->plan, name) || json_object_get(json_object_get(v->facts, "environment"), name) ||
           json_object_get(json_object_get(v->facts, "nccl_conf"), name);
}

void plan_add_remedies(struct plan_view *v)
{
    char fact[FACT];
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(rows) && v->gpus > 0 && v->np * v->nodes > 1; i++)
        if (!is_decided(v, rows[i].name) && !is_decided(v, rows[i].rival) && rows[i].when(v, fact))
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", rows[i].name,
                                                  "value", rows[i].value, "why", rows[i].why,
                                                  "fact", fact, "confidence", "low"));
    if (json_array_size(list) > 0)
        json_object_set(v->plan, "remedies", list);
    json_decref(list);
}
