/* SPDX-License-Identifier: Apache-2.0 */
/* write_all.c - see write_all.h */
#include "engine/base/write_all.h"

#include <errno.h>
#include <unistd.h>

int write_all(int fd, const void *bytes, size_t size)
{
    for (const char *p = bytes; size > 0;) {
        const ssize_t n = write(fd, p, size);
        if (n == 0)
            errno = ENOSPC;
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        p += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}
