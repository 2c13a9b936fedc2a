/* SPDX-License-Identifier: Apache-2.0 */
/* oom.h - has the kernel's out-of-memory killer been at work?
 *
 * A process that it ends looks like any SIGKILL.  The counter of our control
 * group, or of the machine where there is none, tells them apart: read it
 * before and after.
 */
#ifndef AGENT_PROBE_OOM_H
#define AGENT_PROBE_OOM_H

#include <stdint.h>

/* Kills so far, or -1 where nothing counts them. */
int64_t oom_kills(void);

#endif
