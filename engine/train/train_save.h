/* SPDX-License-Identifier: Apache-2.0 */
/* train_save.h - checkpoints, written by all ranks while training continues
 *
 * The saved state does not change while it is written: on the CPU steps continue in other memory
 * (double_buffer.h); on a GPU training pauses until the views in this process's memory are
 * up to date.  A thread then does all disk I/O: rank 0 begins, each rank writes its
 * ranges, rank 0 commits.  Ranks exchange their stage with the record before each
 * step, so that no rank waits for another one's disk; with one rank, the thread does all stages
 * in a row.
 *
 * One checkpoint is written at a time: the next one, and the end of a run, wait for it.
 * A failure to write fails the run at its next step boundary; a full disk lets it wait there (train_room.h).
 */
#ifndef ENGINE_TRAIN_TRAIN_SAVE_H
#define ENGINE_TRAIN_TRAIN_SAVE_H

#include <stdbool.h>

struct err;
struct train;

int train_save_open(struct train *t);
void train_save_close(struct train *t);
/* Starts a checkpoint of the current step; returns when steps may continue. */
int train_save(struct train *t);
/* At each step boundary: this rank's stage of the current checkpoint (fails if writing failed); and the next
 * work, given the least stage of all ranks. */
int train_save_poll(struct train *t, int *stage);
void train_save_advance(struct train *t, int least);
/* Waits until all ranks have finished the checkpoint. */
int train_save_wait(struct train *t);
/* After the last step. False: a thread is still busy, and only _exit() ends it. */
bool train_save_end(struct train *t);
/* Did the last checkpoint fail on all ranks because its disk is full, and why? Its files are removed. Set by the
 * functions above while retry.disk_wait permits a wait; cleared by train_save_retry(). */
bool train_save_lacks_room(const struct train *t);
const struct err *train_save_full(const struct train *t);
void train_save_retry(struct train *t);
/* Marks checkpoints as good after enough later steps. */
void train_save_prove(struct train *t);
/* A log of losses or samples cannot be written: warns once. */
void train_warn_log(struct train *t, const struct err *err);

#endif
