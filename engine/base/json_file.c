/* SPDX-License-Identifier: Apache-2.0 */
/* json_file.c - see json_file.h */
#include "engine/base/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

int json_file_put(const json_t *value, int fd, size_t flags)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    if (!text)
        errno = ENOMEM;
    const int rc = text ? write_all(fd, text, strlen(text)) : -1, why = errno;
    free(text);
    errno = why;
    return rc;
}

int json_file_save(const json_t *value, const char *path, size_t flags)
{
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 ? json_file_put(value, fd, flags) : -1;
    const int why = errno;
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        return -1;
    errno = why;
    return rc;
}
