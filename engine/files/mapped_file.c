/* SPDX-License-Identifier: Apache-2.0 */
/* mapped_file.c - see mapped_file.h */
#include "engine/files/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

static int map(struct mapped_file *out, int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_set_errno(err, errno, "%s: cannot be read", path);
    if (st.st_size == 0)
        return err_set(err, ERR_DATA, "%s: the file is empty", path);
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return err_set_errno(err, errno, "%s: cannot be mapped", path);
    *out = (struct mapped_file){at, (size_t)st.st_size};
    return 0;
}

int mapped_file_open(struct mapped_file *out, const char *path, struct err *err)
{
    const int fd = safe_open_linked(path, O_RDONLY, err);
    if (fd < 0)
        return -1;
    const int rc = map(out, fd, path, err);
    close(fd);
    return rc;
}

void mapped_file_close(struct mapped_file *f)
{
    if (f->bytes)
        munmap((void *)(uintptr_t)f->bytes, f->size);
    *f = (struct mapped_file){0};
}
