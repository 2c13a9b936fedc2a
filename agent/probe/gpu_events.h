/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_events.h - `jobctl-agent gpu-events UUID...`: prints GPU errors and counters of the driver
 *
 * NVML calls may block for minutes while a GPU falls off the bus, so this is a separate process that can be abandoned.
 * It prints one line of JSON per event:
 *
 *   {"uuid":"GPU-...", "pci":"0000:3b:00.0", "xid":79}
 *
 * and about once a second, for each GPU with such counters, the percentage of time in which it and its memory
 * controller are busy, and the traffic over PCIe and NVLink (measured only for a busy GPU with idle memory, because
 * measuring takes time; else 0); and "held" for each GPU on which a program computes:
 *
 *   {"uuid":"GPU-...", "busy":100, "memory":0, "link_kb_s":12}
 *   {"uuid":"GPU-...", "held":true}
 *
 * A MIG slice is requested and reported by its own UUID: events of its instance and of the whole
 * GPU. An uncorrectable memory error is reported as Xid 48, a GPU that no longer responds as Xid
 * 79.
 */
#ifndef AGENT_PROBE_GPU_EVENTS_H
#define AGENT_PROBE_GPU_EVENTS_H

#include <stdio.h>

struct err;

/* Runs until the reader is gone or no GPU is left: 0. -1: this driver reports no events. */
int gpu_events_print(FILE *out, char **uuids, int n, struct err *err);

#endif
