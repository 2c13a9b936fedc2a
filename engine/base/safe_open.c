/* SPDX-License-Identifier: Apache-2.0 */
/* safe_open.c - see safe_open.h */
#include "engine/base/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/err.h"

#ifndef SYS_openat2
#define SYS_openat2 437 /* glibc before 2.32 */
#endif

static const char *kind_of(mode_t mode)
{
    return S_ISLNK(mode) ? "symbolic link" : S_ISFIFO(mode) ? "FIFO" : S_ISSOCK(mode) ? "socket"
           : S_ISDIR(mode) ? "directory" : S_ISBLK(mode) || S_ISCHR(mode) ? "device" : "special file";
}

/* Why open(2) failed, or what it opened, in one sentence; errno as promised. */
static int refuse(const char *path, int flags, int why, struct err *err)
{
    struct stat st;
    const bool strange = (flags & O_NOFOLLOW ? lstat : stat)(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (strange)
        err_set(err, ERR_SYSTEM, "cannot open %s: it is a %s, not a regular file", path, kind_of(st.st_mode));
    else if (why == ENOENT)
        err_set(err, ERR_NOT_FOUND, "cannot open %s: %s", path, strerror(why));
    else
        err_set_errno(err, why, "cannot open %s", path);
    errno = !strange ? why : S_ISLNK(st.st_mode) ? ELOOP : EINVAL;
    return -1;
}

int safe_open_linked(const char *path, int flags, struct err *err)
{
    struct stat st;
    int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return refuse(path, flags, errno, err);
    const int why = fstat(fd, &st) < 0 ? errno : EINVAL;
    if (why == EINVAL && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return refuse(path, flags, why, err);
}

int safe_open(const char *path, int flags, struct err *err)
{
    return safe_open_linked(path, flags | O_NOFOLLOW, err);
}

/* Of kernels without openat2(2), and where a sandbox refuses it: no link, but maybe another file system. */
static int open_dir(int base, const char *name)
{
    const struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };
    const int fd = (int)syscall(SYS_openat2, base, name, &how, sizeof(how));
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? openat(base, name, (int)how.flags) : fd;
}

int safe_open_dir(const char *base, const char *name, struct err *err)
{
    const int at = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = at < 0 ? -1 : open_dir(at, name), why = errno;
    if (at >= 0)
        close(at);
    errno = why;
    if (fd >= 0)
        return fd;
    if (why == ENOENT)
        err_set(err, ERR_NOT_FOUND, "cannot open %s/%s: %s", base, name, strerror(why));
    else if (why == EXDEV)
        err_set(err, ERR_SYSTEM, "cannot open %s/%s: it is on another file system than %s", base, name, base);
    else
        err_set_errno(err, why, "cannot open %s/%s", base, name);
    errno = why;
    return -1;
}

int safe_open_in(int dir, const char *name, int flags, struct err *err)
{
    struct stat st;
    const int fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    const int why = fd < 0 ? errno : EINVAL;
    if (fd >= 0)
        close(fd);
    err_set(err, why == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "cannot open %s: %s", name,
            why == EINVAL ? "it is not a regular file" : strerror(why));
    errno = why;
    return -1;
}

FILE *safe_open_stream(const char *path, struct err *err)
{
    int fd = safe_open(path, O_RDONLY, err);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !f) {
        err_set(err, ERR_MEMORY, "no memory to read %s", path);
        close(fd);
    }
    return f;
}

json_t *safe_open_json(const char *path, size_t flags, struct err *err)
{
    json_error_t why;
    FILE *f = safe_open_stream(path, err);
    json_t *value = f ? json_loadf(f, flags, &why) : NULL;
    if (f && !value)
        err_set(err, ERR_DATA, "%s is not JSON: %s", path, why.text);
    if (f)
        fclose(f);
    return value;
}

bool safe_open_has(const char *path, const char *text)
{
    const size_t size = strlen(text);
    char *have = malloc(size + 1); /* a byte more, to see a longer file */
    const int fd = have ? safe_open(path, O_RDONLY, NULL) : -1;
    const bool same = fd >= 0 && read(fd, have, size + 1) == (ssize_t)size && memcmp(have, text, size) == 0;
    if (fd >= 0)
        close(fd);
    free(have);
    return same;
}
