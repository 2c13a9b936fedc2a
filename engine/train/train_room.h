/* SPDX-License-Identifier: Apache-2.0 */
/* train_room.h - pauses training while a checkpoint does not fit on its disk
 *
 * Training pauses at the step boundary where the failure is detected, so the steps since the last checkpoint stay in
 * memory and the GPUs stay with the job. Rank 0 checks the disk, and all ranks retry together. After retry.disk_wait
 * the run ends with EXIT_DISK_FULL, and the job continues from its last checkpoint when there is space. Nothing is
 * removed to free space: older checkpoints are removed only by checkpoint.keep, after a new one is complete.
 */
#ifndef ENGINE_TRAIN_TRAIN_ROOM_H
#define ENGINE_TRAIN_TRAIN_ROOM_H

struct train;

/* All ranks pause until the checkpoint of this step fits on its disk, and is complete. Fails after retry.disk_wait,
 * and on a stop. */
int train_room_wait(struct train *t);
/* Fails if there is no space for a checkpoint, because the job would soon have to wait. */
int train_room_check(struct train *t);

#endif
