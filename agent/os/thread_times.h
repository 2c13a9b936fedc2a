/* SPDX-License-Identifier: Apache-2.0 */
/* thread_times.h - CPU time, context switches and state of one thread
 *
 * /proc/PID/task/TID/schedstat counts in nanoseconds. A kernel without it, such as gVisor's, offers ticks of 10 ms
 * instead; context switches are unknown if the status file lacks them.
 */
#ifndef AGENT_OS_THREAD_TIMES_H
#define AGENT_OS_THREAD_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct thread_times {
    uint64_t cpu_ns;
    int64_t  waits; /* voluntary context switches; -1: not known */
    bool     ticks; /* cpu_ns counts whole ticks */
    char     state; /* as in agent/os/process.h */
};

/* False: the thread has ended. */
bool thread_times_read(struct thread_times *out, int64_t pid, int64_t tid);

/* Parses the texts of its files, "" where the kernel has none; hz: ticks per second. */
bool thread_times_parse(struct thread_times *out, const char *schedstat, const char *status, const char *stat, long hz);

#endif
