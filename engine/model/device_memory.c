/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.c - see device_memory.h */
#include "engine/model/device_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cgroup.h"
#include "engine/model/backend.h"
#include "kernels/kernels.h"

/* "MemAvailable:    123 kB" of /proc/meminfo, in bytes; 0 if missing. */
static int64_t meminfo(const char *key)
{
    char line[128];
    int64_t kib = 0;
    const size_t n = strlen(key);
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && !kib && fgets(line, sizeof(line), f))
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            sscanf(line + n + 1, "%" SCNd64, &kib);
    if (f)
        fclose(f);
    return kib << 10;
}

/* A number in a file of a control group; -1 if missing, or "max". */
static int64_t group_number(const char *dir, const char *file)
{
    char path[PATH_MAX];
    int64_t bytes = -1;
    snprintf(path, sizeof(path), "%.3000s/%s", dir, file);
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%" SCNd64, &bytes) != 1)
            bytes = -1;
        fclose(f);
    }
    return bytes;
}

/* The tightest limit of this control group and its parents. */
static void limit_by_groups(struct device_memory *r)
{
    char dir[PATH_MAX];
    cgroup_dir(dir, sizeof(dir));
    while (strlen(dir) >= strlen("/sys/fs/cgroup")) {
        const int64_t limit = group_number(dir, "memory.max");
        const int64_t used = group_number(dir, "memory.current");
        if (limit > 0 && used >= 0) {
            const int64_t left = limit > used ? limit - used : 0;
            r->total = limit < r->total ? limit : r->total;
            r->free = left < r->free ? left : r->free;
        }
        *strrchr(dir, '/') = '\0';
    }
}

struct device_memory device_memory_host(void)
{
    struct device_memory r = {meminfo("MemAvailable"), meminfo("MemTotal")};
    limit_by_groups(&r);
    return r;
}

struct device_memory device_memory(void)
{
    const struct kern_ops *ops = backend_ops();
    const int sharers = backend_sharers();
    size_t left, all;
    if (ops->host)
        return device_memory_host();
    if (ops->free_memory(&left, &all))
        return (struct device_memory){(int64_t)left / sharers, (int64_t)all / sharers};
    return (struct device_memory){0, 0};
}

int64_t device_memory_most(void)
{
    const struct device_memory r = device_memory();
    return backend_ops()->host && r.total > 0 ? r.total + meminfo("SwapTotal") : r.total;
}
