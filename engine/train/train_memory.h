/* SPDX-License-Identifier: Apache-2.0 */
/* train_memory.h - the micro-batch: chosen before the run, lowered after it ran out of memory
 *
 * A run that runs out of device memory leaves a note, memory.json, in its checkpoint
 * directory.  The next start uses smaller micro-batches of the same global batch:
 * after a step, half as many samples of the size that ran out, and no more pixels of
 * other sizes; else half as many of all sizes.  Another kind of device ignores the note.
 */
#ifndef ENGINE_TRAIN_TRAIN_MEMORY_H
#define ENGINE_TRAIN_TRAIN_MEMORY_H

struct train;

/* Before the data is read or encoded: refuses a run that cannot fit into the device's memory, as far as the spec
 * alone shows (fit_shape.h). */
int train_memory_check(struct train *t);
/* Chooses micro-batch, sharing and gradient checkpointing, and prints them. Refuses a run that cannot fit, with
 * EXIT_CONFIG. */
int train_memory_choose(struct train *t);
/* The largest micro-batch of this size; records the current one and fails on JOBCTL_TEST_OOM. */
int train_memory_micro(const struct train *t, int height, int width);
int train_memory_take(struct train *t, int height, int width, int samples);
/* Out of device memory: lowers the limits for the next start, with a message in t->err. */
void train_memory_lower(struct train *t);

#endif
