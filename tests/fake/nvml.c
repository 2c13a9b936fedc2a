/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - a stand-in for libnvidia-ml.so.1, for machines without a GPU
 *
 * FAKE_NVML names a scenario, one word list per line:
 *
 *   driver TEXT | cuda NUMBER | stride 32      of drivers 535.43-86: rows of 32 bytes
 *   gpu UUID PCI MIB MAJOR.MINOR NAME...       in the order of their indices
 *   set GPU KEY VALUE                          ecc remapped pending failed recovery retired mode
 *                                              virtual fabric lost; busy memory (percent)
 *                                              pcie (KB/s) celsius milliwatts: a number each
 *   mig GPU UUID MIB                           a slice; makes the GPU a divided one
 *   proc GPU PID MIB                           a process that computes; MIB -1: unknown
 *   links A B COUNT | switch COUNT             NVLinks of a pair; of every GPU to a switch
 *   p2p A B STATUS | path A B LEVEL            NVML's numbers; * for A and B: every pair
 *   event GPU TYPE DATA FILE [INSTANCE]        once, as soon as that file is there; TYPE 0: it is lost;
 *                                              of a divided one the slice, from 1
 *   fail FUNCTION RC | hang FUNCTION | crash FUNCTION
 *   anything else                              for others (tests/facts)
 *
 * Without one, FAKE_GPUS says what it shows, a letter per GPU: a, b, ... healthy
 * ones with that letter in the UUID; A, B, ... the same, divided by MIG; ! one
 * that has fallen off the bus.  "init" makes the driver refuse to start,
 * "crash" end the process, "hang" never answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/probe/nvml.h"

enum { GPUS = 64, SLICES = 8, PROCS = 8, FAULTS = 8, EVENTS = 4, LOST = 15, NOT_FOUND = 6 };

enum key { ECC, REMAPPED, PENDING, FAILED, RECOVERY, RETIRED, MODE, VIRTUAL, FABRIC, GONE, BUSY,
           MEMORY, PCIE, CELSIUS, MILLIWATTS, KEYS };
static const char *const key_names[KEYS] = {"ecc",  "remapped", "pending", "failed", "recovery",
                                            "retired", "mode",  "virtual", "fabric", "lost",
                                            "busy", "memory", "pcie", "celsius", "milliwatts"};

struct device {
    char     uuid[64], pci[32], name[64];
    long     mib;
    int      major, minor, index;
    int      value[KEYS]; /* -1: not supported */
    int      slices, procs, slice_of;
    unsigned long long types; /* of events that are waited for */
    struct device *slice[SLICES];
    unsigned pid[PROCS];
    long     proc_mib[PROCS];
};

static struct machine {
    int           read, gpus, cuda, stride, switch_links, faults;
    char          driver[32];
    struct device gpu[GPUS];
    int           links[GPUS][GPUS], p2p[GPUS][GPUS], path[GPUS][GPUS];
    int           events;
    struct {
        int  gpu, done;
        long type, data;
        unsigned instance;
        char file[96];
    } event[EVENTS];
    struct {
        char function[48], what[8];
        int  rc;
    } fault[FAULTS];
} m;

static void start(void)
{
    m = (struct machine){.read = 1, .cuda = 13000, .stride = 24, .driver = "580.00"};
    for (int a = 0; a < GPUS; a++)
        for (int b = 0; b < GPUS; b++)
            m.path[a][b] = 50;
}

static struct device *add_gpu(const char *uuid, const char *pci, long mib, const char *name)
{
    struct device *d = &m.gpu[m.gpus];
    *d = (struct device){.mib = mib, .index = m.gpus++, .major = -1, .slice_of = -1};
    snprintf(d->uuid, sizeof(d->uuid), "%s", uuid);
    snprintf(d->pci, sizeof(d->pci), "%s", pci);
    snprintf(d->name, sizeof(d->name), "%s", name);
    for (int k = 0; k < KEYS; k++)
        d->value[k] = k == GONE ? 0 : -1;
    return d;
}

static void add_slice(struct device *d, const char *uuid, long mib)
{
    struct device *s = calloc(1, sizeof(*s));
    *s = *d;
    s->slice_of = d->index;
    s->mib = mib;
    snprintf(s->uuid, sizeof(s->uuid), "%s", uuid);
    d->slice[d->slices++] = s;
}

static int is_gpu(const char *word, int gpu)
{
    return *word == '*' || atoi(word) == gpu;
}

static void pairs(int table[GPUS][GPUS], const char *a, const char *b, int value)
{
    for (int i = 0; i < m.gpus; i++)
        for (int j = 0; j < m.gpus; j++)
            if ((is_gpu(a, i) && is_gpu(b, j)) || (is_gpu(a, j) && is_gpu(b, i)))
                table[i][j] = value;
}

static void read_line(char *line)
{
    char w[5][96] = {"", "", "", "", ""};
    int at = 0, n = sscanf(line, "%95s %95s %95s %95s %95s %n", w[0], w[1], w[2], w[3], w[4], &at);
    const int gpu = atoi(w[1]);
    if (n < 1 || w[0][0] == '#')
        return;
    if (strcmp(w[0], "gpu") == 0 && n == 5) {
        line[strcspn(line, "\n")] = '\0';
        struct device *d = add_gpu(w[1], w[2], atol(w[3]), line + at);
        sscanf(w[4], "%d.%d", &d->major, &d->minor);
    } else if (strcmp(w[0], "driver") == 0) {
        snprintf(m.driver, sizeof(m.driver), "%.31s", w[1]);
    } else if (strcmp(w[0], "cuda") == 0) {
        m.cuda = gpu;
    } else if (strcmp(w[0], "stride") == 0) {
        m.stride = gpu;
    } else if (strcmp(w[0], "switch") == 0) {
        m.switch_links = gpu;
    } else if (strcmp(w[0], "mig") == 0) {
        add_slice(&m.gpu[gpu], w[2], atol(w[3]));
    } else if (strcmp(w[0], "proc") == 0) {
        struct device *d = &m.gpu[gpu];
        d->pid[d->procs] = (unsigned)atol(w[2]);
        d->proc_mib[d->procs++] = atol(w[3]);
    } else if (strcmp(w[0], "links") == 0) {
        pairs(m.links, w[1], w[2], atoi(w[3]));
    } else if (strcmp(w[0], "p2p") == 0) {
        pairs(m.p2p, w[1], w[2], atoi(w[3]));
    } else if (strcmp(w[0], "path") == 0) {
        pairs(m.path, w[1], w[2], atoi(w[3]));
    } else if (strcmp(w[0], "set") == 0) {
        for (int k = 0; k < KEYS; k++)
            if (strcmp(key_names[k], w[2]) == 0)
                m.gpu[gpu].value[k] = atoi(w[3]);
    } else if (strcmp(w[0], "event") == 0 && m.events < EVENTS) {
        m.event[m.events].gpu = gpu;
        m.event[m.events].type = atol(w[2]);
        m.event[m.events].data = atol(w[3]);
        m.event[m.events].instance = n == 5 && atoi(line + at) ? (unsigned)atoi(line + at)
                                                               : NVML_NO_INSTANCE;
        snprintf(m.event[m.events++].file, sizeof(m.event[0].file), "%s", w[4]);
    } else if (m.faults < FAULTS && (strcmp(w[0], "fail") == 0 || strcmp(w[0], "hang") == 0 ||
                                     strcmp(w[0], "crash") == 0)) {
        snprintf(m.fault[m.faults].what, sizeof(m.fault[0].what), "%.7s", w[0]);
        snprintf(m.fault[m.faults].function, sizeof(m.fault[0].function), "%.47s", w[1]);
        m.fault[m.faults++].rc = atoi(w[2]);
    }
}

static void read_letters(const char *letters)
{
    char line[96];
    static const char *const words[][2] = {{"init", "fail nvmlInit_v2 9"},
                                           {"hang", "hang nvmlInit_v2"},
                                           {"crash", "crash nvmlInit_v2"}};
    for (int i = 0; i < 3; i++)
        if (strcmp(letters, words[i][0]) == 0) {
            snprintf(line, sizeof(line), "%s", words[i][1]);
            read_line(line);
            return;
        }
    for (int i = 0; letters[i]; i++) {
        char uuid[16], pci[32];
        snprintf(uuid, sizeof(uuid), "GPU-%c", letters[i] | 0x20);
        snprintf(pci, sizeof(pci), "00000000:0%c:00.0", letters[i]);
        struct device *d = add_gpu(uuid, pci, 42L << 10, "Fake A100");
        d->value[GONE] = letters[i] == '!';
        if (letters[i] >= 'A' && letters[i] <= 'Z') {
            snprintf(uuid, sizeof(uuid), "MIG-%c", letters[i] | 0x20);
            add_slice(d, uuid, 4864);
        }
    }
}

static void read_scenario(void)
{
    const char *path = getenv("FAKE_NVML"), *letters = getenv("FAKE_GPUS");
    char line[512];
    start();
    FILE *f = path ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof(line), f))
        read_line(line);
    if (f)
        fclose(f);
    else if (!path && letters)
        read_letters(letters);
}

/* What the scenario makes of a call: 0 to go on, or what it returns. */
static int fault(const char *function)
{
    if (!m.read)
        read_scenario();
    for (int i = 0; i < m.faults; i++) {
        if (strcmp(m.fault[i].function, function) != 0)
            continue;
        if (strcmp(m.fault[i].what, "crash") == 0)
            abort();
        while (strcmp(m.fault[i].what, "hang") == 0)
            pause();
        return m.fault[i].rc;
    }
    return 0;
}
#define FAULT()                                                                                    \
    do {                                                                                           \
        int fault_rc = fault(__func__);                                                            \
        if (fault_rc)                                                                              \
            return fault_rc;                                                                       \
    } while (0)

/* A value that may be unknown. */
static int give(unsigned *out, const struct device *d, enum key key)
{
    if (d->value[key] < 0)
        return NVML_NOT_SUPPORTED;
    *out = (unsigned)d->value[key];
    return 0;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int rc);
int nvmlSystemGetDriverVersion(char *out, unsigned size);
int nvmlSystemGetCudaDriverVersion_v2(int *out);
int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **out);
int nvmlDeviceGetUUID(const struct device *d, char *out, unsigned size);
int nvmlDeviceGetName(const struct device *d, char *out, unsigned size);
int nvmlDeviceGetPciInfo_v3(const struct device *d, struct nvml_pci *out);
int nvmlDeviceGetMemoryInfo(const struct device *d, struct nvml_memory *out);
int nvmlDeviceGetCudaComputeCapability(const struct device *d, int *major, int *minor);
int nvmlDeviceGetMigMode(const struct device *d, unsigned *now, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(const struct device *d, unsigned *out);
int nvmlDeviceGetMigDeviceHandleByIndex(const struct device *d, unsigned i, struct device **out);
int nvmlDeviceGetGpuInstanceId(const struct device *d, unsigned *out);
int nvmlDeviceGetComputeMode(const struct device *d, unsigned *out);
int nvmlDeviceGetVirtualizationMode(const struct device *d, unsigned *out);
int nvmlDeviceGetTotalEccErrors(const struct device *d, int kind, int when, unsigned long long *out);
int nvmlDeviceGetRemappedRows(const struct device *d, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed);
int nvmlDeviceGetRetiredPagesPendingStatus(const struct device *d, unsigned *out);
int nvmlDeviceGetFieldValues(const struct device *d, int count, struct nvml_field *out);
int nvmlDeviceGetGpuFabricInfoV(const struct device *d, struct nvml_fabric *out);
int nvmlDeviceGetComputeRunningProcesses_v3(const struct device *d, unsigned *count, void *out);
int nvmlDeviceGetNvLinkState(const struct device *d, unsigned link, unsigned *out);
int nvmlDeviceGetNvLinkRemoteDeviceType(const struct device *d, unsigned link, unsigned *out);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *d, unsigned link, struct nvml_pci *out);
int nvmlDeviceGetP2PStatus(const struct device *a, const struct device *b, int what, int *out);
int nvmlDeviceGetTopologyCommonAncestor(const struct device *a, const struct device *b, int *out);

int nvmlDeviceGetUtilizationRates(const struct device *d, struct nvml_utilization *out);
int nvmlDeviceGetPcieThroughput(const struct device *d, int direction, unsigned *out);
int nvmlDeviceGetTemperature(const struct device *d, int sensor, unsigned *out);
int nvmlDeviceGetPowerUsage(const struct device *d, unsigned *out);
int nvmlEventSetCreate(void **set);
int nvmlDeviceGetSupportedEventTypes(const struct device *d, unsigned long long *types);
int nvmlDeviceRegisterEvents(const struct device *d, unsigned long long types, void *set);
int nvmlEventSetWait_v2(void *set, struct nvml_event *e, unsigned ms);

int nvmlInit_v2(void)
{
    FAULT();
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int rc)
{
    return rc == LOST ? "GPU is lost" : rc == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    FAULT();
    snprintf(out, size, "%s", m.driver);
    return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    FAULT();
    *out = m.cuda;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    FAULT();
    *out = (unsigned)m.gpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **out)
{
    FAULT();
    *out = &m.gpu[i];
    return m.gpu[i].value[GONE] ? LOST : 0;
}

int nvmlDeviceGetUUID(const struct device *d, char *out, unsigned size)
{
    FAULT();
    snprintf(out, size, "%s", d->uuid);
    return d->value[GONE] > 0 ? LOST : 0;
}

int nvmlDeviceGetName(const struct device *d, char *out, unsigned size)
{
    FAULT();
    snprintf(out, size, "%s", d->name);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(const struct device *d, struct nvml_pci *out)
{
    FAULT();
    memset(out, 0, sizeof(*out));
    snprintf(out->bus_id, sizeof(out->bus_id), "%s", d->pci);
    sscanf(d->pci, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return 0;
}

int nvmlDeviceGetMemoryInfo(const struct device *d, struct nvml_memory *out)
{
    FAULT();
    unsigned long long total = (unsigned long long)d->mib << 20, used = 0;
    for (int i = 0; i < d->procs; i++)
        used += d->proc_mib[i] > 0 ? (unsigned long long)d->proc_mib[i] << 20 : 0;
    *out = (struct nvml_memory){total, total - used, used};
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(const struct device *d, int *major, int *minor)
{
    FAULT();
    *major = d->major;
    *minor = d->minor;
    return d->major < 0 ? NVML_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMigMode(const struct device *d, unsigned *now, unsigned *pending)
{
    FAULT();
    *now = *pending = d->slices > 0;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(const struct device *d, unsigned *out)
{
    FAULT();
    *out = d->slices ? 7 : 0; /* most places are empty */
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const struct device *d, unsigned i, struct device **out)
{
    FAULT();
    if (i >= (unsigned)d->slices)
        return NOT_FOUND;
    *out = d->slice[i];
    return 0;
}

int nvmlDeviceGetGpuInstanceId(const struct device *d, unsigned *out)
{
    FAULT();
    for (int i = 0; i < m.gpus; i++)
        for (int s = 0; s < m.gpu[i].slices; s++)
            if (m.gpu[i].slice[s] == d) {
                *out = (unsigned)s + 1;
                return 0;
            }
    return NOT_FOUND;
}

int nvmlDeviceGetComputeMode(const struct device *d, unsigned *out)
{
    FAULT();
    return give(out, d, MODE);
}

int nvmlDeviceGetVirtualizationMode(const struct device *d, unsigned *out)
{
    FAULT();
    return give(out, d, VIRTUAL);
}

int nvmlDeviceGetTotalEccErrors(const struct device *d, int kind, int when, unsigned long long *out)
{
    FAULT();
    *out = (unsigned long long)d->value[ECC];
    return d->value[ECC] < 0 || kind != 1 || when != 0 ? NVML_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetRemappedRows(const struct device *d, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    FAULT();
    *corrected = 0;
    if (give(uncorrected, d, REMAPPED) != 0)
        return NVML_NOT_SUPPORTED;
    *pending = d->value[PENDING] > 0;
    *failed = d->value[FAILED] > 0;
    return 0;
}

int nvmlDeviceGetRetiredPagesPendingStatus(const struct device *d, unsigned *out)
{
    FAULT();
    return give(out, d, RETIRED);
}

int nvmlDeviceGetFieldValues(const struct device *d, int count, struct nvml_field *out)
{
    FAULT();
    for (int i = 0; i < count; i++) {
        out[i].rc = out[i].id == NVML_FIELD_RECOVERY_ACTION && d->value[RECOVERY] >= 0
                        ? 0
                        : NVML_NOT_SUPPORTED;
        out[i].value.u64 = 0;
        out[i].value.u32 = (unsigned)d->value[RECOVERY];
    }
    return 0;
}

int nvmlDeviceGetGpuFabricInfoV(const struct device *d, struct nvml_fabric *out)
{
    FAULT();
    if (out->version != NVML_FABRIC_VERSION)
        return NVML_INVALID_ARGUMENT;
    if (d->value[FABRIC] < 0)
        return NVML_NOT_SUPPORTED;
    out->state = (unsigned char)d->value[FABRIC];
    out->status = 0;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const struct device *d, unsigned *count, void *out)
{
    FAULT();
    if (*count < (unsigned)d->procs)
        return NVML_TOO_SMALL;
    *count = (unsigned)d->procs;
    memset(out, 0, (size_t)d->procs * (size_t)m.stride);
    for (int i = 0; i < d->procs; i++) {
        char *row = (char *)out + (size_t)i * (size_t)m.stride;
        unsigned long long used = d->proc_mib[i] < 0 ? ~0ULL
                                                     : (unsigned long long)d->proc_mib[i] << 20;
        memcpy(row, &d->pid[i], sizeof(d->pid[i]));
        memcpy(row + 8, &used, sizeof(used));
    }
    return 0;
}

/* Links to other GPUs first, then those to a switch: the GPU at the far end, -1 a switch, -2 none. */
static int far_end(const struct device *d, unsigned link)
{
    int at = (int)link;
    for (int b = 0; b < m.gpus; at -= m.links[d->index][b], b++)
        if (b != d->index && at < m.links[d->index][b])
            return b;
    return at < m.switch_links ? -1 : -2;
}

int nvmlDeviceGetNvLinkState(const struct device *d, unsigned link, unsigned *out)
{
    FAULT();
    if (link >= 18)
        return NVML_INVALID_ARGUMENT;
    *out = far_end(d, link) != -2;
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const struct device *d, unsigned link, unsigned *out)
{
    FAULT();
    *out = far_end(d, link) == -1 ? NVML_REMOTE_SWITCH : NVML_REMOTE_GPU;
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *d, unsigned link, struct nvml_pci *out)
{
    FAULT();
    int b = far_end(d, link);
    return b < 0 ? NVML_NOT_SUPPORTED : nvmlDeviceGetPciInfo_v3(&m.gpu[b], out);
}

int nvmlDeviceGetP2PStatus(const struct device *a, const struct device *b, int what, int *out)
{
    FAULT();
    (void)what;
    *out = m.p2p[a->index][b->index];
    return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(const struct device *a, const struct device *b, int *out)
{
    FAULT();
    *out = m.path[a->index][b->index];
    return 0;
}

int nvmlDeviceGetUtilizationRates(const struct device *d, struct nvml_utilization *out)
{
    FAULT();
    return d->value[GONE] ? LOST : give(&out->gpu, d, BUSY) || give(&out->memory, d, MEMORY);
}

int nvmlDeviceGetPcieThroughput(const struct device *d, int direction, unsigned *out)
{
    FAULT();
    (void)direction;
    return give(out, d, PCIE);
}

int nvmlDeviceGetTemperature(const struct device *d, int sensor, unsigned *out)
{
    FAULT();
    return sensor == NVML_TEMPERATURE_GPU ? give(out, d, CELSIUS) : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetPowerUsage(const struct device *d, unsigned *out)
{
    FAULT();
    return give(out, d, MILLIWATTS);
}

int nvmlEventSetCreate(void **set)
{
    FAULT();
    *set = &m;
    return 0;
}

int nvmlDeviceGetSupportedEventTypes(const struct device *d, unsigned long long *types)
{
    FAULT();
    (void)d;
    *types = 0x1f;
    return 0;
}

int nvmlDeviceRegisterEvents(const struct device *d, unsigned long long types, void *set)
{
    FAULT();
    m.gpu[d->index].types |= types;
    return set == &m ? 0 : NVML_INVALID_ARGUMENT;
}

static int happens(struct nvml_event *e, int i)
{
    struct device *d = &m.gpu[m.event[i].gpu];
    if (m.event[i].done || access(m.event[i].file, F_OK) < 0)
        return NVML_TIMEOUT;
    m.event[i].done = 1;
    if (m.event[i].type == 0) {
        d->value[GONE] = 1;
        return LOST;
    }
    *e = (struct nvml_event){.device = (nvml_device)d,
                             .type = (unsigned long long)m.event[i].type,
                             .data = (unsigned long long)m.event[i].data,
                             .gpu_instance = m.event[i].instance,
                             .compute_instance = NVML_NO_INSTANCE};
    return d->types & e->type ? 0 : NVML_TIMEOUT;
}

int nvmlEventSetWait_v2(void *set, struct nvml_event *e, unsigned ms)
{
    FAULT();
    (void)set;
    for (unsigned waited = 0; waited < ms; waited += 20) {
        for (int i = 0; i < m.events; i++) {
            int rc = happens(e, i);
            if (rc != NVML_TIMEOUT)
                return rc;
        }
        usleep(20000);
    }
    return NVML_TIMEOUT;
}
