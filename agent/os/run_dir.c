/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.c - see run_dir.h */
#include "agent/os/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

static int join(char *out, size_t size, const char *dir, const char *name, struct err *err)
{
    int n = snprintf(out, size, "%s/%s", dir, name);
    return n > 0 && (size_t)n < size ? 0 : err_set(err, ERR_USAGE, "the path %s is too long", dir);
}

int run_dir_lock(const char *dir, struct err *err)
{
    char path[4096];
    if (join(path, sizeof(path), dir, RUN_DIR_LOCK, err) < 0)
        return -1;
    int fd = safe_open(path, O_RDWR | O_CREAT, err);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int code = errno;
        close(fd);
        errno = code;
        return code == EWOULDBLOCK
                   ? err_set(err, ERR_CONFLICT, "an agent is running in %s: it holds the lock", dir)
                   : file_system_lock_error(err, path, code);
    }
    return fd;
}

int run_dir_held(const char *dir)
{
    struct err err = {0};
    int lock = run_dir_lock(dir, &err);
    if (lock >= 0)
        close(lock);
    return lock >= 0 ? 0 : err.code == ERR_CONFLICT ? 1 : -1;
}

int run_dir_fence(const char *dir, const char *why, struct err *err)
{
    char path[4096];
    if (join(path, sizeof(path), dir, RUN_DIR_FENCED, err) < 0)
        return -1;
    int fd = safe_open(path, O_WRONLY | O_CREAT, err);
    if (fd < 0)
        return -1;
    if (why)
        (void)!write(fd, why, strlen(why)); /* the file's existence is the fence */
    close(fd);
    return 0;
}

void run_dir_fence_why(char *out, size_t size, const char *dir)
{
    char path[4096];
    out[0] = '\0';
    if (join(path, sizeof(path), dir, RUN_DIR_FENCED, NULL) < 0)
        return;
    FILE *f = safe_open_stream(path, NULL);
    out[f ? fread(out, 1, size - 1, f) : 0] = '\0';
    err_make_printable(out);
    if (f)
        fclose(f);
}

bool run_dir_fenced(const char *dir)
{
    char path[4096];
    return join(path, sizeof(path), dir, RUN_DIR_FENCED, NULL) == 0 && access(path, F_OK) == 0;
}

bool run_dir_notice(const char *dir, int64_t *left_ms)
{
    char path[4096];
    long long ms = 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_NOTICE, dir) >= sizeof(path))
        return false;
    FILE *f = safe_open_stream(path, NULL);
    if (!f)
        return false;
    bool known = fscanf(f, "%lld", &ms) == 1 && ms >= 0;
    fclose(f);
    *left_ms = ms;
    return known;
}
