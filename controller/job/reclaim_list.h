/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim_list.h - the done jobs whose removal frees most, and their directories to delete by hand, as sentences
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_JOB_RECLAIM_LIST_H
#define CONTROLLER_JOB_RECLAIM_LIST_H

#include <stddef.h>
#include <stdint.h>

/* A sentence names at most so many jobs, and none that would free fewer bytes. */
enum { RECLAIM_NAMED = 8, RECLAIM_LEAST = 1 << 20 };

struct reclaim_item {
    int64_t job, bytes;
};

/* Sorts the items, largest first; "jobctl remove --checkpoints 3 7 would free 12 GiB (job 3: 10 GiB, job 7: 2 GiB)".
 * Items below RECLAIM_LEAST are left out; "" if none remains. */
void reclaim_list_text(char *out, size_t size, struct reclaim_item *items, size_t count);

/* Checkpoints of a done job in a directory that its spec names, which no command deletes. */
struct reclaim_dir {
    int64_t     job, bytes;
    const char *path;       /* borrowed */
};

enum { RECLAIM_DIRS = 2 };

/* Sorts them likewise; "delete by hand what you no longer need: /a (job 7: 2 GiB), /b (job 9: 1 GiB)". At most
 * RECLAIM_DIRS, and none whose path does not fit whole; "" if none remains. */
void reclaim_list_dirs(char *out, size_t size, struct reclaim_dir *dirs, size_t count);

#endif
