/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.h - CPU lists in the kernel's format: "0-3,8,10-11" */
#ifndef AGENT_OS_CPU_LIST_H
#define AGENT_OS_CPU_LIST_H

#include <sched.h>
#include <stddef.h>

enum { CPU_LIST_MOST = 4096, CPU_LIST_BYTES = CPU_LIST_MOST / 8 };

/* The number of CPUs in the list; 0 for "" and for an invalid list. */
int cpu_list_count(const char *list);

/* The CPUs in both lists; "" if there are none, or `out` is too small. Returns their count. */
int cpu_list_common(char *out, size_t size, const char *a, const char *b);

/* The list as a CPU mask for sched_setaffinity(): fills `bytes` and returns it, or NULL for an
 * empty list. `bytes` has CPU_LIST_BYTES bytes, aligned for cpu_set_t. */
const cpu_set_t *cpu_list_mask(unsigned char *bytes, const char *list);

#endif
