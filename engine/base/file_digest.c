/* SPDX-License-Identifier: Apache-2.0 */
/* file_digest.c - see file_digest.h */
#include "engine/base/file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { PIECE = 1024 * 1024 };

int file_digest(char out[FILE_DIGEST], const char *path, struct err *err)
{
    XXH3_state_t *state = XXH3_createState();
    char *bytes = malloc(PIECE);
    int fd = safe_open_linked(path, O_RDONLY, NULL), rc = -1;
    ssize_t n = -1;
    if (!state || !bytes) {
        err_set(err, ERR_MEMORY, "no memory to read '%s'", path);
        goto out;
    }
    XXH3_128bits_reset(state);
    while (fd >= 0 && (n = read(fd, bytes, PIECE)) > 0)
        XXH3_128bits_update(state, bytes, (size_t)n);
    if (n < 0) {
        err_set(err, ERR_SYSTEM, "cannot read '%s': %s", path, strerror(errno));
        goto out;
    }
    const XXH128_hash_t h = XXH3_128bits_digest(state);
    snprintf(out, FILE_DIGEST, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(bytes);
    XXH3_freeState(state);
    return rc;
}
