/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "agent/os/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of /proc/PID/NAME, "" when unreadable. */
static const char *slurp(char *out, size_t size, int64_t pid, const char *name)
{
    char path[40];
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
    const char *after = strrchr(slurp(text, sizeof(text), pid, "stat"), ')');
    return after && after[1] == ' ' ? after[2] : 0;
}

uint64_t process_caught(int64_t pid)
{
    static const char key[] = "\nSigCgt:";
    char text[4096];
    const char *at = strstr(slurp(text, sizeof(text), pid, "status"), key);
    return at ? strtoull(at + sizeof(key) - 1, NULL, 16) : 0;
}
