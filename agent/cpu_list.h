/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.h - "0-3,8,10-11": processors as the kernel writes them */
#ifndef AGENT_CPU_LIST_H
#define AGENT_CPU_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum { CPU_LIST_MOST = 4096 };

/* How many are in it; 0 for "" and for what is no such list. */
int cpu_list_count(const char *list);

/* The processors of both lists; "" where there is none, or no room. Returns their count. */
int cpu_list_common(char *out, size_t size, const char *a, const char *b);

/* Part `part` of `parts` of a list, cut as evenly as it goes, in its order. Returns its count. */
int cpu_list_part(char *out, size_t size, const char *list, int part, int parts);

/* Restrict this thread, and what it starts, to them. 0 or -1 with errno. */
int cpu_list_bind(const char *list);

#endif
