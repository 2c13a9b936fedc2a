/* SPDX-License-Identifier: Apache-2.0 */
/* oom.h - count of the kernel's out-of-memory kills
 *
 * A process killed by the OOM killer looks like any SIGKILL. The counter of the process's cgroup, or else the
 * machine's, distinguishes them: read it before and after.
 */
#ifndef AGENT_PROBE_OOM_H
#define AGENT_PROBE_OOM_H

#include <stdint.h>

/* Kills so far, or -1 if there is no counter. */
int64_t oom_kills(void);

#endif
