/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "agent/os/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *process_text(char *out, size_t size, int64_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

char process_state(int64_t pid)
{
    char text[512];
    /* the name in parentheses may hold any character */
    const char *after = strrchr(process_text(text, sizeof(text), pid, "stat"), ')');
    return after && after[1] == ' ' ? after[2] : 0;
}

uint64_t process_caught(int64_t pid)
{
    static const char key[] = "\nSigCgt:";
    char text[4096];
    const char *at = strstr(process_text(text, sizeof(text), pid, "status"), key);
    return at ? strtoull(at + sizeof(key) - 1, NULL, 16) : 0;
}

void process_program(char *out, size_t size, int64_t pid)
{
    static const char deleted[] = " (deleted)";
    char path[64], exe[4096];
    snprintf(path, sizeof(path), "/proc/%lld/exe", (long long)pid);
    const ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = '\0';
    char *end = strstr(exe, deleted);
    if (end)
        *end = '\0';
    const char *base = strrchr(exe, '/');
    snprintf(out, size, "%.*s", (int)size - 1, base ? base + 1 : exe);
}

bool process_variable(char *out, size_t size, int64_t pid, const char *name)
{
    char path[64], *entry = NULL;
    const size_t n = strlen(name);
    size_t room = 0;
    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%lld/environ", (long long)pid);
    FILE *f = fopen(path, "re");
    while (f && !out[0] && getdelim(&entry, &room, '\0', f) > 0)
        if (strncmp(entry, name, n) == 0 && entry[n] == '=')
            snprintf(out, size, "%s", entry + n + 1);
    free(entry);
    if (f)
        fclose(f);
    return out[0];
}
