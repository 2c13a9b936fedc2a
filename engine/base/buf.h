/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - growable byte buffer with overflow checks
 *
 * A plain struct owned by the caller; zeroed means empty. data is NUL-terminated whenever size > 0
 * (the NUL is not counted), so text can be printed directly.
 */
#ifndef ENGINE_BASE_BUF_H
#define ENGINE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char  *data;
    size_t size;
    size_t room;  /* allocated */
};

void buf_init(struct buf *b);
void buf_fini(struct buf *b);

/* Returns -1 when memory ran out or the size would exceed SIZE_MAX; the buffer is then
 * unchanged. */
int buf_append(struct buf *b, const void *bytes, size_t size);
int buf_print(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `size` bytes (or all, if fewer). */
void buf_consume(struct buf *b, size_t size);
void buf_clear(struct buf *b);

/* Hands the text over to the caller; "" for an empty buffer, NULL when memory ran out. */
char *buf_take(struct buf *b);

#endif
