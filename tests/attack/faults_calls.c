/* SPDX-License-Identifier: Apache-2.0 */
/* faults_calls.c - the calls of the C library that can fail on demand; see faults.h
 *
 * A call that fails does nothing.  EINTR and FAULT_SHORT apply only to calls for which POSIX allows them.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/attack/faults.h"

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A call on a path, on a path below a directory, or on a descriptor: -1 if it is hit. */
#define ON_PATH(kind, name, args, path, ...) \
    int name args \
    { \
        return faults_hit(kind, #name, AT_FDCWD, path) ? -1 : REAL(name)(__VA_ARGS__); \
    }
#define ON_PATH_AT(kind, name, args, dir, path, ...) \
    int name args \
    { \
        return faults_hit(kind, #name, dir, path) ? -1 : REAL(name)(__VA_ARGS__); \
    }
#define ON_FD(kind, name, args, fd, ...) \
    int name args \
    { \
        return faults_hit_fd(kind, #name, fd) ? -1 : REAL(name)(__VA_ARGS__); \
    }
#define ANYWHERE(kind, name, args, ...) \
    int name args \
    { \
        return faults_hit(kind, #name, AT_FDCWD, NULL) ? -1 : REAL(name)(__VA_ARGS__); \
    }

ON_FD(FAULT_SYNC, fsync, (int fd), fd, fd)
ON_FD(FAULT_SYNC, fdatasync, (int fd), fd, fd)

ON_PATH(FAULT_RENAME, rename, (const char *from, const char *to), to, from, to)
ON_PATH_AT(FAULT_RENAME, renameat, (int a, const char *from, int b, const char *to), b, to, a, from, b, to)
ON_PATH_AT(FAULT_RENAME, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), b, to, a,
           from, b, to, flags)
ON_PATH(FAULT_RENAME, link, (const char *from, const char *to), to, from, to)
ON_PATH_AT(FAULT_RENAME, linkat, (int a, const char *from, int b, const char *to, int flags), b, to, a, from, b,
           to, flags)
ON_PATH(FAULT_RENAME, symlink, (const char *text, const char *path), path, text, path)
ON_PATH_AT(FAULT_RENAME, symlinkat, (const char *text, int dir, const char *path), dir, path, text, dir, path)

ON_PATH(FAULT_CREATE, mkdir, (const char *path, mode_t mode), path, path, mode)
ON_PATH_AT(FAULT_CREATE, mkdirat, (int dir, const char *path, mode_t mode), dir, path, dir, path, mode)
ON_PATH(FAULT_CREATE, mkfifo, (const char *path, mode_t mode), path, path, mode)

ON_FD(FAULT_RESIZE, ftruncate, (int fd, off_t size), fd, fd, size)
ON_FD(FAULT_RESIZE, ftruncate64, (int fd, off64_t size), fd, fd, size)
ON_PATH(FAULT_RESIZE, truncate, (const char *path, off_t size), path, path, size)
ON_FD(FAULT_RESIZE, fallocate, (int fd, int mode, off_t at, off_t size), fd, fd, mode, at, size)

ON_PATH(FAULT_REMOVE, unlink, (const char *path), path, path)
ON_PATH_AT(FAULT_REMOVE, unlinkat, (int dir, const char *path, int flags), dir, path, dir, path, flags)
ON_PATH(FAULT_REMOVE, rmdir, (const char *path), path, path)
ON_PATH(FAULT_REMOVE, remove, (const char *path), path, path)

ON_PATH(FAULT_LOOK, stat, (const char *path, struct stat *s), path, path, s)
ON_PATH(FAULT_LOOK, lstat, (const char *path, struct stat *s), path, path, s)
ON_PATH(FAULT_LOOK, access, (const char *path, int mode), path, path, mode)
ON_PATH_AT(FAULT_LOOK, fstatat, (int dir, const char *path, struct stat *s, int flags), dir, path, dir, path, s, flags)
ON_PATH_AT(FAULT_LOOK, faccessat, (int dir, const char *path, int mode, int flags), dir, path, dir, path, mode, flags)
ON_FD(FAULT_LOOK, fstat, (int fd, struct stat *s), fd, fd, s)

struct dirent *readdir(DIR *dir)
{
    return faults_hit_fd(FAULT_LOOK, "readdir", dirfd(dir)) ? NULL : REAL(readdir)(dir);
}

ssize_t readlink(const char *path, char *out, size_t size)
{
    return faults_hit(FAULT_LOOK, "readlink", AT_FDCWD, path) ? -1 : REAL(readlink)(path, out, size);
}

ANYWHERE(FAULT_DESCRIPTOR, socket, (int domain, int type, int protocol), domain, type, protocol)
ANYWHERE(FAULT_DESCRIPTOR, socketpair, (int domain, int type, int protocol, int fds[2]), domain, type, protocol, fds)
ANYWHERE(FAULT_DESCRIPTOR, accept, (int fd, struct sockaddr *a, socklen_t *n), fd, a, n)
ANYWHERE(FAULT_DESCRIPTOR, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), fd, a, n, flags)
ANYWHERE(FAULT_DESCRIPTOR, pipe, (int fds[2]), fds)
ANYWHERE(FAULT_DESCRIPTOR, pipe2, (int fds[2], int flags), fds, flags)
ANYWHERE(FAULT_DESCRIPTOR, dup, (int fd), fd)
ANYWHERE(FAULT_DESCRIPTOR, epoll_create1, (int flags), flags)
ANYWHERE(FAULT_DESCRIPTOR, eventfd, (unsigned n, int flags), n, flags)
ANYWHERE(FAULT_DESCRIPTOR, memfd_create, (const char *name, unsigned flags), name, flags)
ANYWHERE(FAULT_PROCESS, fork, (void), )

/* These give the error instead of setting it. */
int posix_fallocate(int fd, off_t at, off_t size)
{
    return faults_hit_fd(FAULT_RESIZE, "posix_fallocate", fd) ? errno : REAL(posix_fallocate)(fd, at, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return faults_hit(FAULT_PROCESS, "pthread_create", AT_FDCWD, NULL) ? errno
                                                                       : REAL(pthread_create)(thread, attr, run, arg);
}

/* Of a short write or read the first half is done. */
#define PART(name, kind, type) \
    ssize_t name(int fd, type data, size_t bytes) \
    { \
        const bool hit = faults_hit_fd(kind, #name, fd); \
        return hit && !faults_short() ? -1 : REAL(name)(fd, data, hit ? (bytes + 1) / 2 : bytes); \
    }
#define PART_AT(name, kind, type) \
    ssize_t name(int fd, type data, size_t bytes, off64_t at) \
    { \
        const bool hit = faults_hit_fd(kind, #name, fd); \
        return hit && !faults_short() ? -1 : REAL(name)(fd, data, hit ? (bytes + 1) / 2 : bytes, at); \
    }
PART(write, FAULT_WRITE, const void *)
PART(read, FAULT_READ, void *)
PART_AT(pwrite, FAULT_WRITE, const void *)
PART_AT(pwrite64, FAULT_WRITE, const void *)
PART_AT(pread, FAULT_READ, void *)
PART_AT(pread64, FAULT_READ, void *)

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    const bool hit = faults_hit_fd(FAULT_WRITE, "writev", fd);
    return hit && !faults_short() ? -1 : REAL(writev)(fd, parts, hit ? (n + 1) / 2 : n);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    const bool hit = faults_hit_fd(FAULT_WRITE, "pwritev", fd);
    return hit && !faults_short() ? -1 : REAL(pwritev)(fd, parts, hit ? (n + 1) / 2 : n, at);
}

/* An open counts as a file that is made or found, and as one more descriptor. */
static bool open_hit(const char *call, int dir, const char *path, int flags)
{
    return faults_hit(flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? FAULT_CREATE : FAULT_OPEN, call, dir, path) ||
           faults_hit(FAULT_DESCRIPTOR, call, dir, path);
}
#define MODE(mode) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
        va_list ap; \
        va_start(ap, flags); \
        mode = va_arg(ap, mode_t); \
        va_end(ap); \
    }
#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        MODE(mode) \
        return open_hit(#name, AT_FDCWD, path, flags) ? -1 : REAL(name)(path, flags, mode); \
    }
#define OPEN_AT(name) \
    int name(int dir, const char *path, int flags, ...) \
    { \
        MODE(mode) \
        return open_hit(#name, dir, path, flags) ? -1 : REAL(name)(dir, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

/* What -D_FORTIFY_SOURCE makes of them in libraries. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
    return open_hit("open", AT_FDCWD, path, flags) ? -1 : REAL(open)(path, flags);
}
int __open64_2(const char *path, int flags)
{
    return open_hit("open64", AT_FDCWD, path, flags) ? -1 : REAL(open64)(path, flags);
}

#define OPEN_FILE(name) \
    FILE *name(const char *path, const char *mode) \
    { \
        return open_hit(#name, AT_FDCWD, path, mode[0] == 'r' ? 0 : O_CREAT) ? NULL : REAL(name)(path, mode); \
    }
OPEN_FILE(fopen)
OPEN_FILE(fopen64)

DIR *opendir(const char *path)
{
    return open_hit("opendir", AT_FDCWD, path, 0) ? NULL : REAL(opendir)(path);
}

/* What a stream still holds is lost when its last write fails. */
int fflush(FILE *f)
{
    const bool hit = f && faults_hit_fd(FAULT_WRITE, "fflush", fileno(f));
    return hit && !faults_short() ? -1 : REAL(fflush)(f);
}
