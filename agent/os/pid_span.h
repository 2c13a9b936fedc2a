/* SPDX-License-Identifier: Apache-2.0 */
/* pid_span.h - the pids that were given out since a moment, so that nobody has to look at all processes
 *
 * The kernel gives out pids in ascending order, and begins again at its end.  It counts all forks since the boot, so a
 * count tells whether it can have come around.  Threads have pids and are counted, too.  In a container the count is
 * that of the machine: too large, never too small.
 */
#ifndef AGENT_OS_PID_SPAN_H
#define AGENT_OS_PID_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct pid_span {
    int64_t last;  /* the newest pid then; -1: this kernel does not tell */
    int64_t forks; /* since the boot */
};

struct pid_span pid_span_now(void);

/* All processes forked after *then and before *now have after < pid <= *until. False: unknown, look at all. Pure. */
bool pid_span_between(const struct pid_span *then, const struct pid_span *now, int64_t pid_max, int64_t *after,
                      int64_t *until);

/* The same until this moment. */
bool pid_span_since(const struct pid_span *then, int64_t *after, int64_t *until);

#endif
