/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - gathers the facts about this node, as JSON
 *
 * docs/DISTRIBUTED.md lists every key. The probe records facts; agent/plan/plan.h decides. An unavailable
 * fact is null, and probing never fails a run. Recorded facts of real machine types are test cases
 * (tests/facts).
 */
#ifndef AGENT_PROBE_PROBE_H
#define AGENT_PROBE_PROBE_H

#include <jansson.h>

struct err;
struct nvml;

enum { FACTS_SCHEMA = 2, PROBE_GPUS_MOST = 64 };

/* disk: the directory whose free space is reported.  The caller owns the result; NULL: no
 * memory. */
json_t *probe_facts(const char *disk, struct err *err);

/* The parts; each sets its own keys. 0, or -1: no memory. */
int probe_host(json_t *facts, const char *disk); /* processors, memory, disk */
int probe_kind(json_t *facts);                   /* notebook, container, virtual machine */
int probe_net(json_t *facts);                    /* interfaces, RDMA ports */
int probe_gpu(json_t *facts);                    /* driver, NCCL, GPUs, pairs; may block: see probe.c */

/* The value of `environment`: NCCL's and CUDA's variables in the environment that ranks inherit. */
json_t *probe_environment(char *const *environment);

struct nvml_device;
/* The compute processes of a GPU: the value of `processes`. */
json_t *probe_processes(const struct nvml *n, struct nvml_device *gpu);

/* The connection between two GPUs: the value of `pairs`. NULL in gpus: a GPU that does not
 * respond. */
json_t *probe_pairs(const struct nvml *n, struct nvml_device *const *gpus, int count);

/* The Xids of a GPU in the kernel log since boot, or JSON null. */
json_t *probe_xids(const char *pci);

#endif
