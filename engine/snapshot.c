/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - the memory file itself; see snapshot.h */
#include "engine/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/digest.h"
#include "engine/err.h"
#include "engine/snapshot_parts.h"

int snapshot_make(struct err *err)
{
    int fd = memfd_create("jobctl-snapshot", MFD_CLOEXEC);
    return fd >= 0 ? fd : err_set(err, ERR_SYSTEM, "no memory file: %s", strerror(errno));
}

uint64_t snapshot_checksum(int64_t step, const uint64_t *chunks, size_t n)
{
    return digest_word(chunks, n * sizeof(*chunks), (uint64_t)step);
}

int64_t snapshot_claims(const int *fds, int n)
{
    int64_t least_newest = INT64_MAX, most_oldest = -1;
    for (int i = 0; i < n; i++) {
        struct snapshot_head h;
        if (pread(fds[i], &h, sizeof(h), 0) != (ssize_t)sizeof(h) || h.magic != SNAPSHOT_MAGIC ||
            h.world != (uint64_t)n)
            return -1;
        int64_t a = h.copy[0].step, b = h.copy[1].step;
        int64_t newest = a > b ? a : b, oldest = a > b ? b : a;
        oldest = oldest < 0 ? newest : oldest;
        least_newest = newest < least_newest ? newest : least_newest;
        most_oldest = oldest > most_oldest ? oldest : most_oldest;
    }
    return n > 0 && least_newest >= most_oldest ? least_newest : -1;
}
