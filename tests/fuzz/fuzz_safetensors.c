/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - a file of tensors that somebody else wrote
 *
 * What is accepted must lie inside the file, be found by its name, convert without an invalid read, and survive writing
 * and reading again.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "tests/fuzz/target.h"

enum { CONVERT_MAX = 1 << 16 };

static void check_tensor(const struct st_file *f, const struct st_tensor *t, const uint8_t *data, size_t size)
{
    const uint8_t *at = t->data;
    PROMISE(at >= data && at <= data + size && t->bytes <= (size_t)(data + size - at));
    PROMISE(t->bytes == t->count * st_dtype_size(t->dtype));
    PROMISE(strlen(t->name) < ST_NAME && t->ndim >= 0 && t->ndim <= ST_DIMS);
    PROMISE(st_find(f, t->name) == t);
    if (t->count > CONVERT_MAX)
        return;
    float *single = malloc((t->count + 1) * sizeof(*single));
    double *twice = malloc((t->count + 1) * sizeof(*twice));
    struct err err = {0};
    if (single && twice) {
        PROMISE(st_to_float(single, t, t->count, &err) == 0);
        PROMISE(st_to_double(twice, t, t->count, &err) == 0);
        PROMISE(st_to_float(single, t, t->count + 1, &err) < 0);
    }
    free(single);
    free(twice);
}

/* Write what was read; the second file must hold the same. */
static void check_written(const struct st_file *f)
{
    struct err err = {0};
    struct st_writer *w = NULL;
    struct st_file *again = NULL;
    int64_t bytes = 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    PROMISE(fd >= 0 && st_writer_create(&w, &err) == 0);
    for (int i = 0; i < st_len(f); i++) {
        const struct st_tensor *t = st_at(f, i);
        PROMISE(st_writer_add(w, t->name, t->dtype, t->ndim, t->dim, t->data, &err) == 0);
    }
    PROMISE(st_writer_write(w, fd, &bytes, &err) == 0 && bytes > 0);
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    PROMISE(map != MAP_FAILED);
    PROMISE(st_parse(&again, map, (size_t)bytes, &err) == 0 && st_len(again) == st_len(f));
    for (int i = 0; i < st_len(f); i++) {
        const struct st_tensor *a = st_at(f, i), *b = st_find(again, a->name);
        PROMISE(b && a->dtype == b->dtype && a->ndim == b->ndim && a->bytes == b->bytes);
        PROMISE(memcmp(a->dim, b->dim, sizeof(a->dim[0]) * (size_t)a->ndim) == 0);
        PROMISE(memcmp(a->data, b->data, a->bytes) == 0);
    }
    st_close(again);
    munmap(map, (size_t)bytes);
    st_writer_destroy(w);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct st_file *f = NULL;
    if (st_parse(&f, data, size, &err) < 0) {
        PROMISE(err.code != ERR_NONE && err.text[0] && !f);
        return 0;
    }
    for (int i = 0; i < st_len(f); i++)
        check_tensor(f, st_at(f, i), data, size);
    check_written(f);
    st_close(f);
    return 0;
}
