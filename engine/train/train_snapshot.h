/* SPDX-License-Identifier: Apache-2.0 */
/* train_snapshot.h - snapshots of a run in memory that outlives this rank (snapshot.h)
 *
 * On the CPU the state lives in that memory, and a step's update is its snapshot
 * (double_buffer.h).  On a GPU, a copy starts after every N-th step, on a separate stream, and overlaps with the next
 * step, whose update waits for it. A thread seals the copy before this rank sends the gradients of the next snapshot's
 * step: a rank that has their sum knows that all ranks have the previous copy (snapshot.h).
 *
 * N is 1 for the first steps, which are timed; then the ranks agree on the smallest N that costs less than 2 %
 * (snapshot_interval.h).
 *
 * Snapshots of another node's ranks are fetched from there (snapshot_share.h).
 *
 * Without an agent, which creates the memory, or without enough free memory, a run resumes
 * from checkpoints only.
 */
#ifndef ENGINE_TRAIN_TRAIN_SNAPSHOT_H
#define ENGINE_TRAIN_TRAIN_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct train;

int train_snapshot_open(struct train *t);
void train_snapshot_close(struct train *t);
/* The newest complete step of the last generation, or -1; and resuming from it. All ranks call them. */
int train_snapshot_step(struct train *t, int64_t *step);
int train_snapshot_load(struct train *t, int64_t step);
/* After the update of a step: starts its snapshot, if one is due. */
int train_snapshot_save(struct train *t);
/* Call before the last gradients of a step are sent: finishes the snapshot in progress, if that step has the next
 * one. */
int train_snapshot_settle(struct train *t);
/* Call before an update: makes it wait for the copy of what it changes. */
int train_snapshot_guard(struct train *t);
/* Keeps the current state, as listed by params_state(), unchanged until the release, while steps continue. False:
 * that needs *bytes more memory than may be used. */
bool train_snapshot_hold(struct train *t, int64_t *bytes);
void train_snapshot_release(struct train *t);

#endif
