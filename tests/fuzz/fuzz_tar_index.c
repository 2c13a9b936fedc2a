/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tar_index.c - a tar file that somebody else wrote
 *
 * The walk ends; each member is inside the file, has a name, and is found again by its position. A refusal has a
 * message.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/tar_index.h"
#include "tests/fuzz/target.h"

struct bytes {
    const uint8_t *at;
    size_t         size;
};

static ssize_t read_bytes(void *arg, void *to, size_t n, int64_t at)
{
    const struct bytes *b = arg;
    if (at < 0 || (size_t)at >= b->size)
        return 0;
    n = n < b->size - (size_t)at ? n : b->size - (size_t)at;
    memcpy(to, b->at + at, n);
    return (ssize_t)n;
}

static void check_member(const struct tar_index *t, const struct tar_member *m)
{
    struct tar_index again = *t;
    struct tar_member same;
    struct err err = {0};
    PROMISE(m->header >= 0 && m->header % TAR_BLOCK == 0 && m->data > m->header && m->size >= 0);
    PROMISE(m->data + m->size <= t->size && strlen(m->name) < TAR_NAME);
    PROMISE(tar_index_at(&again, &same, m->header, &err) == 0 && same.data == m->data && same.size == m->size);
    PROMISE(strcmp(same.name, m->name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size};
    struct tar_index t = {.read = read_bytes, .arg = &b, .size = (int64_t)size};
    struct tar_member m;
    struct err err = {0};
    int rc;
    for (int64_t last = -1; (rc = tar_index_next(&t, &m, &err)) > 0; last = m.header) {
        PROMISE(m.header > last);
        check_member(&t, &m);
    }
    PROMISE(rc == 0 || err.text[0]);
    return 0;
}
