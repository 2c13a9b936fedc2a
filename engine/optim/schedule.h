/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - the learning rate as a pure function of the step
 *
 * Pure: no clock, no I/O.
 * `step` counts completed optimizer steps: the first update is step 0.
 * Warm-up multiplies by step / warmup while step < warmup, as the authors'
 * scheduler does, so the first update has rate 0.
 *   constant:  lr
 *   cosine:    lr * (floor + (1 - floor) * (1 + cos(pi x)) / 2), x from 0 at the end
 *              of the warm-up to 1 at `steps` and after
 */
#ifndef ENGINE_OPTIM_SCHEDULE_H
#define ENGINE_OPTIM_SCHEDULE_H

#include <stdint.h>

#include "engine/contract/train_config.h"

struct err;

int schedule_check(const struct schedule *s, struct err *err);

double schedule_lr(const struct schedule *s, int64_t step);

#endif
