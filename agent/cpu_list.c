/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.c - see cpu_list.h */
#include "agent/cpu_list.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One byte per processor: few, and looked at when a job starts. */
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

int cpu_list_part(char *out, size_t size, const char *list, int part, int parts)
{
    struct cpu_set set;
    parse(&set, list);
    int from = set.count * part / parts, to = set.count * (part + 1) / parts, at = 0;
    for (int i = 0; i < CPU_LIST_MOST; i++) {
        if (set.has[i]) {
            set.has[i] = at >= from && at < to;
            at++;
        }
    }
    set.count = to - from;
    return print(out, size, &set);
}

int cpu_list_bind(const char *list)
{
    struct cpu_set set;
    parse(&set, list);
    if (set.count == 0) {
        errno = EINVAL;
        return -1;
    }
    cpu_set_t *mask = CPU_ALLOC(CPU_LIST_MOST);
    size_t size = CPU_ALLOC_SIZE(CPU_LIST_MOST);
    if (!mask)
        return -1;
    CPU_ZERO_S(size, mask);
    for (int i = 0; i < CPU_LIST_MOST; i++)
        if (set.has[i])
            CPU_SET_S((size_t)i, size, mask);
    int rc = sched_setaffinity(0, size, mask);
    CPU_FREE(mask);
    return rc;
}
