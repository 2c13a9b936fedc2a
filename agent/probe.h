/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - the facts about this node, as JSON
 *
 *   {"schema":1, "hostname","boot_id","arch","kernel","cpus","cpu_model","memory_bytes",
 *    "memory_limit_bytes"|null, "cgroup_cpus"|null, "shm_bytes","disk_free_bytes","disk",
 *    "notebook"|null, "driver"|null, "cuda_driver"|null, "gpu_note"|null,
 *    "gpus":[{"index","uuid","name","memory_bytes","pci","compute"|null,"mig":bool,
 *             "healthy":bool,"note"|null}]}
 *
 * Facts only: agent/plan.h decides.  A fact that cannot be had is null; finding
 * facts never fails a run.  Recorded facts of real machines are test cases.
 */
#ifndef AGENT_PROBE_H
#define AGENT_PROBE_H

#include <jansson.h>

struct err;

/* disk: the directory whose free space is asked for.  The caller owns it; NULL: no memory. */
json_t *probe_facts(const char *disk, struct err *err);

/* Its parts.  probe_gpu() sets gpus, driver, cuda_driver and gpu_note. */
int probe_host(json_t *facts, const char *disk);
int probe_gpu(json_t *facts);

#endif
