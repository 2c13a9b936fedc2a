/* SPDX-License-Identifier: Apache-2.0 */
/* sysroot.c - see sysroot.h */
#include "agent/os/sysroot.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

static const char *root(void)
{
    const char *r = getenv("JOBCTL_SYSROOT");
    return r ? r : "";
}

bool sysroot_replayed(void)
{
    return root()[0] != '\0';
}

void sysroot_path(char *out, size_t size, const char *path)
{
    if ((size_t)snprintf(out, size, "%s%s", root(), path) >= size)
        out[0] = '\0';
}

bool sysroot_has(const char *path)
{
    char real[PATH_ROOM];
    sysroot_path(real, sizeof(real), path);
    return access(real, F_OK) == 0;
}

static FILE *open_file(const char *path)
{
    char real[PATH_ROOM];
    sysroot_path(real, sizeof(real), path);
    return fopen(real, "re");
}

const char *sysroot_line(char *out, size_t size, const char *path)
{
    FILE *f = open_file(path);
    if (!f || !fgets(out, (int)size, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
    return out;
}

const char *sysroot_value(char *out, size_t size, const char *path, const char *key)
{
    FILE *f = open_file(path);
    char line[4096];
    out[0] = '\0';
    while (f && !out[0] && fgets(line, sizeof(line), f)) {
        const char *rest = line + strlen(key);
        if (strncmp(line, key, strlen(key)) != 0 || !strchr(" \t:", *rest))
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", rest + strspn(rest, " \t:"));
    }
    if (f)
        fclose(f);
    return out;
}

int64_t sysroot_number(const char *path)
{
    char line[64], *end;
    sysroot_line(line, sizeof(line), path);
    long long v = strtoll(line, &end, 0);
    return end == line ? -1 : v;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void sysroot_each(const char *path, bool (*name)(void *arg, const char *name), void *arg)
{
    struct dirent **entries;
    char real[PATH_ROOM];
    sysroot_path(real, sizeof(real), path);
    int n = scandir(real, &entries, visible, versionsort);
    bool go_on = true;
    for (int i = 0; i < n; i++) {
        go_on = go_on && name(arg, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}
