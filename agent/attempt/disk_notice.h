/* SPDX-License-Identifier: Apache-2.0 */
/* disk_notice.h - warnings that the agent's disk is full, and that it no longer is
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_ATTEMPT_DISK_NOTICE_H
#define AGENT_ATTEMPT_DISK_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_notice {
    bool full;          /* told */
    int64_t since_ms;   /* full: when that was seen */
    int64_t lost;       /* bytes of output lost before */
};

/* What is seen now. */
struct disk_state {
    size_t held;        /* events in memory that the disk refused */
    int logs;           /* of ranks, that lack output */
    int64_t lost;       /* bytes of output lost so far */
    int64_t now_ms;
};

/* True, with a sentence, where the disk of `dir` became full, or has space again. */
bool disk_notice_look(struct disk_notice *d, const struct disk_state *now, const char *dir, char *text, size_t size);

#endif
