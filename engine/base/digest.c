/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - see digest.h */
#include "engine/base/digest.h"

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

struct digest {
    XXH3_state_t *state;
};

int digest_create(struct digest **out, struct err *err)
{
    struct digest *d = calloc(1, sizeof(*d));
    if (d)
        d->state = XXH3_createState();
    if (!d || !d->state) {
        free(d);
        return err_set(err, ERR_MEMORY, "out of memory for a digest");
    }
    XXH3_128bits_reset(d->state);
    *out = d;
    return 0;
}

void digest_destroy(struct digest *d)
{
    if (!d)
        return;
    XXH3_freeState(d->state);
    free(d);
}

void digest_add(struct digest *d, const void *bytes, size_t n)
{
    XXH3_128bits_update(d->state, bytes, n);
}

void digest_add_text(struct digest *d, const char *text)
{
    digest_add(d, text, strlen(text) + 1);
}

void digest_text(const struct digest *d, char text[DIGEST_TEXT])
{
    XXH128_hash_t h = XXH3_128bits_digest(d->state);
    snprintf(text, DIGEST_TEXT, "xxh3:%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

int digest_file(char text[DIGEST_TEXT], int64_t *bytes, const char *path, struct err *err)
{
    enum { CHUNK = 1 << 18 };
    struct digest *d = NULL;
    char *buf = malloc(CHUNK);
    int fd = safe_open_linked(path, O_RDONLY, err);
    int rc = -1;
    int64_t total = 0;
    if (fd < 0)
        goto out;
    if (!buf) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", path);
        goto out;
    }
    if (digest_create(&d, err) < 0)
        goto out;
    for (ssize_t n; (n = read(fd, buf, CHUNK)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_set_errno(err, errno, "cannot read %s", path);
            goto out;
        }
        digest_add(d, buf, (size_t)n);
        total += n;
    }
    digest_text(d, text);
    *bytes = total;
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(buf);
    digest_destroy(d);
    return rc;
}

static void put_bytes(unsigned char out[DIGEST_BYTES], XXH128_hash_t h)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    memcpy(out, c.digest, DIGEST_BYTES);
}

void digest_raw(unsigned char out[DIGEST_BYTES], const void *bytes, size_t n)
{
    put_bytes(out, XXH3_128bits(bytes, n));
}

void digest_bytes(const struct digest *d, unsigned char out[DIGEST_BYTES])
{
    put_bytes(out, XXH3_128bits_digest(d->state));
}

uint64_t digest_word(const void *bytes, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n, seed);
}
