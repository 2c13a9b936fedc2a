/* SPDX-License-Identifier: Apache-2.0 */
/* container_process.c - see container_process.h */
#include "agent/container/container_process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/process.h"

enum { ENVIRON_MAX = 1024 * 1024, FOUND = 64 };

struct search {
    char mark[200];
    size_t n; /* of the mark, with its end */
    char *env;
};

static size_t read_environ(const struct search *s, pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    for (ssize_t n; fd >= 0 && size < ENVIRON_MAX && (n = read(fd, s->env + size, ENVIRON_MAX - size)) > 0;)
        size += (size_t)n;
    if (fd >= 0)
        close(fd);
    return size;
}

static bool has_mark(const struct search *s, pid_t pid)
{
    const size_t size = read_environ(s, pid);
    for (const char *p = s->env; p < s->env + size;) {
        const size_t n = strnlen(p, (size_t)(s->env + size - p));
        if (n + 1 == s->n && memcmp(p, s->mark, n) == 0)
            return true;
        p += n + 1;
    }
    return false;
}

/* Field 4 of /proc/PID/stat; 0: unreadable. */
static pid_t parent_of(pid_t pid)
{
    char text[512];
    int parent = 0;
    process_text(text, sizeof(text), pid, "stat");
    const char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Those that have the mark, in the order of /proc. */
static int look(const struct search *s, pid_t found[FOUND])
{
    int n = 0;
    struct stat st;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && n < FOUND && (e = readdir(proc));)
        if (isdigit((unsigned char)e->d_name[0]) && fstatat(dirfd(proc), e->d_name, &st, 0) == 0 &&
            st.st_uid == geteuid() && has_mark(s, atoi(e->d_name)))
            found[n++] = atoi(e->d_name);
    if (proc)
        closedir(proc);
    return n;
}

/* The one whose parent is not among them. */
static pid_t first_of(const pid_t *found, int n)
{
    for (int i = 0; i < n; i++) {
        const pid_t parent = parent_of(found[i]);
        bool inside = false;
        for (int k = 0; k < n; k++)
            inside = inside || found[k] == parent;
        if (!inside && parent > 0)
            return found[i];
    }
    return 0;
}

pid_t container_process_find(const char *name, int *pidfd)
{
    struct search s = {.env = malloc(ENVIRON_MAX)};
    pid_t found[FOUND], pid = 0;
    s.n = (size_t)snprintf(s.mark, sizeof(s.mark), CONTAINER_MARK "=%s", name) + 1;
    *pidfd = -1;
    if (s.env && s.n <= sizeof(s.mark))
        pid = first_of(found, look(&s, found));
    if (pid > 0)
        *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid > 0 && (*pidfd < 0 || !has_mark(&s, pid))) {
        if (*pidfd >= 0)
            close(*pidfd);
        *pidfd = -1;
        pid = 0;
    }
    free(s.env);
    return pid;
}
