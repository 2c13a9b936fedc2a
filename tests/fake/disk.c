/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - a disk that is slow or fails, and a machine with little memory, by LD_PRELOAD
 *
 *   FAKE_DISK_SLOW=TEXT:MS       fsync() of a path with TEXT in it takes so long
 *   FAKE_DISK_FAIL=TEXT:ERRNO    it fails
 *   FAKE_MEMORY=KIB              what /proc/meminfo says is available
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The number of TEXT:NUMBER where fd's path has the text in it; else -1. */
static int number_for(const char *variable, int fd)
{
    const char *rule = getenv(variable), *colon = rule ? strrchr(rule, ':') : NULL;
    char link[64], path[4096], text[256];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (!colon || n < 0)
        return -1;
    path[n] = '\0';
    snprintf(text, sizeof(text), "%.*s", (int)(colon - rule), rule);
    return strstr(path, text) ? atoi(colon + 1) : -1;
}

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const int ms = number_for("FAKE_DISK_SLOW", fd), failure = number_for("FAKE_DISK_FAIL", fd);
    if (ms > 0)
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
    if (failure > 0) {
        errno = failure;
        return -1;
    }
    return real(fd);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    const char *kib = getenv("FAKE_MEMORY");
    if (!kib || strcmp(path, "/proc/meminfo") != 0)
        return real(path, mode);
    FILE *f = tmpfile();
    if (f) {
        fprintf(f, "MemTotal: %s kB\nMemAvailable: %s kB\n", kib, kib);
        rewind(f);
    }
    return f;
}
