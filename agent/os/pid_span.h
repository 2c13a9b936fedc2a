/* SPDX-License-Identifier: Apache-2.0 */
/* pid_span.h - the pids assigned since a given moment, so that a search need not read all of /proc
 *
 * The kernel assigns pids in ascending order, and wraps around after the last one. It counts all forks since boot,
 * which shows whether pids can have wrapped around. Threads have pids and are counted, too. In a container the count is
 * the machine's: too large, never too small.
 */
#ifndef AGENT_OS_PID_SPAN_H
#define AGENT_OS_PID_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct pid_span {
    int64_t last;  /* the newest pid at that moment; -1: this kernel does not report it */
    int64_t forks; /* since boot */
};

struct pid_span pid_span_now(void);

/* All processes forked after *then and before *now have after < pid <= *until. False: unknown, read all processes.
 * Pure. */
bool pid_span_between(const struct pid_span *then, const struct pid_span *now, int64_t pid_max, int64_t *after,
                      int64_t *until);

/* The same until this moment. */
bool pid_span_since(const struct pid_span *then, int64_t *after, int64_t *until);

#endif
