/* SPDX-License-Identifier: Apache-2.0 */
/* oom.c - see oom.h */
#include "agent/probe/oom.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/cgroup.h"

/* The number after "key " at the start of a line, or -1. */
static int64_t read_key(const char *path, const char *key)
{
    char line[256];
    long long value = -1;
    size_t len = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && value < 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            sscanf(line + len, "%lld", &value);
    if (f)
        fclose(f);
    return value;
}

int64_t oom_kills(void)
{
    char group[1100], path[1200];
    cgroup_dir(group, sizeof(group));
    snprintf(path, sizeof(path), "%s/memory.events", group);
    int64_t n = group[0] ? read_key(path, "oom_kill") : -1;
    if (n < 0)
        n = read_key("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill");
    if (n < 0)
        n = read_key("/proc/vmstat", "oom_kill");
    return n;
}
