/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.c - see cpu_list.h */
#include "agent/os/cpu_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One byte per CPU: there are few, and lists are read only when a job starts. */
struct cpu_set {
    bool has[CPU_LIST_MOST];
    int  count;
};

static void parse(struct cpu_set *out, const char *list)
{
    *out = (struct cpu_set){.count = 0};
    for (const char *p = list; *p;) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (end != p && *end == '-')
            last = strtol(p = end + 1, &end, 10);
        if (end == p || first < 0 || last < first || last >= CPU_LIST_MOST || !strchr(",\n", *end)) {
            *out = (struct cpu_set){.count = 0};
            return;
        }
        for (long i = first; i <= last; i++) {
            out->count += !out->has[i];
            out->has[i] = true;
        }
        p = *end ? end + 1 : end;
    }
}

static int print(char *out, size_t size, const struct cpu_set *set)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < CPU_LIST_MOST; i++) {
        int first = i;
        if (!set->has[i])
            continue;
        while (i + 1 < CPU_LIST_MOST && set->has[i + 1])
            i++;
        int n = i > first
                    ? snprintf(out + used, size - used, "%s%d-%d", used ? "," : "", first, i)
                    : snprintf(out + used, size - used, "%s%d", used ? "," : "", first);
        used += (size_t)n;
        if (used >= size) {
            out[0] = '\0';
            return 0;
        }
    }
    return set->count;
}

int cpu_list_count(const char *list)
{
    struct cpu_set set;
    parse(&set, list);
    return set.count;
}

int cpu_list_common(char *out, size_t size, const char *a, const char *b)
{
    struct cpu_set left, right;
    parse(&left, a);
    parse(&right, b);
    left.count = 0;
    for (int i = 0; i < CPU_LIST_MOST; i++)
        left.count += left.has[i] = left.has[i] && right.has[i];
    return print(out, size, &left);
}

const cpu_set_t *cpu_list_mask(unsigned char *bytes, const char *list)
{
    struct cpu_set set;
    cpu_set_t *mask = (cpu_set_t *)(void *)bytes;
    parse(&set, list);
    CPU_ZERO_S(CPU_LIST_BYTES, mask);
    for (size_t i = 0; i < CPU_LIST_MOST; i++)
        if (set.has[i])
            CPU_SET_S(i, CPU_LIST_BYTES, mask);
    return set.count > 0 ? mask : NULL;
}
