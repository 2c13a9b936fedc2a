/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_events.c - see gpu_events.h */
#include "agent/probe/gpu_events.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "agent/probe/nvml.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { BUSY = 50, IDLE_MEMORY = 1 }; /* percent: then the links are measured */
enum { GPUS_MOST = 64, SLICES_MOST = 16, WAIT_MS = 1000, LINK_MS = 20, XID_MEMORY = 48, XID_GONE = 79 };

/* A whole GPU or a MIG slice. */
struct gpu {
    nvml_device device; /* the whole GPU */
    nvml_device part;   /* itself, or the slice */
    char        uuid[NVML_TEXT], pci[32];
    unsigned instance; /* of a MIG slice; NVML_NO_INSTANCE: whole GPU, or unknown */
    bool        gone;
};

struct watched {
    struct nvml nvml;
    struct gpu  gpu[GPUS_MOST];
    int         n;
    void       *set;
};

static bool is_asked(const char *uuid, char **uuids, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(uuids[i], uuid) == 0)
            return true;
    return false;
}

/* The kernel writes a four-digit PCI domain, NVML an eight-digit one. */
static void short_pci(char *out, size_t size, const char *bus_id)
{
    size_t digits = strcspn(bus_id, ":");
    snprintf(out, size, "%s", digits > 4 ? bus_id + digits - 4 : bus_id);
    for (char *c = out; *c; c++)
        *c = *c >= 'A' && *c <= 'F' ? (char)(*c + 'a' - 'A') : *c;
}

/* Adds the GPU to the list if its UUID was requested; does not register for its events yet. */
static void note(struct watched *w, nvml_device d, nvml_device part, char **uuids, int n)
{
    struct gpu *g = &w->gpu[w->n];
    struct nvml_pci pci = {.domain = 0};
    if (w->n == GPUS_MOST || w->nvml.uuid(part, g->uuid, sizeof(g->uuid)) != NVML_OK ||
        !is_asked(g->uuid, uuids, n) || w->nvml.pci(d, &pci) != NVML_OK)
        return;
    short_pci(g->pci, sizeof(g->pci), pci.bus_id);
    g->device = d;
    g->part = part;
    if (part == d || !w->nvml.mig_instance || w->nvml.mig_instance(part, &g->instance) != NVML_OK)
        g->instance = NVML_NO_INSTANCE;
    w->n++;
}

static int watch(struct watched *w, nvml_device d)
{
    unsigned long long wanted = NVML_EVENT_XID | NVML_EVENT_ECC_DOUBLE, known = wanted;
    if (w->nvml.event_types && w->nvml.event_types(d, &known) == NVML_OK)
        wanted &= known;
    return wanted && w->nvml.event_register(d, wanted, w->set) == NVML_OK ? 0 : -1;
}

/* NVML delivers events for whole GPUs only. */
static void add(struct watched *w, nvml_device d, char **uuids, int n)
{
    const int before = w->n;
    unsigned count = 0;
    nvml_device slice;
    note(w, d, d, uuids, n);
    if (w->nvml.mig_count && w->nvml.mig_handle && w->nvml.mig_count(d, &count) == NVML_OK)
        for (unsigned i = 0; i < count && i < SLICES_MOST; i++)
            if (w->nvml.mig_handle(d, i, &slice) == NVML_OK)
                note(w, d, slice, uuids, n);
    if (w->n > before && watch(w, d) < 0)
        w->n = before;
}

static int open_all(struct watched *w, char **uuids, int n, struct err *err)
{
    unsigned count = 0;
    nvml_device d;
    if (nvml_open(&w->nvml) < 0 || !w->nvml.event_create || !w->nvml.event_register ||
        !w->nvml.event_wait)
        return err_set(err, ERR_NO_DEVICE, "this driver reports no GPU events");
    if (w->nvml.init() != NVML_OK || w->nvml.event_create(&w->set) != NVML_OK)
        return err_set(err, ERR_NO_DEVICE, "the driver cannot register for GPU events");
    w->nvml.count(&count);
    for (unsigned i = 0; i < count && w->n < GPUS_MOST; i++)
        if (w->nvml.handle(i, &d) == NVML_OK)
            add(w, d, uuids, n);
    return w->n ? 0 : err_set(err, ERR_NO_DEVICE, "none of these GPUs supports events");
}

/* -1: the reader is gone. */
static int print(FILE *out, const struct gpu *g, int xid)
{
    fprintf(out, "{\"uuid\":\"%s\",\"pci\":\"%s\",\"xid\":%d}\n", g->uuid, g->pci, xid);
    return fflush(out) == 0 ? 0 : -1;
}

/* --- counters ------------------------------------------------------------------------------ */

/* KB/s over PCIe, in both directions. */
static unsigned long long pcie_kb_s(const struct nvml *n, nvml_device d)
{
    unsigned sent = 0, received = 0;
    if (!n->pcie || n->pcie(d, NVML_PCIE_SENT, &sent) != NVML_OK ||
        n->pcie(d, NVML_PCIE_RECEIVED, &received) != NVML_OK)
        return 0;
    return (unsigned long long)sent + received;
}

/* KiB over all NVLinks so far, in both directions. */
static unsigned long long nvlink_kib(const struct nvml *n, nvml_device d)
{
    struct nvml_field f[] = {{.id = NVML_FIELD_NVLINK_SENT, .scope = NVML_ALL_LINKS},
                             {.id = NVML_FIELD_NVLINK_RECEIVED, .scope = NVML_ALL_LINKS}};
    unsigned long long all = 0;
    if (!n->fields || n->fields(d, 2, f) != NVML_OK)
        return 0;
    for (int i = 0; i < 2; i++)
        all += f[i].rc == NVML_OK ? f[i].value.u64 : 0;
    return all;
}

static unsigned long long link_kb_s(const struct nvml *n, nvml_device d)
{
    const unsigned long long before = nvlink_kib(n, d);
    const int64_t since = clock_ms();
    const unsigned long long pcie = pcie_kb_s(n, d); /* takes a while */
    clock_wait(-1, before ? LINK_MS : 0);
    const unsigned long long after = nvlink_kib(n, d);
    const int64_t passed = clock_ms() - since;
    return pcie + (after > before && passed > 0 ? (after - before) * 1000 / (unsigned)passed : 0);
}

static bool is_held(const struct nvml *n, nvml_device d)
{
    struct nvml_process one[1];
    return nvml_processes(n, d, one, 1) > 0;
}

/* -1: the reader is gone. */
static int print_use(const struct watched *w, FILE *out)
{
    for (int i = 0; i < w->n; i++) {
        const struct gpu *g = &w->gpu[i];
        struct nvml_utilization u = {0, 0};
        if (g->gone)
            continue;
        if (is_held(&w->nvml, g->part))
            fprintf(out, "{\"uuid\":\"%s\",\"held\":true}\n", g->uuid);
        if (!w->nvml.utilization || w->nvml.utilization(g->part, &u) != NVML_OK)
            continue;
        const bool odd = u.gpu >= BUSY && u.memory <= IDLE_MEMORY;
        fprintf(out, "{\"uuid\":\"%s\",\"busy\":%u,\"memory\":%u,\"link_kb_s\":%llu}\n", g->uuid, u.gpu,
                u.memory, odd ? link_kb_s(&w->nvml, g->part) : 0);
    }
    return fflush(out) == 0 ? 0 : -1;
}

/* --- errors -------------------------------------------------------------------------------- */

/* Does the event concern this GPU?  Only an Xid names an instance. */
static bool is_about(const struct nvml_event *e, const struct gpu *g)
{
    return g->device == e->device &&
           (e->type != NVML_EVENT_XID || e->gpu_instance == NVML_NO_INSTANCE ||
            g->instance == NVML_NO_INSTANCE || g->instance == e->gpu_instance);
}

static int print_event(const struct watched *w, FILE *out, const struct nvml_event *e)
{
    int rc = 0;
    for (int i = 0; i < w->n && rc == 0; i++)
        if (is_about(e, &w->gpu[i]))
            rc = print(out, &w->gpu[i], e->type == NVML_EVENT_XID ? (int)e->data : XID_MEMORY);
    return rc;
}

/* A GPU is lost, but the event does not say which: asks each one. Returns how many are left; -1:
 * the reader is gone. */
static int print_gone(struct watched *w, FILE *out)
{
    char uuid[NVML_TEXT];
    int left = 0;
    for (int i = 0; i < w->n; i++) {
        struct gpu *g = &w->gpu[i];
        bool lost = w->nvml.uuid(g->device, uuid, sizeof(uuid)) == NVML_LOST;
        if (lost && !g->gone && print(out, g, XID_GONE) < 0)
            return -1;
        g->gone = g->gone || lost;
        left += !g->gone;
    }
    return left;
}

int gpu_events_print(FILE *out, char **uuids, int n, struct err *err)
{
    static struct watched w;
    struct nvml_event e;
    if (open_all(&w, uuids, n, err) < 0)
        return -1;
    int64_t next = 0;
    for (int rc = 0; rc >= 0;) {
        if (clock_ms() >= next) {
            next = clock_ms() + WAIT_MS;
            if (print_use(&w, out) < 0)
                break;
        }
        int got = w.nvml.event_wait(w.set, &e, WAIT_MS);
        if (got == NVML_OK)
            rc = print_event(&w, out, &e);
        else if (got == NVML_LOST)
            rc = print_gone(&w, out) > 0 ? 0 : -1;
        else if (got != NVML_TIMEOUT)
            return err_set(err, ERR_NO_DEVICE, "waiting for GPU events failed (%d)", got);
    }
    return 0;
}
