/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_log.h - what the kernel has lately said about memory and GPUs
 *
 * From /dev/kmsg, where that may be read (containers often may not: then it says nothing).
 */
#ifndef AGENT_OS_KERNEL_LOG_H
#define AGENT_OS_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* The lines of the last half minute about a GPU (Xid, SXid), and, with `memory`, about its
 * out-of-memory killer; valid until the next call, "" = none.  Never blocks. */
const char *kernel_log_recent(bool memory);

/* Is this record one of those?  Puts its text into out.  now_us: since boot, as in the record. */
bool kernel_log_take(char *out, size_t size, const char *record, long long now_us, bool memory);

#endif
