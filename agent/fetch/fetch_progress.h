/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_progress.h - progress of a download: one line updated on a terminal, some lines in a log, and messages to the
 * agent that started it (engine/contract/progress.h), at most one per twentieth */
#ifndef AGENT_FETCH_FETCH_PROGRESS_H
#define AGENT_FETCH_FETCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { FETCH_SIZE = 24 };

struct progress;

struct fetch_progress {
    struct progress *agent; /* NULL: none */
    bool    terminal, open; /* stderr is a terminal; the line is shown */
    int     files, file;    /* number of files downloaded, and of the present one, from 1 */
    int64_t bytes, done;    /* of all files, including bytes that were already in the cache */
    int64_t at_first;       /* bytes done at the start */
    int64_t began_ms, told_ms;
    int     told_part;      /* twentieths reported */
};

void fetch_progress_begin(struct fetch_progress *p, struct progress *agent, int files, int64_t bytes);
/* `n` more bytes are in the cache; negative: that many must be downloaded again. */
void fetch_progress_add(struct fetch_progress *p, int64_t n);
/* `n` bytes were in the cache before. */
void fetch_progress_had(struct fetch_progress *p, int64_t n);
void fetch_progress_end(struct fetch_progress *p);

/* "3.2 GB" */
const char *fetch_progress_size(char out[FETCH_SIZE], int64_t bytes);

#endif
