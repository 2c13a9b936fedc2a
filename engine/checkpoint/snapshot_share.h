/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_share.h - assemble a snapshot that is spread over the memory of several nodes
 *
 * Memory outlives a rank, but not its node, and another node cannot read it.  So each rank of the next generation reads
 * what its own node's files have; what some rank still lacks is broadcast in pieces by the rank that has the file.
 * With full sharding nothing is sent, because a rank finds its own part on its node; with a replicated state that one
 * node has lost, the whole state is sent once.
 *
 * All ranks call, with the files of their node (or NULL if there are none), and with the same
 * deadlines. With one rank or one node only a few words are exchanged.
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_SHARE_H
#define ENGINE_CHECKPOINT_SNAPSHOT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct dist;
struct err;
struct snapshot_set;
struct state;

/* *step is the newest that all ranks have completely, or -1. If several ranks have the same files, it suffices that
 * one `looks`. */
int snapshot_share_step(struct dist *d, const struct snapshot_set *set, uint64_t layout, bool looks,
                        int64_t wait_ms, int64_t *step, struct err *err);

/* Reads the numbers that `into` holds; parts are the same on all ranks. After a failure, a part may be filled. *came
 * (may be NULL): bytes that came from other nodes' memory. */
int snapshot_share_load(struct dist *d, const struct snapshot_set *set, int64_t step,
                        const struct state *into, int64_t wait_ms, uint64_t *came, struct err *err);

#endif
