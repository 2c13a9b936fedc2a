/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.c - see descriptors.h */
#include "agent/os/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Walks /proc/self/fd: the limit can be a thousand times the number open. opendir() would
 * allocate. */
static void close_listed(unsigned first, unsigned last)
{
    _Alignas(struct dirent64) char block[4096];
    const int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (dir >= 0 && (n = syscall(SYS_getdents64, dir, block, sizeof(block))) > 0)
        for (long at = 0; at < n;) {
            const struct dirent64 *e = (const struct dirent64 *)(const void *)(block + at);
            const unsigned fd = (unsigned)strtoul(e->d_name, NULL, 10);
            if (e->d_name[0] != '.' && fd >= first && fd <= last && fd != (unsigned)dir)
                close((int)fd);
            at += e->d_reclen;
        }
    if (dir >= 0)
        close(dir);
}

void descriptors_close(unsigned first, unsigned last)
{
    if (first <= last && syscall(SYS_close_range, first, last, 0u) != 0)
        close_listed(first, last);
}
