/* SPDX-License-Identifier: Apache-2.0 */
/* home_lock.c - see home_lock.h */
#include "controller/daemon/home_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "agent/os/unix_socket.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

#define NAME "daemon.lock"
#define DAMAGED "damaged\n"

enum { TRIES = 500, PAUSE_MS = 20, HOLDER = 300 };

static int holder_write(int fd, const char *home, struct err *err)
{
    char host[256] = "", text[HOLDER];
    gethostname(host, sizeof(host) - 1);
    const int n = snprintf(text, sizeof(text), "%s %d\n", host, (int)getpid());
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n)
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot write %s/" NAME ": %m", home);
}

/* Who holds the lock, according to the file. */
struct holder {
    char host[256];
    int  pid;           /* 0: not known */
    bool here;
};

static struct holder holder_read(int fd)
{
    struct holder h = { .pid = 0 };
    char text[HOLDER] = "", own[256] = "";
    gethostname(own, sizeof(own) - 1);
    if (pread(fd, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "%255s %d", h.host, &h.pid) != 2)
        h.pid = 0;
    h.here = !h.pid || strcmp(h.host, own) == 0;
    return h;
}

static int held(const struct holder *h, const char *home, struct err *err)
{
    if (!h->pid)
        return err_set(err, ERR_SYSTEM, "another daemon holds %s/" NAME " but does not answer", home);
    if (h->here)
        return err_set(err, ERR_SYSTEM, "another daemon (pid %d) holds %s/" NAME " but does not "
                       "answer", h->pid, home);
    return err_set(err, ERR_SYSTEM, "the daemon of %s runs on host %s (pid %d): use jobctl there, "
                   "or set JOBCTL_HOME to a directory of this machine", home, h->host, h->pid);
}

static enum home_end end_before(int fd)
{
    char text[HOLDER + 16] = "";
    if (pread(fd, text, sizeof(text) - 1, 0) == 0)
        return HOME_CLEAN;
    return strstr(text, DAMAGED) ? HOME_DAMAGED : HOME_UNCLEAN;
}

static int take(int fd, enum home_end *before, const char *home, const char *path, const char *socket, struct err *err)
{
    struct holder h = { .here = true };
    for (int i = 0; i < TRIES && h.here; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            *before = end_before(fd);
            return holder_write(fd, home, err);
        }
        if (errno != EWOULDBLOCK)
            return file_system_lock_error(err, path, errno);
        int other = unix_socket_connect(socket, true, NULL);
        if (other >= 0) {
            close(other);
            return err_set(err, ERR_CONFLICT, "a daemon is already running for %s", home);
        }
        h = holder_read(fd);
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
    return held(&h, home, err);
}

int home_lock(enum home_end *before, const char *home, const char *socket, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" NAME, home);
    int fd = safe_open(path, O_RDWR | O_CREAT, err);
    if (fd < 0)
        return -1;
    if (take(fd, before, home, path, socket, err) == 0)
        return fd;
    close(fd);
    return -1;
}

void home_lock_leave(int lock, enum home_end how)
{
    const off_t end = how == HOME_DAMAGED ? lseek(lock, 0, SEEK_END) : 0;
    if ((how == HOME_CLEAN && ftruncate(lock, 0) < 0) ||
        (how == HOME_DAMAGED && pwrite(lock, DAMAGED, sizeof(DAMAGED) - 1, end) < 0))
        errno = 0;                  /* the next holder checks the store as after a crash */
    close(lock);
}
