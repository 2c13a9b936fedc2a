/* SPDX-License-Identifier: Apache-2.0 */
/* exit_code.c - see exit_code.h */
#include "engine/contract/exit_code.h"

#include "engine/contract/err.h"

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
    case ERR_SYSTEM:
        return EXIT_DATA;
    case ERR_MEMORY:
        return EXIT_HOST_MEMORY;
    case ERR_NO_DEVICE:
        return EXIT_NO_DEVICE;
    case ERR_DEVICE_MEMORY:
        return EXIT_GPU_MEMORY;
    case ERR_DEVICE:
        return EXIT_GPU_FAULT;
    case ERR_BUG:
        break;
    }
    return EXIT_BUG;
}
