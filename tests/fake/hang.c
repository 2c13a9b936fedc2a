/* SPDX-License-Identifier: Apache-2.0 */
/* hang.c - a file system that no longer answers, by LD_PRELOAD
 *
 *   FAKE_HANG=TEXT:FILE          while FILE exists, each call below on a path with TEXT in it waits
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void wait_for_answer(const char *path)
{
    const char *rule = getenv("FAKE_HANG"), *colon = rule ? strrchr(rule, ':') : NULL;
    char text[256];
    if (!colon || !path)
        return;
    snprintf(text, sizeof(text), "%.*s", (int)(colon - rule), rule);
    while (strstr(path, text) && syscall(SYS_faccessat, AT_FDCWD, colon + 1, F_OK) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

#define WAITS(type, name, params, ...) \
    type name params                   \
    {                                  \
        wait_for_answer(path);         \
        return REAL(name)(__VA_ARGS__); \
    }

WAITS(int, access, (const char *path, int mode), path, mode)
WAITS(int, chdir, (const char *path), path)
WAITS(int, mkdir, (const char *path, mode_t mode), path, mode)
WAITS(int, rmdir, (const char *path), path)
WAITS(int, unlink, (const char *path), path)
WAITS(int, unlinkat, (int dir, const char *path, int flags), dir, path, flags)
WAITS(int, rename, (const char *path, const char *to), path, to)
WAITS(DIR *, opendir, (const char *path), path)
WAITS(FILE *, fopen, (const char *path, const char *mode), path, mode)
WAITS(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), fd, path, mask)
WAITS(ssize_t, readlink, (const char *path, char *out, size_t size), path, out, size)
WAITS(char *, realpath, (const char *path, char *out), path, out)
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33) /* functions of their own since then */
WAITS(int, stat, (const char *path, struct stat *st), path, st)
WAITS(int, lstat, (const char *path, struct stat *st), path, st)
WAITS(int, fstatat, (int dir, const char *path, struct stat *st, int flags), dir, path, st, flags)
#endif
#endif

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    wait_for_answer(path);
    return REAL(open)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    wait_for_answer(path);
    return REAL(openat)(dir, path, flags, mode);
}
