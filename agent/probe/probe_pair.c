/* SPDX-License-Identifier: Apache-2.0 */
/* probe_pair.c - connection between two GPUs: NVLink, PCIe path, peer access */
#include <stdlib.h>
#include <string.h>

#include "agent/probe/nvml.h"
#include "agent/probe/probe.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The NVLinks of one GPU: bus ids of the peers, and number of links to switches. */
struct links {
    struct nvml_pci at[NVML_LINKS];
    int             to_gpus, to_switch;
};

static void find_links(struct links *out, const struct nvml *n, nvml_device d)
{
    unsigned active, type;
    *out = (struct links){.to_gpus = 0};
    for (unsigned i = 0; n->link_state && i < NVML_LINKS; i++) {
        int rc = n->link_state(d, i, &active);
        if (rc == NVML_INVALID_ARGUMENT || rc == NVML_NOT_SUPPORTED)
            return;
        if (rc != NVML_OK || !active)
            continue;
        if (!n->link_remote_type || n->link_remote_type(d, i, &type) != NVML_OK)
            type = NVML_REMOTE_GPU;
        if (type == NVML_REMOTE_SWITCH)
            out->to_switch++;
        else if (type == NVML_REMOTE_GPU && n->link_remote_pci &&
                 n->link_remote_pci(d, i, &out->at[out->to_gpus]) == NVML_OK)
            out->to_gpus++;
    }
}

static int links_to(const struct links *l, const struct nvml_pci *there)
{
    int count = 0;
    for (int i = 0; i < l->to_gpus; i++)
        count += l->at[i].domain == there->domain && l->at[i].bus == there->bus &&
                 l->at[i].device == there->device;
    return count;
}

static json_t *p2p_of(const struct nvml *n, nvml_device a, nvml_device b)
{
    static const char *const words[] = {
        "ok",          "chipset not supported", "GPU not supported", "topology not supported",
        "disabled by registry", "not supported", NULL};
    int status;
    if (!n->p2p || n->p2p(a, b, NVML_P2P_READ, &status) != NVML_OK || status < 0 ||
        (size_t)status >= ARRAY_LEN(words) || !words[status])
        return json_null();
    return json_text(words[status]);
}

/* PCIe distance in NCCL's terms. */
static json_t *path_of(const struct nvml *n, nvml_device a, nvml_device b)
{
    static const struct {
        int         level;
        const char *name;
    } levels[] = {{0, "PIX"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
    int level;
    if (n->ancestor && n->ancestor(a, b, &level) == NVML_OK)
        for (size_t i = 0; i < ARRAY_LEN(levels); i++)
            if (levels[i].level == level)
                return json_text(levels[i].name);
    return json_null();
}

json_t *probe_pairs(const struct nvml *n, struct nvml_device *const *gpus, int count)
{
    struct links *links = calloc(count > 0 ? (size_t)count : 1, sizeof(*links));
    struct nvml_pci pci[PROBE_GPUS_MOST];
    json_t *out = json_array();
    memset(pci, 0, sizeof(pci));
    for (int i = 0; i < count && links; i++)
        if (gpus[i]) {
            find_links(&links[i], n, gpus[i]);
            if (n->pci(gpus[i], &pci[i]) != NVML_OK)
                pci[i].domain = ~0U;
        }
    for (int a = 0; a < count && links; a++)
        for (int b = a + 1; b < count; b++) {
            if (!gpus[a] || !gpus[b])
                continue;
            int direct = links_to(&links[a], &pci[b]);
            int through = links[a].to_switch < links[b].to_switch ? links[a].to_switch
                                                                  : links[b].to_switch;
            json_array_append_new(
                out, json_make("{s:i, s:i, s:i, s:o, s:o, s:o}", "a", a, "b", b, "nvlinks",
                               direct ? direct : through, "through",
                               direct    ? json_text("gpu")
                               : through ? json_text("switch")
                                         : json_null(),
                               "p2p", p2p_of(n, gpus[a], gpus[b]), "path",
                               path_of(n, gpus[a], gpus[b])));
        }
    free(links);
    return out;
}
