/* SPDX-License-Identifier: Apache-2.0 */
/* train_dir.h - the directory of checkpoints: found once, and followed if it is moved
 *
 * A checkpoint is written by path. If the directory was moved meanwhile, the path may lead to another job's directory,
 * so rank 0 compares inodes before each checkpoint.  Both return -1 with t->err and t->code set.
 */
#ifndef ENGINE_TRAIN_TRAIN_DIR_H
#define ENGINE_TRAIN_TRAIN_DIR_H

struct train;

/* Finds or creates t->dir: the agent's directory, else the spec's, else ./checkpoints. */
int train_dir_open(struct train *t);
/* Call before each checkpoint: sets t->dir to the directory's present path if it was moved. */
int train_dir_follow(struct train *t);

#endif
