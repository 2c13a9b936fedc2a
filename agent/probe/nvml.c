/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - see nvml.h */
#include "agent/probe/nvml.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
static const struct symbol {
    const char *name;
    size_t      field;
    bool        required;
} symbols[] = {
#define FIELD(f) offsetof(struct nvml, f)
    {"nvmlInit_v2", FIELD(init), true},
    {"nvmlShutdown", FIELD(shutdown), true},
    {"nvmlDeviceGetCount_v2", FIELD(count), true},
    {"nvmlDeviceGetHandleByIndex_v2", FIELD(handle), true},
    {"nvmlDeviceGetUUID", FIELD(uuid), true},
    {"nvmlDeviceGetName", FIELD(name), true},
    {"nvmlDeviceGetPciInfo_v3", FIELD(pci), true},
    {"nvmlDeviceGetMemoryInfo", FIELD(memory), true},
    {"nvmlErrorString", FIELD(error_string), false},
    {"nvmlSystemGetDriverVersion", FIELD(driver_version), false},
    {"nvmlSystemGetCudaDriverVersion_v2", FIELD(cuda_version), false},
    {"nvmlDeviceGetCudaComputeCapability", FIELD(compute), false},
    {"nvmlDeviceGetMigMode", FIELD(mig), false},
    {"nvmlDeviceGetMaxMigDeviceCount", FIELD(mig_count), false},
    {"nvmlDeviceGetMigDeviceHandleByIndex", FIELD(mig_handle), false},
    {"nvmlDeviceGetGpuInstanceId", FIELD(mig_instance), false},
    {"nvmlDeviceGetComputeMode", FIELD(compute_mode), false},
    {"nvmlDeviceGetVirtualizationMode", FIELD(virtualization), false},
    {"nvmlDeviceGetTotalEccErrors", FIELD(ecc_errors), false},
    {"nvmlDeviceGetRemappedRows", FIELD(remapped_rows), false},
    {"nvmlDeviceGetRetiredPagesPendingStatus", FIELD(retired_pending), false},
    {"nvmlDeviceGetFieldValues", FIELD(fields), false},
    {"nvmlDeviceGetUtilizationRates", FIELD(utilization), false},
    {"nvmlDeviceGetTemperature", FIELD(temperature), false},
    {"nvmlDeviceGetPowerUsage", FIELD(power), false},
    {"nvmlDeviceGetPcieThroughput", FIELD(pcie), false},
    {"nvmlDeviceGetGpuFabricInfoV", FIELD(fabric), false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", FIELD(processes), false},
    {"nvmlDeviceGetNvLinkState", FIELD(link_state), false},
    {"nvmlDeviceGetNvLinkRemoteDeviceType", FIELD(link_remote_type), false},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", FIELD(link_remote_pci), false},
    {"nvmlDeviceGetP2PStatus", FIELD(p2p), false},
    {"nvmlDeviceGetTopologyCommonAncestor", FIELD(ancestor), false},
    {"nvmlEventSetCreate", FIELD(event_create), false},
    {"nvmlDeviceGetSupportedEventTypes", FIELD(event_types), false},
    {"nvmlDeviceRegisterEvents", FIELD(event_register), false},
    {"nvmlEventSetWait_v2", FIELD(event_wait), false},
#undef FIELD
};
/* clang-format on */

int nvml_open(struct nvml *n)
{
    *n = (struct nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *p = dlsym(n->library, symbols[i].name);
        if (!p && symbols[i].required) {
            nvml_close(n);
            return -1;
        }
        memcpy((char *)n + symbols[i].field, &p, sizeof(p));
    }
    return 0;
}

void nvml_close(struct nvml *n)
{
    if (n->library)
        dlclose(n->library);
    *n = (struct nvml){0};
}

const char *nvml_error(const struct nvml *n, int rc, char *out, size_t size)
{
    const char *text = n->error_string ? n->error_string(rc) : NULL;
    if (text)
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, "NVML error %d", rc);
    return out;
}

/* Rows of 24 bytes {pid, used, two numbers}. Drivers 535.43 to 535.86 wrote rows of 32 bytes
 * under the same name: the bytes after the first 24 per row show which layout it was. */
enum { ROW = 24, ROW_535 = 32, POISON = 0xA5, ROWS_MOST = 64 };

int nvml_processes(const struct nvml *n, nvml_device d, struct nvml_process *out, int room)
{
    unsigned char rows[ROW_535 * ROWS_MOST];
    unsigned count = ROWS_MOST;
    if (!n->processes)
        return -1;
    memset(rows, POISON, sizeof(rows));
    if (n->processes(d, &count, rows) != NVML_OK || count > ROWS_MOST)
        return -1;
    size_t stride = ROW;
    for (size_t i = (size_t)count * ROW; i < (size_t)count * ROW_535; i++)
        if (rows[i] != POISON)
            stride = ROW_535;
    int given = (int)count < room ? (int)count : room;
    for (int i = 0; i < given; i++) {
        const unsigned char *row = rows + (size_t)i * stride;
        uint64_t used;
        memcpy(&out[i].pid, row, sizeof(out[i].pid));
        memcpy(&used, row + 8, sizeof(used));
        out[i].used = used > INT64_MAX ? -1 : (long long)used;
    }
    return given;
}
