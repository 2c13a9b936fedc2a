/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h - `jobctl-agent inspect PID...`: stacks, NCCL and GPU state of hung processes
 *
 * Prints native stacks (gdb, or py-spy for Python, if installed), the status from NCCL's RAS
 * service, and the GPUs. A separate process, because each of these may itself hang; output printed
 * before it is killed is kept.
 */
#ifndef AGENT_MONITOR_INSPECT_H
#define AGENT_MONITOR_INSPECT_H

#include <stdio.h>

struct err;

int inspect_print(FILE *out, const int *pids, int n, struct err *err);

/* Queries NCCL's RAS service at "HOST:PORT" (NULL: NCCL_RAS_ADDR or NCCL's default) and prints
 * its answer, waiting at most a second; -1: no answer. */
int inspect_ras(FILE *out, const char *address);

#endif
