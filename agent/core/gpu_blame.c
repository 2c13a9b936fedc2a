/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blame.c - see gpu_blame.h */
#include "agent/core/gpu_blame.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"

enum { ENOUGH = 2, PCI_SLOT = sizeof("0000:3b:00") - 1 };

static const json_t *gpu_facts(const json_t *facts, const char *uuid)
{
    size_t i;
    const json_t *gpu;
    json_array_foreach(json_object_get(facts, "gpus"), i, gpu)
    {
        const char *its = json_string_value(json_object_get(gpu, "uuid"));
        if (its && strcmp(its, uuid) == 0)
            return gpu;
    }
    return NULL;
}

int gpu_blame_init(struct gpu_blame *s, const json_t *plan, const json_t *facts)
{
    const json_t *ranks = json_object_get(plan, "ranks"), *rank;
    const json_t *excluded = json_object_get(facts, "excluded");
    size_t i, n = json_array_size(ranks);
    *s = (struct gpu_blame){.last = -1, .guilty = -1, .np = (int)n};
    s->spent = json_object_size(excluded) > 0;
    if (n == 0 || !json_is_string(json_object_get(json_array_get(ranks, 0), "gpu")))
        return 0;
    s->gpus = calloc(n, sizeof(*s->gpus));
    if (!s->gpus)
        return -1;
    json_array_foreach(ranks, i, rank)
    {
        const char *uuid = json_string_value(json_object_get(rank, "gpu"));
        if (!uuid || json_object_get(excluded, uuid))
            continue; /* excluded before, and used again because no other is left */
        snprintf(s->gpus[i].uuid, sizeof(s->gpus[i].uuid), "%s", uuid);
        const char *pci = json_string_value(json_object_get(gpu_facts(facts, uuid), "pci"));
        snprintf(s->gpus[i].pci, sizeof(s->gpus[i].pci), "%.15s", pci ? pci : "");
        s->gpus[i].node = (int)json_integer_value(json_object_get(rank, "node"));
    }
    return 0;
}

void gpu_blame_fini(struct gpu_blame *s)
{
    free(s->gpus);
    *s = (struct gpu_blame){.last = -1, .guilty = -1};
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, ..." names a GPU, perhaps that of another rank or of none;
 * lines without an address concern the GPU of the rank that wrote them. */
static int named(const struct gpu_blame *s, const char *line, int rank)
{
    if (!strstr(line, "(PCI:"))
        return rank;
    for (int i = 0; i < s->np; i++) {
        char slot[PCI_SLOT + 1];
        snprintf(slot, sizeof(slot), "%.*s", PCI_SLOT, s->gpus[i].pci);
        const bool near = rank < 0 || s->gpus[i].node == s->gpus[rank].node;
        if (slot[0] && near && strcasestr(line, slot))
            return i;
    }
    return -1;
}

/* Failures that a broken GPU may cause, as may other faults. SIGKILL comes from outside; ranks whose peer failed report a
 * failed collective; and if several GPUs fail at once, the program is at fault. */
static bool may_be_a_gpu(const struct verdict *v, const struct agent_exit *e)
{
    if (v->shared || v->echo)
        return false;
    if (v->cause == CAUSE_RANK_CRASH)
        return e->signalled && e->signo != SIGKILL;
    return v->cause == CAUSE_CUDA_ERROR || v->cause == CAUSE_HANG_STEP || v->cause == CAUSE_HANG_INIT;
}

void gpu_blame_failure(struct gpu_blame *s, const struct verdict *v, const struct agent_exit *e, int64_t gained)
{
    const int rank = e->rank;
    const bool proof = v->cause == CAUSE_GPU_FAULT;
    const bool perhaps = may_be_a_gpu(v, e) && !s->spent && s->np > 1 && gained <= 0;
    s->guilty = -1;
    s->proof = proof;
    if (!s->gpus || rank >= s->np)
        return;
    s->times = !perhaps || rank < 0 ? 0 : rank == s->last ? s->times + 1 : 1;
    s->last = perhaps ? rank : -1;
    if (proof)
        s->guilty = named(s, v->line, rank);
    else if (s->times >= ENOUGH)
        s->guilty = rank;
}

const char *gpu_blame_guilty(const struct gpu_blame *s)
{
    return s->guilty >= 0 && s->gpus[s->guilty].uuid[0] ? s->gpus[s->guilty].uuid : NULL;
}
