/* SPDX-License-Identifier: Apache-2.0 */
/* exit_code.c - see exit_code.h */
#include "engine/contract/exit_code.h"

#include <errno.h>

#include "engine/base/err.h"

/* Errors of the system by their class. The rest, as EACCES, would fail in the same way again. */
static int exit_code_of_system(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return EXIT_DISK_FULL;
    case EIO:
    case ESTALE:
    case ENXIO:
    case ENODEV:
    case ENOTCONN: /* a file system in user space whose process is gone */
    case EREMOTEIO:
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EUCLEAN:
        return EXIT_IO;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return EXIT_LIMIT;
    case ENOMEM:
        return EXIT_HOST_MEMORY;
    }
    return EXIT_DATA;
}

int exit_code_of(const struct err *err)
{
    switch (err->code) {
    case ERR_NONE:
        return EXIT_DONE;
    case ERR_USAGE:
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        return EXIT_CONFIG;
    case ERR_DATA:
        return EXIT_DATA;
    case ERR_SYSTEM:
        return exit_code_of_system(err->errnum);
    case ERR_MEMORY:
        return EXIT_HOST_MEMORY;
    case ERR_NO_DEVICE:
        return EXIT_NO_DEVICE;
    case ERR_DEVICE_MEMORY:
        return EXIT_GPU_MEMORY;
    case ERR_DEVICE:
        return EXIT_GPU_FAULT;
    case ERR_CUDA:
        return EXIT_CUDA;
    case ERR_BUG:
        break;
    }
    return EXIT_BUG;
}
