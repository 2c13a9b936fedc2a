/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c - a home on a network file system, by LD_PRELOAD
 *
 *   FAKE_SHARED=TEXT    statfs() of a path with TEXT in it says NFS
 *                       flock() is exclusive there only on a descriptor for writing
 *   FAKE_NO_LOCKS=1     flock() and record locks answer ENOLCK, as NFS without a lock service does
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

static int without(void)
{
    errno = ENOLCK;
    return getenv("FAKE_NO_LOCKS") != NULL;
}

int statfs(const char *path, struct statfs *out)
{
    int (*real)(const char *, struct statfs *) = (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    const char *text = getenv("FAKE_SHARED");
    const int rc = real(path, out);
    if (rc == 0 && text && strstr(path, text))
        out->f_type = 0x6969;
    return rc;
}

/* Is it a file there that may only be read? */
static int is_read_only(int fd)
{
    const char *text = getenv("FAKE_SHARED");
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    return text && strstr(path, text) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

int flock(int fd, int operation)
{
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    if ((operation & LOCK_EX) && is_read_only(fd)) {
        errno = EBADF;
        return -1;
    }
    return without() ? -1 : real(fd, operation);
}

static int control(const char *name, int fd, int command, void *arg)
{
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    const int is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
    return is_lock && without() ? -1 : real(fd, command, arg);
}

int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return control("fcntl", fd, command, arg);
}

int fcntl64(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return control("fcntl64", fd, command, arg);
}
