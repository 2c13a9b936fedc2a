/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - growing bytes, overflow checked
 *
 * A plain struct the caller owns; zeroed is empty.  data is NUL-terminated
 * whenever size > 0, the NUL not counted, so that text can be printed as it is.
 */
#ifndef AGENT_OS_BUF_H
#define AGENT_OS_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char  *data;
    size_t size;
    size_t room;  /* allocated */
};

void buf_init(struct buf *b);
void buf_fini(struct buf *b);

/* -1: no memory (or more than SIZE_MAX); the buffer is as before. */
int buf_append(struct buf *b, const void *bytes, size_t size);
int buf_print(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Forget the first `size` bytes (at most all). */
void buf_consume(struct buf *b, size_t size);
void buf_clear(struct buf *b);

/* The text, owned by the caller now; "" where there was none; NULL: no memory. */
char *buf_take(struct buf *b);

#endif
