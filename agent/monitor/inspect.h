/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h - `jobctl-agent inspect PID...`: what takes time to find out about processes that hang
 *
 * Native stacks (gdb, or py-spy for Python, where they are installed), the answer of NCCL's RAS
 * service, the GPUs.  A process of its own, for each of these may hang itself; what was
 * printed so far stays when it is killed.
 */
#ifndef AGENT_MONITOR_INSPECT_H
#define AGENT_MONITOR_INSPECT_H

#include <stdio.h>

struct err;

int inspect_print(FILE *out, const int *pids, int n, struct err *err);

/* Ask NCCL's RAS service at "HOST:PORT" (NULL: where NCCL_RAS_ADDR or NCCL puts it) and print what it
 * answers within a second; -1: nobody answers. */
int inspect_ras(FILE *out, const char *address);

#endif
