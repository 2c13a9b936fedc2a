/* SPDX-License-Identifier: Apache-2.0 */
/* safe_open.c - see safe_open.h */
#include "engine/contract/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/err.h"

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
