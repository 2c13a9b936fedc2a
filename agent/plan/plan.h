/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - makes a plan from facts and a spec: ranks, devices and environment, each with its reason
 *
 * Pure: no clock, no I/O.
 * Facts come from probe.h, of this machine or a recording, plus `excluded`, the GPUs that failed in
 * this job before ({UUID: why}), and `held` in a GPU that another job holds (agent/machine/machine_lease.h), a text;
 * the spec is canonical (docs/SPEC.md). The plan is JSON, because it
 * is stored and shown:
 *
 *   {"schema":1, "hash":"16 hex digits", "np":2, "nodes":1, "engine":false,
 *    "why":"one rank for each of 2 GPUs", "threads":4, "expects":"NVLink (1 of 1 pairs)",
 *    "ranks":[{"rank":0,"gpu":"GPU-..."|null,"device":"NVIDIA A100"|"cpu",
 *              "index":0,                         only if CUDA gives the GPU this number, too
 *              "numa":0, "cpus":"0-31"}],       the last two only if ranks are bound
 *    "cpus":2, "gpus":"0,1", "uuids":"GPU-...,GPU-...",   CPU slots; the GPUs in use, if any, by `index` if it is known,
 *                                             else by the first characters of the UUID
 *    "container":{"runtime":"podman", "path":"/usr/bin/podman", "rootless":false, "image":"...", "why":"..."},
 *                                              only for a job with an image
 *    "env":[{"name","value","why","fact","confidence"}],  set for every rank
 *    "user_env":[{"name","value","why"}],       the job's own variables; they take precedence
 *    "fallbacks":[like env],     added one by one (agent/core/nccl_fallback.h)
 *    "notes":["..."], "harmful":[those about variables that are likely harmful],
 *    "unused":[{"gpu":0, "why":"..."}]}   (GPUs that are there; of several nodes instead common_notes, those of all)
 *
 * np and ranks are those of this node; the job has `nodes` nodes. Nothing is set that the libraries
 * determine correctly by themselves.
 */
#ifndef AGENT_PLAN_PLAN_H
#define AGENT_PLAN_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;

/* 0 and a new object; -1 if the job cannot run on this node: the message names the fix. */
int plan_make(json_t **plan, const json_t *facts, const json_t *spec, struct err *err);

/* The GPUs that such a plan may use; `why` names a job's lack: "1 of 2 GPUs: GPU 1 is not used: ...". After
 * ERR_NO_DEVICE of plan_make(), another node may have more. */
int plan_usable_gpus(char *why, size_t size, const json_t *facts, const json_t *spec);

/* Is this GPU of the facts used by a program other than jobctl? If so, the reason: "in use by process 812 (python)
 * with 9 MiB". */
bool plan_gpu_in_use(const json_t *gpu, char *why, size_t size);

/* GPU memory of a rank of the plan in bytes, the minimum over ranks; 0: no GPUs, or unknown. */
int64_t plan_gpu_memory(const json_t *plan, const json_t *facts);

/* The number of distinct healthy GPUs of a node that jobs can use, including GPUs that are now in use by others; each
 * MIG slice counts. */
int plan_count_gpus(const json_t *facts);

/* The planned value of a variable ("" included), the job's own first; NULL: not set. */
const char *plan_env(const json_t *plan, const char *name);

/* The differences, one sentence each, as a new array; empty if the hashes are equal. */
json_t *plan_changes(const json_t *before, const json_t *after);

/* Prints the plan for `jobctl plan`. */
void plan_print(FILE *out, const json_t *plan);

#endif
