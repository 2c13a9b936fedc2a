/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - what /proc says of a process that is looked at */
#ifndef AGENT_OS_PROCESS_H
#define AGENT_OS_PROCESS_H

#include <stdint.h>

/* The letter of /proc/PID/stat ('R', 'D', ...), 0 when it cannot be read. */
char process_state(int64_t pid);

/* All that it has read and written, from disk or not, in MiB; 0 when it cannot be told. */
uint64_t process_io_mib(int64_t pid);

#endif
