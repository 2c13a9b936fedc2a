/* SPDX-License-Identifier: Apache-2.0 */
/* probe_gpu.c - GPUs through NVML, loaded at run time
 *
 * The declarations are ours, from the documented ABI.  What a driver does not
 * know (NOT_SUPPORTED and its like) becomes null, never zero.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/probe.h"

enum { NVML_OK = 0, NVML_UUID = 96, NVML_NAME = 96 };

typedef struct nvml_device *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t of the _v3 calls has 68 bytes");

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int);
    int (*driver_version)(char *, unsigned);
    int (*cuda_version)(int *);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*pci)(nvml_device, struct nvml_pci *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*compute)(nvml_device, int *, int *);
    int (*mig)(nvml_device, unsigned *, unsigned *);
};

/* A function pointer out of dlsym(), the way POSIX means it. */
static void *find(void *library, const char *symbol, bool *missing)
{
    void *p = dlsym(library, symbol);
    if (!p && missing)
        *missing = true;
    return p;
}

static int nvml_open(struct nvml *n)
{
    bool missing = false;
    *n = (struct nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return -1;
#define BIND(field, symbol, required)                                                              \
    *(void **)&n->field = find(n->library, symbol, (required) ? &missing : NULL)
    BIND(init, "nvmlInit_v2", true);
    BIND(shutdown, "nvmlShutdown", true);
    BIND(count, "nvmlDeviceGetCount_v2", true);
    BIND(handle, "nvmlDeviceGetHandleByIndex_v2", true);
    BIND(uuid, "nvmlDeviceGetUUID", true);
    BIND(name, "nvmlDeviceGetName", true);
    BIND(pci, "nvmlDeviceGetPciInfo_v3", true);
    BIND(memory, "nvmlDeviceGetMemoryInfo", true);
    BIND(error_string, "nvmlErrorString", false);
    BIND(driver_version, "nvmlSystemGetDriverVersion", false);
    BIND(cuda_version, "nvmlSystemGetCudaDriverVersion_v2", false);
    BIND(compute, "nvmlDeviceGetCudaComputeCapability", false);
    BIND(mig, "nvmlDeviceGetMigMode", false);
#undef BIND
    if (missing) {
        dlclose(n->library);
        return -1;
    }
    return 0;
}

static json_t *word(const struct nvml *n, const char *what, int rc)
{
    return json_sprintf("%s: %s", what, n->error_string ? n->error_string(rc) : "NVML error");
}

static json_t *probe_one(const struct nvml *n, unsigned index)
{
    nvml_device d;
    char uuid[NVML_UUID] = "", name[NVML_NAME] = "";
    struct nvml_memory memory = {0};
    struct nvml_pci pci = {0};
    int major, minor, rc;
    unsigned mig = 0, pending = 0;
    json_t *note = NULL;

    if ((rc = n->handle(index, &d)) != NVML_OK)
        note = word(n, "no handle", rc);
    else if ((rc = n->uuid(d, uuid, sizeof(uuid))) != NVML_OK)
        note = word(n, "no UUID", rc);
    else if ((rc = n->memory(d, &memory)) != NVML_OK)
        note = word(n, "no memory information", rc);
    bool known = !note;
    if (known) {
        n->name(d, name, sizeof(name));
        n->pci(d, &pci);
        if (n->mig && n->mig(d, &mig, &pending) != NVML_OK)
            mig = 0;
    }
    json_t *compute = known && n->compute && n->compute(d, &major, &minor) == NVML_OK
                          ? json_sprintf("%d.%d", major, minor)
                          : json_null();
    return json_pack("{s:i, s:s, s:s, s:I, s:s, s:o, s:b, s:b, s:o}", "index", (int)index, "uuid",
                     uuid, "name", name, "memory_bytes", (json_int_t)memory.total, "pci",
                     pci.bus_id, "compute", compute, "mig", mig == 1, "healthy", known, "note",
                     note ? note : json_null());
}

int probe_gpu(json_t *facts)
{
    struct nvml n;
    json_t *gpus = json_array();
    json_object_set_new(facts, "gpus", gpus);
    json_object_set_new(facts, "driver", json_null());
    json_object_set_new(facts, "cuda_driver", json_null());
    json_object_set_new(facts, "gpu_note", json_null());
    if (nvml_open(&n) < 0)
        return 0;
    int rc = n.init();
    if (rc != NVML_OK) {
        json_object_set_new(facts, "gpu_note", word(&n, "the NVIDIA driver does not start", rc));
        dlclose(n.library);
        return 0;
    }
    char driver[96];
    int cuda;
    unsigned count = 0;
    if (n.driver_version && n.driver_version(driver, sizeof(driver)) == NVML_OK)
        json_object_set_new(facts, "driver", json_string(driver));
    if (n.cuda_version && n.cuda_version(&cuda) == NVML_OK)
        json_object_set_new(facts, "cuda_driver",
                            json_sprintf("%d.%d", cuda / 1000, cuda % 1000 / 10));
    if ((rc = n.count(&count)) != NVML_OK)
        json_object_set_new(facts, "gpu_note", word(&n, "the GPUs cannot be counted", rc));
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(gpus, probe_one(&n, i));
    n.shutdown();
    dlclose(n.library);
    return 0;
}
