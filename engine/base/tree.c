/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - see tree.h */
#include "engine/base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Opens the directory; refuses links and other file systems than `dev`. */
static DIR *open_real(int at, const char *name, dev_t dev)
{
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dev ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d)
        close(fd);
    return d;
}

static int64_t bytes_of(int at, const char *name, dev_t dev, int depth)
{
    struct stat st;
    if (depth == 0 || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
        return 0;
    int64_t bytes = (int64_t)st.st_blocks * 512;
    DIR *d = S_ISDIR(st.st_mode) ? open_real(at, name, dev) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (!is_dots(e->d_name))
            bytes += bytes_of(dirfd(d), e->d_name, dev, depth - 1);
    if (d)
        closedir(d);
    return bytes;
}

int64_t tree_bytes(int at, const char *name)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return bytes_of(at, name, st.st_dev, TREE_DEPTH);
}

static int remove_from(int at, const char *name, dev_t dev, int depth, struct err *err)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_set(err, ERR_SYSTEM, "cannot remove %s: %m", name);
    DIR *d = depth > 0 ? open_real(at, name, dev) : NULL;
    struct dirent *e;
    int rc = 0, more;
    while ((more = dir_walk_next(&e, d, name, err)) > 0)
        if (remove_from(dirfd(d), e->d_name, dev, depth - 1, err) < 0)
            rc = -1;
    rc = more < 0 ? -1 : rc;
    if (d)
        closedir(d);
    if (rc == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = err_set(err, ERR_SYSTEM, "cannot remove %s: %m", name);
    return rc;
}

int tree_remove(int at, const char *name, struct err *err)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "cannot remove %s: %m", name);
    return remove_from(at, name, st.st_dev, TREE_DEPTH, err);
}
