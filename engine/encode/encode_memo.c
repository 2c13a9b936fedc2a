/* SPDX-License-Identifier: Apache-2.0 */
/* encode_memo.c - see encode_memo.h */
#include "engine/encode/encode_memo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/scratch.h"

struct encode_memo {
    struct encode_known *known; /* by identity */
    int64_t              n;
};

static int by_identity(const void *a, const void *b)
{
    const struct encode_known *x = a, *y = b;
    return memcmp(x->identity.byte, y->identity.byte, DIGEST_BYTES);
}

static const struct st_tensor *tensor(const struct st_file *f, const char *name, enum st_dtype dtype, int64_t each)
{
    const struct st_tensor *t = st_find(f, name);
    return t && t->dtype == dtype && t->ndim == 2 && t->dim[1] == each ? t : NULL;
}

static void read_all(struct encode_memo *m, const struct st_file *f)
{
    const struct st_tensor *identity = tensor(f, "identity", ST_U8, DIGEST_BYTES);
    const struct st_tensor *key = tensor(f, "key", ST_U8, DIGEST_BYTES), *size = tensor(f, "size", ST_I64, 2);
    if (!identity || !key || !size || key->dim[0] != identity->dim[0] || size->dim[0] != identity->dim[0])
        return;
    const int64_t n = identity->dim[0];
    if (!(m->known = calloc((size_t)n + 1, sizeof(*m->known))))
        return;
    for (m->n = 0; m->n < n; m->n++) {
        struct encode_known *k = &m->known[m->n];
        memcpy(k->identity.byte, (const char *)identity->data + m->n * DIGEST_BYTES, DIGEST_BYTES);
        memcpy(k->key.byte, (const char *)key->data + m->n * DIGEST_BYTES, DIGEST_BYTES);
        memcpy(&k->height, (const char *)size->data + m->n * 16, sizeof(k->height));
        memcpy(&k->width, (const char *)size->data + m->n * 16 + 8, sizeof(k->width));
    }
    qsort(m->known, (size_t)n, sizeof(*m->known), by_identity);
}

struct encode_memo *encode_memo_open(const char *path)
{
    struct encode_memo *m = calloc(1, sizeof(*m));
    struct st_file *f = NULL;
    if (m && access(path, F_OK) == 0 && st_open(&f, path, NULL) == 0)
        read_all(m, f);
    st_close(f);
    return m;
}

void encode_memo_close(struct encode_memo *m)
{
    if (m)
        free(m->known);
    free(m);
}

const struct encode_known *encode_memo_find(const struct encode_memo *m, const struct cache_key *identity)
{
    const struct encode_known wanted = {.identity = *identity};
    return m->n ? bsearch(&wanted, m->known, (size_t)m->n, sizeof(wanted), by_identity) : NULL;
}

/* The columns of the file. */
struct columns {
    unsigned char *identity, *key;
    int64_t       *size;
};

static int fill(struct columns *c, const struct encode_known *known, int64_t n, struct err *err)
{
    c->identity = malloc((size_t)n * DIGEST_BYTES);
    c->key = malloc((size_t)n * DIGEST_BYTES);
    c->size = malloc((size_t)n * 2 * sizeof(*c->size));
    if (!c->identity || !c->key || !c->size)
        return err_set(err, ERR_MEMORY, "out of memory for a list of %lld pictures", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(c->identity + i * DIGEST_BYTES, known[i].identity.byte, DIGEST_BYTES);
        memcpy(c->key + i * DIGEST_BYTES, known[i].key.byte, DIGEST_BYTES);
        c->size[2 * i] = known[i].height;
        c->size[2 * i + 1] = known[i].width;
    }
    return 0;
}

static int publish(struct st_writer *w, const struct columns *c, int64_t n, const char *path, struct err *err)
{
    const int64_t keys[] = {n, DIGEST_BYTES}, sizes[] = {n, 2};
    char tmp[SCRATCH_PATH];
    int64_t bytes;
    if (st_writer_add(w, "identity", ST_U8, 2, keys, c->identity, err) < 0 ||
        st_writer_add(w, "key", ST_U8, 2, keys, c->key, err) < 0 ||
        st_writer_add(w, "size", ST_I64, 2, sizes, c->size, err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    int rc = st_writer_write(w, fd, &bytes, err);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    close(fd);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

int encode_memo_write(const char *path, const struct encode_known *known, int64_t n, struct err *err)
{
    struct columns c = {0};
    struct st_writer *w = NULL;
    int rc = fill(&c, known, n, err);
    if (rc == 0)
        rc = st_writer_create(&w, err);
    if (rc == 0)
        rc = publish(w, &c, n, path, err);
    st_writer_destroy(w);
    free(c.identity);
    free(c.key);
    free(c.size);
    return rc;
}
