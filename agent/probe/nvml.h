/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.h - the part of NVIDIA's management library (NVML) in use, loaded at run time
 *
 * The declarations are written from the documented binary interface; sizes are asserted. A machine
 * without the library is a normal machine. Only the functions of the first group are required; any
 * call may return NOT_SUPPORTED, and the fact is then unknown, never zero.
 *
 * A call can block for minutes while a GPU falls off the bus: make calls in a process that may be
 * abandoned (agent/probe/probe.c).
 */
#ifndef AGENT_PROBE_NVML_H
#define AGENT_PROBE_NVML_H

#include <stdbool.h>
#include <stddef.h>

enum {
    NVML_OK = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_TOO_SMALL = 7,
    NVML_TIMEOUT = 10,
    NVML_LOST = 15
};
enum { NVML_TEXT = 96, NVML_LINKS = 36 };
enum { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2 };
enum { NVML_P2P_READ = 0 };
enum { NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
enum { NVML_FIELD_RECOVERY_ACTION = 230 };
/* KiB so far; scope NVML_ALL_LINKS: all links together */
enum { NVML_FIELD_NVLINK_SENT = 138, NVML_FIELD_NVLINK_RECEIVED = 139 };
#define NVML_ALL_LINKS 0xffffffffU
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };

typedef struct nvml_device *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t has 24 bytes");

/* Percent of the last second or less. */
struct nvml_utilization {
    unsigned gpu, memory;
};
_Static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t has 8 bytes");

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t of the _v3 calls has 68 bytes");

struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency_us;
    unsigned type;
    int rc;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
    } value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t has 40 bytes");

struct nvml_fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};
_Static_assert(sizeof(struct nvml_fabric) == 36, "nvmlGpuFabricInfo_v2_t has 36 bytes");
enum { NVML_FABRIC_VERSION = 0x02000024, NVML_FABRIC_NOT_SUPPORTED = 0, NVML_FABRIC_COMPLETED = 3 };

#define NVML_NO_INSTANCE 0xffffffffU
enum { NVML_EVENT_ECC_DOUBLE = 2, NVML_EVENT_XID = 8 };
struct nvml_event {
    nvml_device device;
    unsigned long long type, data;           /* data: the number of an Xid */
    unsigned gpu_instance, compute_instance; /* of an Xid on a MIG GPU; else NVML_NO_INSTANCE */
};
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t has 32 bytes");

/* One process, from nvml_processes(). used: -1 = unknown, as under WSL and Windows. */
struct nvml_process {
    unsigned pid;
    long long used;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*pci)(nvml_device, struct nvml_pci *);
    int (*memory)(nvml_device, struct nvml_memory *);
    /* NULL if the driver is too old */
    const char *(*error_string)(int);
    int (*driver_version)(char *, unsigned);
    int (*cuda_version)(int *);
    int (*compute)(nvml_device, int *, int *);
    int (*mig)(nvml_device, unsigned *, unsigned *);
    int (*mig_count)(nvml_device, unsigned *);
    int (*mig_handle)(nvml_device, unsigned, nvml_device *);
    int (*mig_instance)(nvml_device, unsigned *); /* for a MIG slice: its GPU instance */
    int (*compute_mode)(nvml_device, unsigned *);
    int (*virtualization)(nvml_device, unsigned *);
    int (*ecc_errors)(nvml_device, int, int, unsigned long long *);
    int (*remapped_rows)(nvml_device, unsigned *, unsigned *, unsigned *, unsigned *);
    int (*retired_pending)(nvml_device, unsigned *);
    int (*fields)(nvml_device, int, struct nvml_field *);
    int (*utilization)(nvml_device, struct nvml_utilization *);
    int (*temperature)(nvml_device, int sensor, unsigned *); /* degrees Celsius */
    int (*power)(nvml_device, unsigned *);                   /* milliwatts */
    int (*pcie)(nvml_device, int, unsigned *); /* KB/s; takes 20 ms */
    int (*fabric)(nvml_device, struct nvml_fabric *);
    int (*processes)(nvml_device, unsigned *, void *);
    int (*link_state)(nvml_device, unsigned, unsigned *);
    int (*link_remote_type)(nvml_device, unsigned, unsigned *);
    int (*link_remote_pci)(nvml_device, unsigned, struct nvml_pci *);
    int (*p2p)(nvml_device, nvml_device, int, int *);
    int (*ancestor)(nvml_device, nvml_device, int *);
    int (*event_create)(void **set);
    int (*event_types)(nvml_device, unsigned long long *);
    int (*event_register)(nvml_device, unsigned long long types, void *set);
    int (*event_wait)(void *set, struct nvml_event *, unsigned ms);
};

/* 0, or -1 if there is no usable library. Call nvml_close() afterwards. */
int nvml_open(struct nvml *n);
void nvml_close(struct nvml *n);

/* "GPU is lost", or "NVML error 15" from a driver without nvmlErrorString. */
const char *nvml_error(const struct nvml *n, int rc, char *out, size_t size);

/* The compute processes of a GPU, at most `room`: their number, or -1 if unknown. */
int nvml_processes(const struct nvml *n, nvml_device d, struct nvml_process *out, int room);

#endif
