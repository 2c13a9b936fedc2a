/* SPDX-License-Identifier: Apache-2.0 */
/* log_reader.h - read a rotated output log (capture.c) as one stream
 *
 * Offsets count from the first byte ever written, so a reader that follows the output misses
 * nothing across a rotation; bytes older than both files are skipped.
 */
#ifndef AGENT_OS_LOG_READER_H
#define AGENT_OS_LOG_READER_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* NAME.1 holds the output before NAME; NAME.base has the number of bytes written before NAME. */
#define LOG_READER_OLDER ".1"
#define LOG_READER_BASE ".base"

struct log_reader {
    int64_t offset; /* in: -N = the last N bytes; out: where `data` begins */
    int64_t size;   /* out: bytes written in total; -1: no output yet */
    char *data;     /* out: the caller frees it; NULL when there is none */
    size_t  got;
};

/* Reads at most `limit` bytes. A missing file is not an error. */
int log_reader_read(struct log_reader *c, const char *path, size_t limit, struct err *err);

/* How many bytes were written before the first byte of `path`. */
int64_t log_reader_base(const char *path);

#endif
