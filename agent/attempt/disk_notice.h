/* SPDX-License-Identifier: Apache-2.0 */
/* disk_notice.h - warnings that the agent's disk is full, or has space again
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_ATTEMPT_DISK_NOTICE_H
#define AGENT_ATTEMPT_DISK_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_notice {
    bool full;          /* reported */
    int64_t since_ms;   /* while full: when it was first seen */
    int64_t lost;       /* bytes of output lost before that */
};

/* The state at this check. */
struct disk_state {
    size_t held;        /* events in memory that the disk refused */
    int logs;           /* rank logs that lack output */
    int64_t lost;       /* bytes of output lost so far */
    int64_t now_ms;
};

/* True, with a message, when the disk of `dir` became full or has space again. */
bool disk_notice_look(struct disk_notice *d, const struct disk_state *now, const char *dir, char *text, size_t size);

#endif
