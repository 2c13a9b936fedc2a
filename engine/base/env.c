/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - see env.h */
#include "engine/base/env.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "engine/base/err.h"

int env_int(const char *name, int least, int *value, struct err *err)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return 0;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || *end || n < least || n > INT_MAX)
        return err_set(err, ERR_USAGE, "%s is '%s'; expected a number of at least %d", name, text, least);
    *value = (int)n;
    return 0;
}
