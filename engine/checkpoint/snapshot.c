/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - create and check the memory file of a rank's snapshots; see snapshot.h */
#include "engine/checkpoint/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/snapshot_internal.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"

int snapshot_make(struct err *err)
{
    int fd = memfd_create("jobctl-snapshot", MFD_CLOEXEC);
    return fd >= 0 ? fd : err_set_errno(err, errno, "no memory file");
}

uint64_t snapshot_checksum(int64_t step, const uint64_t *chunks, size_t n)
{
    return digest_word(chunks, n * sizeof(*chunks), (uint64_t)step);
}

static bool read_head(struct snapshot_head *h, int fd, int world)
{
    return pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) && h->magic == SNAPSHOT_MAGIC &&
           h->world == (uint64_t)world && h->copies <= SNAPSHOT_COPIES;
}

static bool has(const struct snapshot_head *h, int64_t step)
{
    for (uint64_t i = 0; i < h->copies; i++)
        if (h->copy[i].step == step)
            return true;
    return false;
}

int64_t snapshot_claims(const int *fds, int n, int world)
{
    struct snapshot_head first, h;
    int64_t newest = -1;
    if (n < 1 || !read_head(&first, fds[0], world))
        return -1;
    for (uint64_t i = 0; i < first.copies; i++) {
        const int64_t step = first.copy[i].step;
        bool all = step > newest;
        for (int r = 1; all && r < n; r++)
            all = read_head(&h, fds[r], world) && has(&h, step);
        newest = all ? step : newest;
    }
    return newest;
}
