/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_events.h - `jobctl-agent gpu-events UUID...`: what the driver tells of these GPUs, as it happens
 *
 * Waits in NVML, which may block for minutes while a GPU falls off the bus: a process of its own,
 * that can be abandoned.  A line of JSON for each event:
 *
 *   {"uuid":"GPU-...", "pci":"0000:3b:00.0", "xid":79}
 *
 * Of a slice of a divided GPU its own UUID is asked for and told: what concerns its instance, or the whole
 * GPU.  An uncorrectable memory error is told as Xid 48, a GPU that no longer answers as Xid 79.
 */
#ifndef AGENT_PROBE_GPU_EVENTS_H
#define AGENT_PROBE_GPU_EVENTS_H

#include <stdio.h>

struct err;

/* Until nobody reads any more, or no GPU is left to tell of: 0. -1: this driver tells of none. */
int gpu_events_print(FILE *out, char **uuids, int n, struct err *err);

#endif
