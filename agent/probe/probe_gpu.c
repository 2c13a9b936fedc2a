/* SPDX-License-Identifier: Apache-2.0 */
/* probe_gpu.c - facts about GPUs from NVML: model, health, users
 *
 * What a driver does not support (NOT_SUPPORTED and the like) becomes null, never zero: a GeForce
 * has no ECC counter, which differs from a counter of 0.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/sysroot.h"
#include "agent/probe/nvml.h"
#include "agent/probe/probe.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { PROCESSES_MOST = 16, MIG_MOST = 16 };

/* Maps an NVML enum value to its word; null if unknown. */
static json_t *word(const char *const *words, size_t count, unsigned value)
{
    return value < count ? json_text(words[value]) : json_null();
}

static json_t *trouble(const struct nvml *n, const char *what, int rc)
{
    char text[200];
    return json_text_f("%s: %s", what, nvml_error(n, rc, text, sizeof(text)));
}

/* --- health -------------------------------------------------------------------------------- */

static json_t *ecc_of(const struct nvml *n, nvml_device d)
{
    unsigned long long errors;
    if (!n->ecc_errors ||
        n->ecc_errors(d, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &errors) != NVML_OK)
        return json_null();
    return json_integer((json_int_t)errors);
}

static json_t *remap_of(const struct nvml *n, nvml_device d)
{
    unsigned corrected, uncorrected, pending, failed;
    if (!n->remapped_rows ||
        n->remapped_rows(d, &corrected, &uncorrected, &pending, &failed) != NVML_OK)
        return json_null();
    return json_make("{s:i, s:i, s:b, s:b}", "corrected", (int)corrected, "uncorrected",
                     (int)uncorrected, "pending", (int)pending, "failed", (int)failed);
}

static json_t *retired_of(const struct nvml *n, nvml_device d)
{
    unsigned pending;
    if (!n->retired_pending || n->retired_pending(d, &pending) != NVML_OK)
        return json_null();
    return json_boolean(pending);
}

static json_t *recovery_of(const struct nvml *n, nvml_device d)
{
    static const char *const actions[] = {"none", "reset", "reboot", "drain", "drain and reset"};
    struct nvml_field f = {.id = NVML_FIELD_RECOVERY_ACTION};
    if (!n->fields || n->fields(d, 1, &f) != NVML_OK || f.rc != NVML_OK)
        return json_null();
    return word(actions, ARRAY_LEN(actions), f.value.u32);
}

static json_t *fabric_of(const struct nvml *n, nvml_device d)
{
    static const char *const states[] = {NULL, "not started", "in progress", "completed"};
    struct nvml_fabric f = {.version = NVML_FABRIC_VERSION};
    if (!n->fabric || n->fabric(d, &f) != NVML_OK || f.state == NVML_FABRIC_NOT_SUPPORTED)
        return json_null();
    if (f.state == NVML_FABRIC_COMPLETED && f.status != NVML_OK)
        return json_text("failed");
    return word(states, ARRAY_LEN(states), f.state);
}

static void add_health(json_t *gpu, const struct nvml *n, nvml_device d)
{
    json_object_set_new(gpu, "ecc_uncorrected", ecc_of(n, d));
    json_object_set_new(gpu, "remap", remap_of(n, d));
    json_object_set_new(gpu, "retired_pending", retired_of(n, d));
    json_object_set_new(gpu, "recovery", recovery_of(n, d));
    json_object_set_new(gpu, "fabric", fabric_of(n, d));
    json_object_set_new(gpu, "xids", probe_xids(json_string_value(json_object_get(gpu, "pci"))));
}

/* --- users -------------------------------------------------------------------------------- */

/* Every rank of a jobctl job has the nonce of its attempt in its environment. */
static bool is_ours(unsigned pid)
{
    static const char mark[] = "JOBCTL_NONCE=";
    char path[64], real[4096], bytes[65536];
    snprintf(path, sizeof(path), "/proc/%u/environ", pid);
    sysroot_path(real, sizeof(real), path);
    FILE *f = fopen(real, "re");
    size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
    if (f)
        fclose(f);
    return memmem(bytes, n, mark, sizeof(mark) - 1) != NULL;
}

json_t *probe_processes(const struct nvml *n, nvml_device d)
{
    struct nvml_process list[PROCESSES_MOST];
    char path[64], name[64];
    int count = nvml_processes(n, d, list, PROCESSES_MOST);
    if (count < 0)
        return json_null();
    json_t *out = json_array();
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "/proc/%u/comm", list[i].pid);
        sysroot_line(name, sizeof(name), path);
        json_array_append_new(
            out, json_make("{s:I, s:o, s:o, s:b}", "pid", (json_int_t)list[i].pid, "name",
                           name[0] ? json_text(name) : json_null(), "memory_bytes",
                           list[i].used < 0 ? json_null() : json_integer(list[i].used), "jobctl",
                           (int)is_ours(list[i].pid)));
    }
    return out;
}

/* --- identity ----------------------------------------------------------------------------- */

/* NVML's "00000000:0A:00.0" to "0000:0a:00.0" as in /sys and the kernel log. */
static void pci_name(char *out, size_t size, const char *nvml)
{
    size_t len = strlen(nvml);
    snprintf(out, size, "%s", len > 12 ? nvml + len - 12 : nvml);
    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static json_t *numa_of(const char *pci)
{
    char path[128];
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
    int64_t node = sysroot_number(path);
    return node < 0 ? json_null() : json_integer(node);
}

static json_t *slices_of(const struct nvml *n, nvml_device d)
{
    json_t *out = json_array();
    unsigned count = 0;
    if (!n->mig_count || !n->mig_handle || n->mig_count(d, &count) != NVML_OK)
        return out;
    for (unsigned i = 0; i < count && i < MIG_MOST; i++) {
        nvml_device slice;
        char uuid[NVML_TEXT] = "";
        struct nvml_memory memory = {0};
        if (n->mig_handle(d, i, &slice) != NVML_OK ||
            n->uuid(slice, uuid, sizeof(uuid)) != NVML_OK)
            continue; /* this position holds no MIG slice */
        int rc = n->memory(slice, &memory);
        json_array_append_new(
            out, json_make("{s:s, s:o}", "uuid", uuid, "memory_bytes",
                           rc == NVML_OK ? json_integer((json_int_t)memory.total) : json_null()));
    }
    return out;
}

static void add_kind(json_t *gpu, const struct nvml *n, nvml_device d)
{
    static const char *const modes[] = {"default", "exclusive thread", "prohibited", "exclusive"};
    static const char *const virtuals[] = {"none", "passthrough", "vgpu", "vgpu host",
                                           "vsga host"};
    unsigned mode, kind, mig = 0, pending;
    int major, minor;
    json_object_set_new(gpu, "compute", n->compute && n->compute(d, &major, &minor) == NVML_OK
                                            ? json_text_f("%d.%d", major, minor)
                                            : json_null());
    json_object_set_new(gpu, "compute_mode",
                        n->compute_mode && n->compute_mode(d, &mode) == NVML_OK
                            ? word(modes, ARRAY_LEN(modes), mode)
                            : json_null());
    json_object_set_new(gpu, "virtual",
                        n->virtualization && n->virtualization(d, &kind) == NVML_OK
                            ? word(virtuals, ARRAY_LEN(virtuals), kind)
                            : json_null());
    if (!n->mig || n->mig(d, &mig, &pending) != NVML_OK)
        mig = 0;
    json_object_set_new(gpu, "mig", json_boolean(mig == 1));
    json_object_set_new(gpu, "mig_slices", mig == 1 ? slices_of(n, d) : json_array());
}

/* *handle stays NULL when the GPU does not respond; its entry then has the reason as `note`. */
static json_t *probe_one(const struct nvml *n, unsigned index, nvml_device *handle)
{
    nvml_device d;
    char uuid[NVML_TEXT] = "", name[NVML_TEXT] = "", pci[32] = "";
    struct nvml_memory memory = {0};
    struct nvml_pci where = {0};
    json_t *note = NULL;
    int rc;
    if ((rc = n->handle(index, &d)) != NVML_OK)
        note = trouble(n, "no handle", rc);
    else if ((rc = n->uuid(d, uuid, sizeof(uuid))) != NVML_OK)
        note = trouble(n, "no UUID", rc);
    else if ((rc = n->memory(d, &memory)) != NVML_OK)
        note = trouble(n, "no memory information", rc);
    if (!note && n->name(d, name, sizeof(name)) != NVML_OK)
        snprintf(name, sizeof(name), "unknown GPU");
    if (!note && n->pci(d, &where) == NVML_OK)
        pci_name(pci, sizeof(pci), where.bus_id);
    json_t *gpu = json_make("{s:i, s:s, s:s, s:I, s:I, s:s, s:o, s:b, s:o}", "index", (int)index,
                            "uuid", uuid, "name", name, "memory_bytes", (json_int_t)memory.total,
                            "memory_used_bytes", (json_int_t)memory.used, "pci", pci, "numa",
                            numa_of(pci), "healthy", !note, "note", note ? note : json_null());
    if (gpu && !note) {
        *handle = d;
        add_kind(gpu, n, d);
        add_health(gpu, n, d);
        json_object_set_new(gpu, "processes", probe_processes(n, d));
    } else {
        json_object_set_new(gpu, "mig", json_false());
        json_object_set_new(gpu, "xids", probe_xids(pci));
    }
    return gpu;
}

/* --- all GPUs ----------------------------------------------------------------------------- */

static json_t *nccl_version(void)
{
    const char *named = getenv("JOBCTL_NCCL"); /* same variable as in engine/dist/nccl.h */
    void *library = dlopen(named && *named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *) = NULL, v = 0;
    if (library)
        *(void **)&get = dlsym(library, "ncclGetVersion");
    bool known = get && get(&v) == 0;
    if (!known) /* not closed: a library with threads must stay loaded */
        return json_null();
    return v < 10000 ? json_text_f("%d.%d.%d", v / 1000, v % 1000 / 100, v % 100)
                     : json_text_f("%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
}

static void add_driver(json_t *facts, const struct nvml *n)
{
    char driver[NVML_TEXT];
    int cuda;
    if (n->driver_version && n->driver_version(driver, sizeof(driver)) == NVML_OK)
        json_object_set_new(facts, "driver", json_text(driver));
    if (n->cuda_version && n->cuda_version(&cuda) == NVML_OK)
        json_object_set_new(facts, "cuda_driver", json_text_f("%d.%d", cuda / 1000, cuda % 1000 / 10));
}

static void add_gpus(json_t *facts, const struct nvml *n)
{
    nvml_device handles[PROBE_GPUS_MOST] = {NULL};
    json_t *gpus = json_object_get(facts, "gpus");
    unsigned count = 0;
    int rc = n->count(&count);
    if (rc != NVML_OK)
        json_object_set_new(facts, "gpu_note", trouble(n, "cannot count the GPUs", rc));
    if (count > PROBE_GPUS_MOST)
        count = PROBE_GPUS_MOST;
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(gpus, probe_one(n, i, &handles[i]));
    json_object_set_new(facts, "pairs", probe_pairs(n, handles, (int)count));
}

int probe_gpu(json_t *facts)
{
    struct nvml n;
    json_object_set_new(facts, "gpus", json_array());
    json_object_set_new(facts, "pairs", json_array());
    json_object_set_new(facts, "driver", json_null());
    json_object_set_new(facts, "cuda_driver", json_null());
    json_object_set_new(facts, "gpu_note", json_null());
    json_object_set_new(facts, "nccl", nccl_version());
    if (nvml_open(&n) < 0)
        return 0;
    int rc = n.init();
    if (rc == NVML_OK) {
        add_driver(facts, &n);
        add_gpus(facts, &n);
        n.shutdown();
    } else {
        json_object_set_new(facts, "gpu_note", trouble(&n, "cannot initialize the NVIDIA driver", rc));
    }
    nvml_close(&n);
    return 0;
}
