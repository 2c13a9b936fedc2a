/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim_list.h - the done jobs whose removal frees most, as a sentence
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_JOB_RECLAIM_LIST_H
#define CONTROLLER_JOB_RECLAIM_LIST_H

#include <stddef.h>
#include <stdint.h>

/* A sentence names so many jobs, and none that would free less. */
enum { RECLAIM_NAMED = 8, RECLAIM_LEAST = 1 << 20 };

struct reclaim_item {
    int64_t job, bytes;
};

/* Sorts the items, largest first; "jobctl remove --checkpoints 3 7 would free 12 GiB (job 3: 10 GiB, job 7: 2 GiB)".
 * Items below RECLAIM_LEAST are left out; "" if none remains. */
void reclaim_list_text(char *out, size_t size, struct reclaim_item *items, size_t count);

#endif
