/* SPDX-License-Identifier: Apache-2.0 */
/* train_input.h - the micro-batches of a run; on a GPU, each is read while the previous one is computed
 *
 * The host memory of batches is pinned, so that uploads do not block; a buffer is refilled only after its micro-batch
 * is complete (step_micro() waits for its loss).  On the CPU all cores compute, so batches are read between
 * micro-batches.
 */
#ifndef ENGINE_TRAIN_TRAIN_INPUT_H
#define ENGINE_TRAIN_TRAIN_INPUT_H

#include "engine/train/train_state.h"

struct step_input;

/* Creates t->loader, and that of t->prior if it has data. */
int train_input_open(struct train *t);
/* The run's own data; t->prior is another source. */
struct train_source train_input_source(const struct train *t);
/* Returns samples [from, from + n) of the current step, and starts reading those that this rank takes next from this
 * source. */
int train_input_take(struct train *t, const struct train_source *of, struct step_input *in, int from, int n);
/* One line: how many batches the thread had started to read before they were needed. */
void train_input_summary(const struct train *t);

#endif
