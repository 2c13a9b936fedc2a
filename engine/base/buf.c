/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - see buf.h */
#include "engine/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b)
{
    *b = (struct buf){0};
}

void buf_fini(struct buf *b)
{
    if (!b)
        return;
    free(b->data);
    buf_init(b);
}

/* Makes room for `more` bytes and a NUL. */
static int reserve(struct buf *b, size_t more)
{
    if (more > SIZE_MAX / 2 - b->size - 1)
        return -1;
    size_t need = b->size + more + 1;
    if (need <= b->room)
        return 0;
    size_t room = b->room ? b->room : 64;
    while (room < need)
        room *= 2;
    char *data = realloc(b->data, room);
    if (!data)
        return -1;
    b->data = data;
    b->room = room;
    return 0;
}

int buf_append(struct buf *b, const void *bytes, size_t size)
{
    if (reserve(b, size) < 0)
        return -1;
    if (size)
        memcpy(b->data + b->size, bytes, size);
    b->size += size;
    b->data[b->size] = '\0';
    return 0;
}

int buf_print(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || reserve(b, (size_t)n) < 0)
        return -1;
    va_start(ap, fmt);
    vsnprintf(b->data + b->size, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->size += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t size)
{
    if (size >= b->size) {
        buf_clear(b);
        return;
    }
    b->size -= size;
    memmove(b->data, b->data + size, b->size + 1);
}

void buf_clear(struct buf *b)
{
    b->size = 0;
    if (b->data)
        b->data[0] = '\0';
}

char *buf_take(struct buf *b)
{
    if (!b->data && reserve(b, 0) < 0)
        return NULL;
    b->data[b->size] = '\0';
    char *data = b->data;
    buf_init(b);
    return data;
}
