/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_memfds.h - the memory that a generation of ranks leaves to the next one
 *
 * One memory file per rank of this node (engine/checkpoint/snapshot.h), held open here, so that it
 * outlives the rank.  The next generation gets new files to write, and to read those of the newest
 * one that left a whole step: a generation that dies at its start does not cost what the one before
 * had.  With several nodes that is the newest that left one on all of them, so each says what it
 * has, and the head's choice counts.  Without memory files ranks go on from their checkpoints.
 */
#ifndef AGENT_RANKS_SNAPSHOT_MEMFDS_H
#define AGENT_RANKS_SNAPSHOT_MEMFDS_H

#include <stdint.h>

struct err;

struct snapshot_memfds_files {
    int *fd, n;
    int  generation, world; /* of so many ranks on all nodes */
};

struct snapshot_memfds {
    struct snapshot_memfds_files now, last;
};

/* New files for n ranks here of a generation of `world`. Of those before, what generation `from` left stays
 * readable (0: nothing does). A failure: there are no new ones. */
int snapshot_memfds_begin(struct snapshot_memfds *k, int generation, int from, int n, int world,
                          struct err *err);
void snapshot_memfds_fini(struct snapshot_memfds *k);

/* --- what to go on from */

enum { SNAPSHOT_MEMFDS_SETS = 2 };

/* A dead generation, and the newest step that all of its ranks say they have. */
struct snapshot_memfds_claim {
    int     generation;
    int64_t step;
};

/* What is here, the newest generation first; returns how many. */
int snapshot_memfds_claims(const struct snapshot_memfds *k,
                           struct snapshot_memfds_claim out[SNAPSHOT_MEMFDS_SETS]);

/* What both have, left in `a`; returns how many. */
int snapshot_memfds_common(struct snapshot_memfds_claim *a, int n_a,
                           const struct snapshot_memfds_claim *b, int n_b);

/* Of the newest generation; none: generation 0, step -1. */
struct snapshot_memfds_claim snapshot_memfds_newest(const struct snapshot_memfds_claim *claims,
                                                    int n);

#endif
