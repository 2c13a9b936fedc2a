/* SPDX-License-Identifier: Apache-2.0 */
/* train_events.h - TensorBoard output of a run (train.tensorboard); a failure is a warning and does not end the run */
#ifndef ENGINE_TRAIN_TRAIN_EVENTS_H
#define ENGINE_TRAIN_TRAIN_EVENTS_H

struct train;

/* DIR/tensorboard, by rank 0. Does nothing without train.tensorboard. */
void train_events_open(struct train *t);
void train_events_close(struct train *t);

/* At most about 4,000 steps of a run, and the last one. */
void train_events_step(struct train *t, double grad_norm, double lr, double samples_per_s);
/* A picture that was just drawn. */
void train_events_picture(struct train *t, const char *tag, const char *path);

#endif
