/* SPDX-License-Identifier: Apache-2.0 */
/* dir_identity.c - see dir_identity.h */
#include "engine/base/dir_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"

enum { LOOKS = 2 };

int dir_identity_open(struct dir_identity *d, const char *path, struct err *err)
{
    struct stat st;
    *d = DIR_IDENTITY_NONE;
    const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_set_errno(err, errno, "cannot open the directory %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *d = (struct dir_identity){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

void dir_identity_close(struct dir_identity *d)
{
    if (d->fd >= 0)
        close(d->fd);
    *d = DIR_IDENTITY_NONE;
}

bool dir_identity_here(const struct dir_identity *d, const char *path)
{
    struct stat there, own;
    if (stat(path, &there) < 0)
        return errno != ENOENT && errno != ENOTDIR;
    if (there.st_dev == d->dev && there.st_ino == d->ino)
        return true;
    return fstat(d->fd, &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

bool dir_identity_gone(struct dir_identity *d, const char *path)
{
    d->misses = dir_identity_here(d, path) ? 0 : d->misses + 1;
    return d->misses >= LOOKS;
}

int dir_identity_path(char *out, size_t size, const struct dir_identity *d)
{
    char link[40];
    struct stat there;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", d->fd);
    const ssize_t n = readlink(link, out, size - 1);
    if (n <= 0 || (size_t)n >= size - 1)
        return -1;
    out[n] = '\0';
    /* The kernel appends " (deleted)", which may also be part of a name. */
    return stat(out, &there) == 0 && dir_identity_here(d, out) ? 0 : -1;
}

void dir_identity_text(char *out, size_t size, const struct dir_identity *d, const char *path)
{
    char now[PATH_MAX];
    const bool known = dir_identity_path(now, sizeof(now), d) == 0;
    const char *what = access(path, F_OK) == 0 ? ", and another one is in its place" : "";
    if (known)
        snprintf(out, size, "was moved to %s%s", now, what);
    else
        snprintf(out, size, "was removed%s", what);
    err_make_printable(out);
}
