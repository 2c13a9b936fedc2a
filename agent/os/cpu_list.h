/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.h - "0-3,8,10-11": processors as the kernel writes them */
#ifndef AGENT_OS_CPU_LIST_H
#define AGENT_OS_CPU_LIST_H

#include <sched.h>
#include <stddef.h>

enum { CPU_LIST_MOST = 4096, CPU_LIST_BYTES = CPU_LIST_MOST / 8 };

/* How many are in it; 0 for "" and for what is no such list. */
int cpu_list_count(const char *list);

/* The processors of both lists; "" where there is none, or no room. Returns their count. */
int cpu_list_common(char *out, size_t size, const char *a, const char *b);

/* For sched_setaffinity(): `bytes` filled and given back as what it wants, or NULL for a list that
 * has none. CPU_LIST_BYTES of them, aligned for cpu_set_t. */
const cpu_set_t *cpu_list_mask(unsigned char *bytes, const char *list);

#endif
