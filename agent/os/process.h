/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - state and I/O counters of a process, from /proc */
#ifndef AGENT_OS_PROCESS_H
#define AGENT_OS_PROCESS_H

#include <stdint.h>

/* The state letter of /proc/PID/stat ('R', 'D', ...), or 0 when unreadable. */
char process_state(int64_t pid);

/* MiB read and written so far, from disk or not; 0 when unreadable. */
uint64_t process_io_mib(int64_t pid);

#endif
