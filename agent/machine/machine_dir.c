/* SPDX-License-Identifier: Apache-2.0 */
/* machine_dir.c - see machine_dir.h */
#include "agent/machine/machine_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "agent/os/process.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { CLAIM_BYTES = 64 * 1024 };

const char *machine_dir_user(char *out, size_t size, uid_t uid)
{
    char text[1024];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found)
        snprintf(out, size, "%s", found->pw_name);
    else
        snprintf(out, size, "user %lld", (long long)uid);
    return out;
}

/* ---- the directory ---- */

/* A directory in which one user can replace the files of another separates nobody. */
static int check(const char *path, struct err *err)
{
    struct stat st;
    char owner[64];
    if (lstat(path, &st) < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_CONFLICT, "no directory %s for the locks of all "
                       "users: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_CONFLICT, "%s is not a directory", path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err, ERR_CONFLICT, "%s belongs to %s, not to root", path,
                       machine_dir_user(owner, sizeof(owner), st.st_uid));
    if ((st.st_mode & 0022) && !(st.st_mode & S_ISVTX))
        return err_set(err, ERR_CONFLICT, "%s is not sticky: others could replace the locks in it", path);
    if (access(path, W_OK | X_OK) < 0)
        return err_set(err, ERR_CONFLICT, "%s cannot be written by this user", path);
    return 0;
}

int machine_dir_find(char out[MACHINE_DIR_PATH], struct err *err)
{
    const char *named = getenv("JOBCTL_MACHINE_DIR");
    const char *path = named && named[0] ? named : MACHINE_DIR_DEFAULT;
    out[0] = '\0';
    if (strcmp(path, "none") == 0)
        return err_set(err, ERR_NOT_FOUND, "JOBCTL_MACHINE_DIR is \"none\"");
    if (path[0] != '/' || strlen(path) > MACHINE_DIR_PATH - 2 * MACHINE_DIR_NAME)
        return err_set(err, ERR_CONFLICT, "JOBCTL_MACHINE_DIR is not an absolute path, or too long");
    if (geteuid() == 0 && path != named && mkdir(path, 0700) == 0 && chmod(path, 01777) < 0)
        return err_set_errno(err, errno, "cannot make %s", path);
    if (check(path, err) < 0)
        return -1;
    snprintf(out, MACHINE_DIR_PATH, "%s", path);
    return 0;
}

int machine_dir_own(char out[MACHINE_DIR_PATH], const char *state, struct err *err)
{
    out[0] = '\0';
    if (strlen(state) > MACHINE_DIR_PATH - 2 * MACHINE_DIR_NAME)
        return err_set(err, ERR_CONFLICT, "the path %s is too long for the locks of GPUs in it", state);
    snprintf(out, MACHINE_DIR_PATH, "%s/gpus", state);
    if (mkdir(out, 0700) < 0 && errno != EEXIST)
        return err_set_errno(err, errno, "cannot make %s", out);
    return check(out, err);
}

/* ---- files ---- */

static void path_of(char out[MACHINE_DIR_PATH], const char *dir, const char *name)
{
    snprintf(out, MACHINE_DIR_PATH, "%s/%s", dir, name);
}

static int allow(int fd, int64_t readers)
{
    if (readers < 0)
        return fchmod(fd, readers == MACHINE_DIR_ALL ? 0644 : 0600);
    return fchown(fd, (uid_t)-1, (gid_t)readers) < 0 ? -1 : fchmod(fd, 0640);
}

static int fill(int fd, const char *text, bool locked, int64_t readers)
{
    const size_t n = strlen(text);
    return write(fd, text, n) == (ssize_t)n && (!locked || flock(fd, LOCK_EX | LOCK_NB) == 0) ? allow(fd, readers) : -1;
}

int machine_dir_make(const char *dir, const char *name, const char *text, bool replace, bool locked, int64_t readers,
                     struct err *err)
{
    static atomic_uint count;
    char path[MACHINE_DIR_PATH], temporary[MACHINE_DIR_PATH], unique[64];
    snprintf(unique, sizeof(unique), "new-%lld-%ld-%u", (long long)geteuid(), (long)getpid(),
             atomic_fetch_add(&count, 1));
    path_of(path, dir, name);
    path_of(temporary, dir, unique);
    unlink(temporary); /* of an earlier process with this pid */
    int fd = safe_open(temporary, O_RDWR | O_CREAT | O_EXCL, err);
    if (fd < 0)
        return -1;
    int rc = fill(fd, text, locked, readers);
    if (rc == 0)
        rc = replace ? rename(temporary, path) : link(temporary, path);
    const int why = errno;
    if (rc < 0 || !replace)
        unlink(temporary);
    if (rc == 0)
        return fd;
    close(fd);
    err_set_errno(err, why, "cannot make %s", path);
    errno = why;
    return -1;
}

static int name_owner(const char *path, struct err *err)
{
    struct stat st;
    char owner[64];
    const int why = errno;
    const bool there = lstat(path, &st) == 0;
    err_set(err, ERR_CONFLICT, "the lock %s cannot be opened: %s%s%s", path,
            there && !S_ISREG(st.st_mode) ? "it is not a regular file" : strerror(why), there ? "; it belongs to " : "",
            there ? machine_dir_user(owner, sizeof(owner), st.st_uid) : "");
    return -1;
}

int machine_dir_open(const char *dir, const char *name, struct err *err)
{
    char path[MACHINE_DIR_PATH];
    struct err ignored = {0};
    path_of(path, dir, name);
    const int how = file_system_shared(dir) ? O_RDWR : O_RDONLY; /* NFS locks only what may be written */
    for (int tries = 0; tries < 3; tries++) {
        int fd = safe_open(path, how, NULL);
        if (fd >= 0)
            return fd;
        if (errno != ENOENT)
            return name_owner(path, err);
        fd = machine_dir_make(dir, name, "", false, false, MACHINE_DIR_ALL, &ignored);
        if (fd < 0 && errno != EEXIST)
            return err_set(err, ERR_SYSTEM, "%s", ignored.text);
        if (fd >= 0)
            close(fd); /* read-only from now on, as for everybody */
    }
    return name_owner(path, err);
}

json_t *machine_dir_read(const char *dir, const char *name, uid_t owner, struct stat *st)
{
    char path[MACHINE_DIR_PATH], text[CLAIM_BYTES];
    struct stat mine;
    path_of(path, dir, name);
    int fd = safe_open(path, O_RDONLY, NULL);
    if (fd < 0)
        return NULL;
    ssize_t n = fstat(fd, &mine) == 0 && (owner == (uid_t)-1 || mine.st_uid == owner) ? pread(fd, text, sizeof(text), 0)
                                                                                     : -1;
    close(fd);
    if (st)
        *st = mine;
    return n > 0 ? json_loadb(text, (size_t)n, JSON_DECODE_ANY, NULL) : NULL;
}

/* ---- changes ---- */

int machine_dir_watch(const char *dir)
{
    if (file_system_shared(dir))
        return -1; /* machine_dir_open() would look like a change */
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 || inotify_add_watch(fd, dir, IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE) >= 0)
        return fd;
    close(fd);
    return -1;
}

void machine_dir_watched(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof(events)) > 0)
        ;
}

/* ---- who has locked it ---- */

void machine_dir_locker(char *out, size_t size, const char *dir, const char *name)
{
    char path[MACHINE_DIR_PATH], line[160], program[64], user[64];
    struct stat st, who;
    long long pid = 0;
    path_of(path, dir, name);
    FILE *f = stat(path, &st) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (f && !pid && fgets(line, sizeof(line), f)) {
        unsigned major_, minor_;
        unsigned long long inode;
        long long holder;
        if (sscanf(line, "%*d: FLOCK %*s %*s %lld %x:%x:%llu", &holder, &major_, &minor_, &inode) == 4 &&
            makedev(major_, minor_) == st.st_dev && inode == (unsigned long long)st.st_ino)
            pid = holder;
    }
    if (f)
        fclose(f);
    snprintf(path, sizeof(path), "/proc/%lld", pid);
    if (pid <= 0 || stat(path, &who) < 0) {
        snprintf(out, size, "a program that is not a job of jobctl");
        return;
    }
    process_text(program, sizeof(program), pid, "comm");
    program[strcspn(program, "\n")] = '\0';
    snprintf(out, size, "process %lld%s%s%s of %s, not a job of jobctl", pid, program[0] ? " (" : "", program,
             program[0] ? ")" : "", machine_dir_user(user, sizeof(user), who.st_uid));
    err_make_printable(out);
}
