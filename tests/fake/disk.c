/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - a disk that is slow, fails or is full, and a machine with little memory, by LD_PRELOAD
 *
 *   FAKE_DISK_SLOW=TEXT:MS       fsync() of a path with TEXT in it takes so long
 *   FAKE_DISK_FAIL=TEXT:ERRNO    it fails
 *   FAKE_DISK_FULL=TEXT:FILE     while FILE exists, nothing can be created or written below a path with
 *                                TEXT in it: it fails with the error whose number is in FILE, or ENOSPC
 *   FAKE_MEMORY=KIB              what /proc/meminfo says is available
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The part after the last colon, if the path has the part before it in it; else NULL. */
static const char *rule_for(const char *variable, const char *path)
{
    const char *rule = getenv(variable), *colon = rule ? strrchr(rule, ':') : NULL;
    char text[256];
    if (!colon)
        return NULL;
    snprintf(text, sizeof(text), "%.*s", (int)(colon - rule), rule);
    return strstr(path, text) ? colon + 1 : NULL;
}

static const char *path_of(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

static int number_for(const char *variable, int fd)
{
    char path[4096];
    const char *number = rule_for(variable, path_of(fd, path));
    return number ? atoi(number) : -1;
}

/* 0: there is room; else sets errno to the error and returns it. */
static int full(const char *path)
{
    const char *file = rule_for("FAKE_DISK_FULL", path);
    char number[16] = "";
    const int fd = file ? REAL(open)(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    if (read(fd, number, sizeof(number) - 1) < 0)
        number[0] = '\0';
    close(fd);
    return errno = atoi(number) > 0 ? atoi(number) : ENOSPC;
}

static int full_fd(int fd)
{
    char path[4096];
    return getenv("FAKE_DISK_FULL") ? full(path_of(fd, path)) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    const int was = errno;
    if ((flags & O_CREAT) && access(path, F_OK) < 0 && full(path))
        return -1;
    errno = was;
    return REAL(open)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return access(path, F_OK) < 0 && full(path) ? -1 : REAL(mkdir)(path, mode);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    return full_fd(fd) ? -1 : REAL(write)(fd, data, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return full_fd(fd) ? -1 : REAL(pwrite)(fd, data, bytes, at);
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    const int why = full_fd(fd);
    return why ? why : REAL(posix_fallocate)(fd, at, bytes);
}

/* A quota says EDQUOT, and the disk itself has room. */
int statvfs(const char *path, struct statvfs *s)
{
    char below[4200];
    const int rc = REAL(statvfs)(path, s);
    snprintf(below, sizeof(below), "%s/.tmp-", path); /* where a checkpoint is written */
    if (rc == 0 && full(below) == ENOSPC)
        s->f_bavail = s->f_bfree = 4096 / s->f_frsize;
    return rc;
}

int fsync(int fd)
{
    const int ms = number_for("FAKE_DISK_SLOW", fd), failure = number_for("FAKE_DISK_FAIL", fd);
    if (ms > 0)
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
    if (failure > 0) {
        errno = failure;
        return -1;
    }
    return REAL(fsync)(fd);
}

FILE *fopen(const char *path, const char *mode)
{
    const char *kib = getenv("FAKE_MEMORY");
    if (mode[0] != 'r' && access(path, F_OK) < 0 && full(path))
        return NULL;
    if (!kib || strcmp(path, "/proc/meminfo") != 0)
        return REAL(fopen)(path, mode);
    FILE *f = tmpfile();
    if (f) {
        fprintf(f, "MemTotal: %s kB\nMemAvailable: %s kB\n", kib, kib);
        rewind(f);
    }
    return f;
}
