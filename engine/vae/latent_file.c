/* SPDX-License-Identifier: Apache-2.0 */
/* latent_file.c - see latent_file.h */
#include "engine/vae/latent_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/base/text_append.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors.h"

enum { NPY_HEADER = 128, EDGE_MAX = 1 << 14 };

static size_t count_of(const struct latent *z)
{
    return (size_t)z->channels * (size_t)z->height * (size_t)z->width;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Version 1.0: magic, version, length of the text, text that ends with a newline. */
static int write_npy(const struct latent *z, int fd, struct err *err)
{
    char header[NPY_HEADER + 1];
    memcpy(header, "\x93NUMPY\1\0", 8);
    header[8] = NPY_HEADER - 10;
    header[9] = 0;
    const int n = snprintf(header + 10, NPY_HEADER - 9,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d), }", z->channels, z->height,
                           z->width);
    memset(header + 10 + n, ' ', (size_t)(NPY_HEADER - 10 - n));
    header[NPY_HEADER - 1] = '\n';
    FILE *f = fdopen(dup(fd), "wb");
    if (!f)
        return err_set_errno(err, errno, "cannot write a latent");
    const bool ok = fwrite(header, 1, NPY_HEADER, f) == NPY_HEADER &&
                    fwrite(z->x, sizeof(float), count_of(z), f) == count_of(z);
    const int rc = ok ? 0 : errno;
    if (fclose(f) == 0 && ok)
        return 0;
    return err_set_errno(err, rc ? rc : errno, "cannot write a latent");
}

static int write_safetensors(const struct latent *z, int fd, struct err *err)
{
    const int64_t dim[] = {1, z->channels, z->height, z->width};
    struct st_writer *w = NULL;
    int64_t bytes;
    int rc = st_writer_create(&w, err);
    if (rc == 0)
        rc = st_writer_add(w, "latent", ST_F32, 4, dim, z->x, err);
    if (rc == 0)
        rc = st_writer_write(w, fd, &bytes, err);
    st_writer_destroy(w);
    return rc;
}

int latent_file_write(const struct latent *z, const char *path, struct err *err)
{
    char tmp[SCRATCH_PATH];
    const bool npy = text_ends_with(path, ".npy");
    if (!npy && !text_ends_with(path, ".safetensors"))
        return err_set(err, ERR_USAGE, "%s: a latent is written to a .npy or .safetensors file", path);
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    int rc = npy ? write_npy(z, fd, err) : write_safetensors(z, fd, err);
    if (close(fd) < 0 && rc == 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int set_shape(struct latent *z, const long dim[4], int n, const char *path, struct err *err)
{
    const long *d = dim + (n == 4);
    if ((n != 3 && (n != 4 || dim[0] != 1)) || d[0] < 1 || d[1] < 1 || d[2] < 1 || d[0] > EDGE_MAX ||
        d[1] > EDGE_MAX || d[2] > EDGE_MAX)
        return err_set(err, ERR_DATA, "%s: not the shape of a latent: [channels, height, width] is expected", path);
    *z = (struct latent){(int)d[0], (int)d[1], (int)d[2], NULL};
    z->x = malloc(count_of(z) * sizeof(float));
    return z->x ? 0 : err_set(err, ERR_MEMORY, "no memory for %s", path);
}

/* The header's text, of which only the shape may vary. */
static int read_npy(struct latent *z, const struct mapped_file *m, const char *path, struct err *err)
{
    const size_t text = m->size >= 10 ? (size_t)m->bytes[8] + 256 * (size_t)m->bytes[9] : 0;
    char header[512];
    long dim[4] = {0};
    if (m->size < 10 + text || m->bytes[6] != 1 || text >= sizeof(header))
        return err_set(err, ERR_DATA, "%s: not a .npy file of version 1.0, or truncated", path);
    memcpy(header, m->bytes + 10, text);
    header[text] = 0;
    const char *shape = strstr(header, "'shape': (");
    if (!shape || !strstr(header, "'<f4'") || !strstr(header, "'fortran_order': False"))
        return err_set(err, ERR_DATA, "%s: a .npy file of little-endian float32 in C order is expected", path);
    const int n = sscanf(shape + 10, "%ld, %ld, %ld, %ld", &dim[0], &dim[1], &dim[2], &dim[3]);
    if (set_shape(z, dim, n, path, err) < 0)
        return -1;
    if (m->size - 10 - text != count_of(z) * sizeof(float))
        return err_set(err, ERR_DATA, "%s: it has %zu bytes of numbers; its shape needs %zu", path, m->size - 10 - text,
                       count_of(z) * sizeof(float));
    memcpy(z->x, m->bytes + 10 + text, count_of(z) * sizeof(float));
    return 0;
}

static int read_safetensors(struct latent *z, const struct mapped_file *m, const char *path, struct err *err)
{
    struct st_file *f = NULL;
    long dim[4] = {0};
    if (st_parse(&f, m->bytes, m->size, err) < 0)
        return err_prefix(err, "%s: neither .npy nor safetensors: ", path);
    const struct st_tensor *t = st_find(f, "latent");
    for (int i = 0; t && i < t->ndim && i < 4; i++)
        dim[i] = (long)t->dim[i];
    int rc = t ? set_shape(z, dim, t->ndim, path, err) : err_set(err, ERR_DATA, "%s: no tensor \"latent\" in it", path);
    if (rc == 0)
        rc = st_to_float(z->x, t, t->count, err);
    st_close(f);
    return rc;
}

int latent_file_read(struct latent *out, const char *path, struct err *err)
{
    struct mapped_file m;
    *out = (struct latent){0, 0, 0, NULL};
    if (mapped_file_open(&m, path, err) < 0)
        return -1;
    const bool npy = m.size >= 6 && memcmp(m.bytes, "\x93NUMPY", 6) == 0;
    const int rc = npy ? read_npy(out, &m, path, err) : read_safetensors(out, &m, path, err);
    mapped_file_close(&m);
    if (rc < 0) {
        free(out->x);
        out->x = NULL;
    }
    return rc;
}
