/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - the facts about this node, as JSON
 *
 * docs/FACTS.md lists every key. Facts only: agent/plan/plan.h decides. A fact that
 * cannot be had is null, and finding facts never fails a run. Recorded facts of
 * real kinds of machines are test cases (tests/facts).
 */
#ifndef AGENT_PROBE_PROBE_H
#define AGENT_PROBE_PROBE_H

#include <jansson.h>

struct err;
struct nvml;

enum { FACTS_SCHEMA = 2, PROBE_GPUS_MOST = 64 };

/* disk: the directory whose free space is asked for.  The caller owns it; NULL: no memory. */
json_t *probe_facts(const char *disk, struct err *err);

/* Its parts; each sets keys of its own. 0, or -1: no memory. */
int probe_host(json_t *facts, const char *disk); /* processors, memory, disk */
int probe_kind(json_t *facts);                   /* notebook, container, virtual machine */
int probe_net(json_t *facts);                    /* interfaces, RDMA ports */
int probe_gpu(json_t *facts);                    /* driver, NCCL, GPUs, pairs; may block: see probe.c */

/* What joins two GPUs: the value of `pairs`. NULL in gpus: one that does not answer. */
struct nvml_device;
json_t *probe_pairs(const struct nvml *n, struct nvml_device *const *gpus, int count);

/* The Xids that the kernel has logged about a GPU since it started, or JSON null. */
json_t *probe_xids(const char *pci);

#endif
