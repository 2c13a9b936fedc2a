/* SPDX-License-Identifier: Apache-2.0 */
/* log_reader.h - read what capture.c wrote: two files that look like one
 *
 * An offset counts from the first byte that was ever written, so that whoever follows the output
 * misses nothing when a file is put aside; bytes older than both files are skipped.
 */
#ifndef AGENT_OS_LOG_READER_H
#define AGENT_OS_LOG_READER_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Beside the file NAME: what was written before it, and how many bytes that were. */
#define LOG_READER_OLDER ".1"
#define LOG_READER_BASE ".base"

struct log_reader {
    int64_t offset; /* in: -N = the last N bytes; out: where `data` begins */
    int64_t size;   /* out: of all that was written; -1: nothing yet */
    char   *data;   /* out: the caller frees it; NULL when there is nothing */
    size_t  got;
};

/* At most `limit` bytes. No file is not a failure. */
int log_reader_read(struct log_reader *c, const char *path, size_t limit, struct err *err);

/* How many bytes were written before the file `path` was begun. */
int64_t log_reader_base(const char *path);

#endif
