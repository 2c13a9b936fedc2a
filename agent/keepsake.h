/* SPDX-License-Identifier: Apache-2.0 */
/* keepsake.h - the memory that a generation of ranks leaves to the next one
 *
 * One memory file per rank (engine/snapshot.h), held open here, so that it outlives the rank.
 * The next generation gets new files to write, and those of the last generation that left a
 * whole step to read: a generation that dies at its start does not cost what the one before
 * had.  Without memory files ranks go on from their checkpoints.
 */
#ifndef AGENT_KEEPSAKE_H
#define AGENT_KEEPSAKE_H

#include <stdint.h>

struct err;

struct keepsake_files {
    int *fd, n;
};

struct keepsake {
    struct keepsake_files now, last;
};

/* New files for a generation of n ranks. A failure: there are none, and what the last one left stays
 * readable. */
int keepsake_begin(struct keepsake *k, int n, struct err *err);
void keepsake_fini(struct keepsake *k);

/* The step that `last` holds, or -1. */
int64_t keepsake_step(const struct keepsake *k);

#endif
