/* SPDX-License-Identifier: Apache-2.0 */
/* encode_lock.c - see encode_lock.h */
#include "engine/encode/encode_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/fence.h"
#include "engine/contract/json_file.h"
#include "engine/contract/json_make.h"
#include "engine/contract/safe_open.h"

static void sign(int fd)
{
    char host[256] = "";
    const char *job = getenv("JOBCTL_JOB_ID"), *name = getenv("JOBCTL_JOB_NAME");
    gethostname(host, sizeof(host) - 1);
    json_t *who = json_make("{s:I, s:s, s:s, s:i}", "job", (json_int_t)(job ? strtoll(job, NULL, 10) : 0), "name",
                            name ? name : "", "host", host, "pid", (int)getpid());
    if (ftruncate(fd, 0) == 0)
        json_file_put(who, fd, JSON_COMPACT); /* without it, waiters know less */
    json_decref(who);
}

int encode_lock_take(int *fd, char *holder, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/lock", dir);
    *fd = safe_open(path, O_RDWR | O_CREAT, err);
    if (*fd < 0)
        return -1;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        sign(*fd);
        return 0;
    }
    close(*fd);
    *fd = -1;
    json_t *who = safe_open_json(path, 0, NULL);
    if (who)
        fence_holder(holder, ENCODE_HOLDER, who);
    else
        snprintf(holder, ENCODE_HOLDER, "another job");
    json_decref(who);
    return 0;
}

void encode_lock_release(int fd)
{
    if (fd >= 0)
        close(fd);
}
