/* SPDX-License-Identifier: Apache-2.0 */
/* train_dir.h - the directory of checkpoints: found once, and followed if it is moved
 *
 * A checkpoint is written by path.  Where the directory was moved meanwhile, the path may lead to that of another
 * job: so rank 0 compares inodes before each checkpoint.  Both return -1 with t->err and t->code set.
 */
#ifndef ENGINE_TRAIN_TRAIN_DIR_H
#define ENGINE_TRAIN_TRAIN_DIR_H

struct train;

/* Finds or makes t->dir: the agent's directory, else the spec's, else ./checkpoints. */
int train_dir_open(struct train *t);
/* Before each checkpoint: t->dir becomes the directory's present path, where it was moved. */
int train_dir_follow(struct train *t);

#endif
