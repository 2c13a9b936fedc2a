/* SPDX-License-Identifier: Apache-2.0 */
/* next_id.c - see next_id.h */
#include "controller/lifecycle/next_id.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

int64_t next_id_read(const char *home)
{
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof(path), "%.4000s/next-id", home);
    const int fd = safe_open(path, O_RDONLY, NULL);
    const int64_t id = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? strtoll(text, NULL, 10) : 1;
    if (fd >= 0)
        close(fd);
    return id > 0 && id < INT64_MAX ? id : 1;
}

int next_id_keep(const char *home, int64_t id, struct err *err)
{
    char path[PATH_MAX], beside[PATH_MAX + 8], text[32];
    if (next_id_read(home) >= id)
        return 0;
    snprintf(path, sizeof(path), "%.4000s/next-id", home);
    snprintf(beside, sizeof(beside), "%s.new", path);
    const int n = snprintf(text, sizeof(text), "%lld\n", (long long)id);
    const int fd = safe_open(beside, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && write_all(fd, text, (size_t)n) == 0 ? rename(beside, path) : -1;
    if (rc < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    if (fd >= 0)
        close(fd);
    return rc;
}
