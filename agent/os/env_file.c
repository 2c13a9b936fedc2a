/* SPDX-License-Identifier: Apache-2.0 */
/* env_file.c - see env_file.h */
#include "agent/os/env_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

int env_file_put(struct buf *entries, const char *name, const char *value)
{
    if ((value ? buf_print(entries, "%s=%s", name, value) : buf_print(entries, "%s", name)) < 0)
        return -1;
    return buf_append(entries, "", 1);
}

int env_file_write(const char *dir, const char *name, const struct buf *entries, struct err *err)
{
    char path[PATH_MAX], beside[PATH_MAX + 8];
    snprintf(path, sizeof(path), "%.3900s/%s", dir, name);
    snprintf(beside, sizeof(beside), "%s.new", path);
    const int fd = safe_open(beside, O_WRONLY | O_CREAT | O_TRUNC, err);
    if (fd < 0)
        return -1;
    const int rc = write_all(fd, entries->data, entries->size) == 0 && rename(beside, path) == 0 ? 0 : -1;
    const int why = errno;
    close(fd);
    if (rc < 0)
        unlink(beside);
    return rc == 0 ? 0 : err_set_errno(err, why, "cannot write %s", path);
}

static int read_all(int fd, struct buf *b)
{
    char piece[16384];
    ssize_t n;
    while ((n = read(fd, piece, sizeof(piece))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || buf_append(b, piece, (size_t)n) < 0)
            return -1;
    }
    return 0;
}

int env_file_read(struct buf *entries, const char *dir, const char *name, struct err *err)
{
    char path[PATH_MAX];
    const size_t before = entries->size;
    snprintf(path, sizeof(path), "%.3900s/%s", dir, name);
    const int fd = safe_open(path, O_RDONLY, err);
    if (fd < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "%s does not exist", path) : -1;
    const int rc = read_all(fd, entries);
    const int why = errno;
    close(fd);
    if (rc < 0)
        return err_set_errno(err, why, "cannot read %s", path);
    if (entries->size > before && entries->data[entries->size - 1] != '\0')
        return err_set(err, ERR_DATA, "%s is truncated: its last entry has no end", path);
    return 0;
}

const char *env_file_next(const struct buf *entries, const char *at)
{
    const char *next = at ? at + strlen(at) + 1 : entries->data;
    return entries->size > 0 && next < entries->data + entries->size ? next : NULL;
}

json_t *env_file_values(const struct buf *entries)
{
    json_t *out = json_object();
    char name[1024];
    for (const char *e = NULL; out && (e = env_file_next(entries, e));) {
        const size_t len = strcspn(e, "=");
        if (!e[len] || len >= sizeof(name))
            continue;
        memcpy(name, e, len);
        name[len] = '\0';
        json_object_set_new(out, name, json_string(e + len + 1)); /* NULL, not UTF-8: no entry */
    }
    return out;
}
