/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.c - see reserve.h */
#include "controller/lifecycle/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "controller/base/home.h"
#include "controller/job/job_view.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

static void path_of(char path[PATH_MAX + 16], const struct home *h)
{
    snprintf(path, PATH_MAX + 16, "%s/reserve", h->path);
}

static bool is_full(const struct err *err)
{
    return err->errnum == ENOSPC || err->errnum == EDQUOT;
}

void reserve_keep(struct home *h)
{
    char path[PATH_MAX + 16];
    path_of(path, h);
    if (h->reserved || !home_is_here(h))
        return;
    const int fd = safe_open(path, O_WRONLY | O_CREAT, NULL);
    h->reserved = fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    if (!h->reserved)
        unlink(path);
    if (fd >= 0)
        close(fd);
}

bool reserve_use(struct home *h, const struct err *err)
{
    char path[PATH_MAX + 16];
    path_of(path, h);
    if (!is_full(err) || !home_is_here(h))
        return false;
    h->reserved = false;
    return unlink(path) == 0;
}

void reserve_full(char *out, size_t size, const struct home *h, int errnum)
{
    struct statvfs s;
    char bytes[32];
    const char *what = errnum == EDQUOT ? "has reached your quota; `quota` shows its bytes and files" : "is full";
    int n = snprintf(out, size, "the disk of %s %s", h->path, what);
    if (errnum == ENOSPC && n > 0 && (size_t)n < size && statvfs(h->path, &s) == 0) {
        job_view_bytes(bytes, sizeof(bytes), (int64_t)(s.f_bavail * s.f_frsize));
        const bool no_files = s.f_files > 0 && s.f_favail == 0;
        n += snprintf(out + n, size - (size_t)n, ": %s%s free", no_files ? "0 inodes (no room for another file) and " : "",
                      bytes);
    }
    if (n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, "; free some space, for example with \"jobctl prune --keep 100\"");
}

void reserve_explain(const struct home *h, struct err *err)
{
    char text[PATH_MAX + 120];
    if (!is_full(err))
        return;
    const struct err was = *err;
    reserve_full(text, sizeof(text), h, was.errnum);
    *err = (struct err){ .errnum = was.errnum };
    err_set(err, was.code, "%s, and try again", text);
}
