/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - see scratch.h */
#include "engine/base/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

struct writer {
    char               boot[40];
    unsigned long long pid_ns;
    int                pid;
    unsigned long long start; /* clock ticks after boot */
};

static int read_line(const char *path, char *text, size_t size)
{
    FILE *f = safe_open_stream(path, NULL);
    char *got = f ? fgets(text, (int)size, f) : NULL;
    if (f)
        fclose(f);
    if (!got)
        return -1;
    text[strcspn(text, "\n")] = '\0';
    return 0;
}

/* Field 22 of /proc/PID/stat; the command before it may contain spaces and parentheses. 0: no such
 * process, or one that has ended and was not waited for yet, and writes no more. */
static unsigned long long start_time(int pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (read_line(path, text, sizeof(text)) < 0)
        return 0;
    char *p = strrchr(text, ')');
    if (p && (strncmp(p, ") Z", 3) == 0 || strncmp(p, ") X", 3) == 0))
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static int writer_self(struct writer *w, struct err *err)
{
    struct stat st;
    if (read_line("/proc/sys/kernel/random/boot_id", w->boot, sizeof(w->boot)) < 0 ||
        stat("/proc/self/ns/pid", &st) < 0)
        return err_set_errno(err, errno, "cannot read this process's identity from /proc");
    w->pid_ns = st.st_ino;
    w->pid = (int)getpid();
    w->start = start_time(w->pid);
    return 0;
}

int scratch_name(char *tmp, const char *path, struct err *err)
{
    struct writer w;
    if (writer_self(&w, err) < 0)
        return -1;
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    int n = snprintf(tmp, SCRATCH_PATH, "%.*s.tmp-%s-%llu-%d-%llu-%s", dir, path, w.boot, w.pid_ns,
                     w.pid, w.start, path + dir);
    if (n >= SCRATCH_PATH || n - dir > NAME_MAX)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", path);
    return 0;
}

static bool writer_is_dead(const char *name, const struct writer *self)
{
    struct writer w;
    if (sscanf(name, ".tmp-%36[0-9a-f-]-%llu-%d-%llu-", w.boot, &w.pid_ns, &w.pid, &w.start) != 4)
        return false;
    if (strcmp(w.boot, self->boot) != 0 || w.pid_ns != self->pid_ns)
        return false;
    return start_time(w.pid) != w.start;
}

int scratch_sweep(const char *dir)
{
    struct writer self;
    DIR *d = opendir(dir);
    int removed = 0;
    if (d && writer_self(&self, NULL) == 0)
        for (struct dirent *e; (e = readdir(d));) {
            char path[SCRATCH_PATH];
            if (!writer_is_dead(e->d_name, &self))
                continue;
            if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
                removed += scratch_remove(path, NULL) == 0;
        }
    if (d)
        closedir(d);
    return removed;
}

/* Renamed first: its writer cannot publish it while it is removed. */
static bool take_away(const char *dir, const char *name, int n)
{
    char path[SCRATCH_PATH], aside[SCRATCH_PATH], tmp[SCRATCH_PATH];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
        snprintf(aside, sizeof(aside), "%s/fenced-%d", dir, n) >= (int)sizeof(aside) ||
        scratch_name(tmp, aside, NULL) < 0 || rename(path, tmp) < 0)
        return false;
    return scratch_remove(tmp, NULL) == 0;
}

int scratch_sweep_all(const char *dir)
{
    DIR *d = opendir(dir);
    int removed = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, ".tmp-", 5) == 0)
            removed += take_away(dir, e->d_name, removed);
    if (d)
        closedir(d);
    return removed;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

int scratch_remove(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0 && errno == ENOENT)
        return 0;
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
        return err_set_errno(err, errno, "cannot remove %s", path);
    return 0;
}

int scratch_mkdirs(const char *dir, struct err *err)
{
    char path[SCRATCH_PATH];
    if (snprintf(path, sizeof(path), "%s", dir) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char was = *p;
        *p = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return err_set_errno(err, errno, "cannot make the directory %s", path);
        *p = was;
        if (was == '\0')
            return 0;
    }
}

int scratch_sync_dir(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 ? fsync(fd) : -1;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return rc == 0 ? 0 : err_set_errno(err, why, "cannot sync the directory %s", dir);
}
