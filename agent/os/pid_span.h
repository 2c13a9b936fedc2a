/* SPDX-License-Identifier: Apache-2.0 */
/* pid_span.h - the pids assigned since a given moment, so that a search need not read all of /proc
 *
 * The kernel assigns pids in ascending order, and starts again after the last one. The kernel counts all forks since
 * the boot, and the count shows whether pids can have wrapped around. Threads have pids and are counted, too. In a
 * container the count is that of the machine: too large, never too small.
 */
#ifndef AGENT_OS_PID_SPAN_H
#define AGENT_OS_PID_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct pid_span {
    int64_t last;  /* the newest pid then; -1: this kernel does not report it */
    int64_t forks; /* since the boot */
};

struct pid_span pid_span_now(void);

/* All processes forked after *then and before *now have after < pid <= *until. False: unknown, read all processes.
 * Pure. */
bool pid_span_between(const struct pid_span *then, const struct pid_span *now, int64_t pid_max, int64_t *after,
                      int64_t *until);

/* The same until this moment. */
bool pid_span_since(const struct pid_span *then, int64_t *after, int64_t *until);

#endif
