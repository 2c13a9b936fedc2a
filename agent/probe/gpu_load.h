/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_load.h - `jobctl-agent gpu-load`: prints the present load of all GPUs of this machine, every GPU_LOAD_MS
 *
 * Prints one line of JSON per GPU. A separate process, because NVML calls may block for minutes and the reader must
 * not:
 *
 *   {"uuid":"GPU-...", "index":0, "name":"NVIDIA H200", "lost":false, "load":97, "memory_used_bytes":N,
 *    "memory_bytes":N, "celsius":64, "watts":512.3, "processes":[...]}
 *
 * index: NVML's. load: percent of the last second or less. processes: as in the facts (docs/DISTRIBUTED.md).
 * What the driver does not report is null. lost: the GPU has fallen off the bus.
 */
#ifndef AGENT_PROBE_GPU_LOAD_H
#define AGENT_PROBE_GPU_LOAD_H

#include <stdio.h>

struct err;

enum { GPU_LOAD_MS = 2000 };

/* Runs until the reader is gone: 0. -1: no driver, or no GPU responds. */
int gpu_load_print(FILE *out, struct err *err);

#endif
