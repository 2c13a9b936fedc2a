/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_log.h - recent kernel messages about memory and GPUs
 *
 * Read from /dev/kmsg where permitted; containers often forbid it, and the result is then empty.
 */
#ifndef AGENT_OS_KERNEL_LOG_H
#define AGENT_OS_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* GPU lines (Xid, SXid) of the last 30 s and, with `memory`, lines of the out-of-memory killer;
 * "" = none. Valid until the next call. Never blocks. */
const char *kernel_log_recent(bool memory);

/* Is this record about memory or GPUs? Copies its text to `out`. now_us: since boot, as in the record. */
bool kernel_log_take(char *out, size_t size, const char *record, long long now_us, bool memory);

#endif
