/* SPDX-License-Identifier: Apache-2.0 */
/* export_file.c - new files of an exported directory, synced */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/safe_open.h"
#include "engine/contract/scratch.h"
#include "engine/contract/write_all.h"
#include "engine/weights/export_internal.h"

int export_open(const char *dir, const char *name, struct err *err)
{
    char path[SCRATCH_PATH];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, err);
    if (fd >= 0)
        fchmod(fd, 0644);
    return fd;
}

int export_close(int fd, const char *name, int rc, struct err *err)
{
    if (rc == 0 && fsync(fd) < 0)
        rc = err_set(err, ERR_SYSTEM, "cannot write %s to disk", name);
    close(fd);
    return rc;
}

int export_json(const char *dir, const char *name, json_t *value, struct err *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(8)) : NULL;
    const int fd = text ? export_open(dir, name, err) : err_set(err, ERR_MEMORY, "no memory for %s", name);
    int rc = fd;
    if (fd >= 0) {
        rc = write_all(fd, text, strlen(text)) < 0 || write_all(fd, "\n", 1) < 0
                 ? err_set(err, ERR_SYSTEM, "cannot write %s/%s", dir, name) : 0;
        rc = export_close(fd, name, rc, err);
    }
    json_decref(value);
    free(text);
    return rc;
}
