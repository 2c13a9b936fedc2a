/* SPDX-License-Identifier: Apache-2.0 */
/* collection_parts.c - what all layouts of a collection need: paths, growing lists, wrong samples */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"

char *collection_text(struct err *err, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    err_set(err, ERR_MEMORY, "out of memory for a path");
    return NULL;
}

void *collection_grow(void *list, int64_t n, size_t size, struct err *err)
{
    if (n > 0 && (n & (n - 1)) != 0) /* there is room up to the next power of two */
        return list;
    void *more = realloc(list, (n ? (size_t)n * 2 : 1) * size);
    if (!more)
        err_set(err, ERR_MEMORY, "out of memory for a list of %lld samples", (long long)n);
    return more;
}

int collection_bad(const struct collection *c, const char *where, struct err *err)
{
    if (!c->bad || !err || err->code != ERR_DATA)
        return -1;
    c->bad(c->bad_arg, where, err->text);
    *err = (struct err){0};
    return 0;
}
