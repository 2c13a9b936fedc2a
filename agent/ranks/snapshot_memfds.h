/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_memfds.h - snapshot memory of ranks that outlives their generation
 *
 * One memory file per rank of this node (engine/checkpoint/snapshot.h), held open by the agent, so
 * it outlives the rank. The next generation gets new files to write, and read access to those of
 * the newest generation that left a complete step: if a generation dies at its start, the previous one's snapshots
 * remain. With several nodes, the newest step that is complete on all of them counts: each node reports what it has,
 * and the leader chooses. Without memory files ranks resume from checkpoints.
 */
#ifndef AGENT_RANKS_SNAPSHOT_MEMFDS_H
#define AGENT_RANKS_SNAPSHOT_MEMFDS_H

#include <stdint.h>

struct err;

struct snapshot_memfds_files {
    int *fd, n;
    int generation, world; /* world: number of ranks on all nodes */
};

struct snapshot_memfds {
    struct snapshot_memfds_files now, last;
};

/* Creates new files for n ranks of a generation of `world` ranks. The files of the earlier generation `from` stay
 * readable (0: none). On failure there are no new files. */
int snapshot_memfds_begin(struct snapshot_memfds *k, int generation, int from, int n, int world, struct err *err);
void snapshot_memfds_fini(struct snapshot_memfds *k);

/* --- choosing the generation to resume from */

enum { SNAPSHOT_MEMFDS_SETS = 2 };

/* A dead generation, and the newest step that all of its ranks report. */
struct snapshot_memfds_claim {
    int     generation;
    int64_t step;
};

/* Lists the snapshots on this node, newest generation first; returns how many. */
int snapshot_memfds_claims(const struct snapshot_memfds *k, struct snapshot_memfds_claim out[SNAPSHOT_MEMFDS_SETS]);

/* Intersects two lists; the result is left in `a`; returns how many. */
int snapshot_memfds_common(struct snapshot_memfds_claim *a, int n_a, const struct snapshot_memfds_claim *b, int n_b);

/* The newest generation in the list; none: generation 0, step -1. */
struct snapshot_memfds_claim snapshot_memfds_newest(const struct snapshot_memfds_claim *claims, int n);

#endif
