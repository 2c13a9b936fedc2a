/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - see instance.h */
#include "controller/base/instance.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"

static bool is_one(const char *text)
{
    return strlen(text) == INSTANCE - 1 && strspn(text, "0123456789abcdef") == INSTANCE - 1;
}

int instance_open(char out[INSTANCE], const char *home, struct err *err)
{
    char path[PATH_MAX];
    uint64_t bits = 0;
    snprintf(path, sizeof(path), "%.3900s/instance", home);
    int fd = safe_open(path, O_RDONLY, NULL);
    ssize_t n = fd < 0 ? 0 : read(fd, out, INSTANCE - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
    if (is_one(out))
        return 0;
    if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for the name of this controller");
    snprintf(out, INSTANCE, "%016llx", (unsigned long long)bits);
    fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    bool ok = fd >= 0 && write(fd, out, INSTANCE - 1) == INSTANCE - 1 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? 0 : err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
}
