/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_share.h - memory that ranks on several nodes left: each has a part, together they have all
 *
 * Memory outlives a rank, not its node, and cannot be read from another one.  So each rank of the
 * next generation takes what the files of its own node have, and what some rank still lacks goes from
 * the rank that has its file to all, in pieces.  With full sharding that is nothing, for a rank finds its own
 * part where it was; of a state that each rank holds all of, it is all of it, once.
 *
 * All ranks call, with the files of their node (or NULL, where there are none), and with the same
 * deadlines for what others do. With one rank or one node nothing travels but a few words.
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_SHARE_H
#define ENGINE_CHECKPOINT_SNAPSHOT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct dist;
struct err;
struct snapshot_set;
struct state;

/* *step is the newest that all have whole, or -1.  Where several ranks have the same files, one that
 * `looks` is enough. */
int snapshot_share_step(struct dist *d, const struct snapshot_set *set, uint64_t layout, bool looks,
                        int64_t wait_ms, int64_t *step, struct err *err);

/* Its numbers, for what `into` holds; parts are the same ones on all ranks. A failure may have filled a part
 * of it. *came (may be NULL): bytes that came from other nodes' memory. */
int snapshot_share_load(struct dist *d, const struct snapshot_set *set, int64_t step,
                        const struct state *into, int64_t wait_ms, uint64_t *came, struct err *err);

#endif
