/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.c - see unix_socket.h */
#include "agent/os/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/err.h"

/* An address for `path`. *dir gets -1, or the directory the address goes through: keep it open
 * until the address has been used. */
static int make_address(struct sockaddr_un *addr, int *dir, const char *path, struct err *err)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir = -1;
    size_t len = strlen(path);
    if (len > 0 && len < sizeof(addr->sun_path)) {
        memcpy(addr->sun_path, path, len + 1);
        return 0;
    }
    const char *slash = strrchr(path, '/');
    char parent[4096];
    if (!slash || slash == path || (size_t)(slash - path) >= sizeof(parent))
        return err_set(err, ERR_USAGE, "'%s' is not a valid socket path", path);
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM,
                       "cannot open the directory '%s': %s", parent, strerror(errno));
    int n = snprintf(addr->sun_path, sizeof(addr->sun_path), "/proc/self/fd/%d/%s", *dir, slash + 1);
    if (n < 0 || (size_t)n >= sizeof(addr->sun_path)) {
        close(*dir);
        *dir = -1;
        return err_set(err, ERR_USAGE, "'%s': socket names are limited to 80 bytes", path);
    }
    return 0;
}

static int connect_to(const struct sockaddr_un *addr, int flags)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return -1;
    int rc;
    do
        rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        int keep = errno;
        close(fd);
        errno = keep;
        return -1;
    }
    return fd;
}

int unix_socket_connect(const char *path, bool nonblocking, struct err *err)
{
    struct sockaddr_un addr;
    int dir;
    if (make_address(&addr, &dir, path, err) < 0)
        return -1;
    int fd = connect_to(&addr, nonblocking ? SOCK_NONBLOCK : 0);
    if (fd < 0)
        err_set(err, errno == ENOENT || errno == ECONNREFUSED ? ERR_NOT_FOUND : ERR_SYSTEM,
                "cannot connect to '%s': %s", path, strerror(errno));
    if (dir >= 0)
        close(dir);
    return fd;
}

/* Removes the socket file of a dead listener. */
static int remove_stale(const struct sockaddr_un *addr, const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return err_set(err, ERR_CONFLICT, "'%s' exists and is not a socket; remove it", path);
    int fd = connect_to(addr, SOCK_NONBLOCK);
    if (fd >= 0 || errno == EAGAIN) {
        if (fd >= 0)
            close(fd);
        return err_set(err, ERR_CONFLICT, "another process listens at '%s'", path);
    }
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set(err, ERR_SYSTEM, "cannot remove the stale socket '%s': %s", path, strerror(errno));
    return 0;
}

int unix_socket_listen(const char *path, struct err *err)
{
    struct sockaddr_un addr;
    int dir, fd = -1, rc = -1;
    if (make_address(&addr, &dir, path, err) < 0)
        return -1;

    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The file takes the mode of the unbound socket, so other users never have access. */
    if (fd < 0 || fchmod(fd, 0600) < 0) {
        err_set(err, ERR_SYSTEM, "cannot make a socket: %s", strerror(errno));
        goto out;
    }
    rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    if (rc < 0 && errno == EADDRINUSE) {
        if (remove_stale(&addr, path, err) < 0)
            goto out;
        rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    }
    if (rc < 0 || listen(fd, 128) < 0) {
        rc = -1;
        err_set(err, ERR_SYSTEM, "cannot listen at '%s': %s", path, strerror(errno));
    }
out:
    if (dir >= 0)
        close(dir);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? -1 : fd;
}

int unix_socket_check_peer(int fd, struct err *err)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read the peer's credentials: %s", strerror(errno));
    if (who.uid != geteuid() && who.uid != 0)
        return err_set(err, ERR_CONFLICT, "user %u may not connect to a process of user %u",
                       (unsigned)who.uid, (unsigned)geteuid());
    return 0;
}

int64_t unix_socket_peer(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 ? 0 : who.pid;
}
