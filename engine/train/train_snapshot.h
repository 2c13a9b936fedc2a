/* SPDX-License-Identifier: Apache-2.0 */
/* train_snapshot.h - snapshots of each step in memory that outlives this rank (snapshot.h)
 *
 * On the CPU the state lives in that memory, and a step's update is its snapshot
 * (double_buffer.h).  On a GPU a copy starts after each step, on a stream of its own,
 * and overlaps with the next step.  It is sealed before this rank sends the last gradients of
 * that step: a rank that has their sum knows that all ranks have the copy of the step before (snapshot.h).
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
/* After the update of a step: starts its snapshot; finishes it, before the last gradients of the next step are sent or
 * weights change. */
void train_snapshot_save(struct train *t);
int train_snapshot_settle(struct train *t);
/* Keeps the current state, as params_state() lists it, unchanged until the release, while steps continue. False: that
 * needs *bytes more memory than may be used. */
bool train_snapshot_hold(struct train *t, int64_t *bytes);
void train_snapshot_release(struct train *t);

#endif
