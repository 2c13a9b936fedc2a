/* SPDX-License-Identifier: Apache-2.0 */
/* train_start.h - everything before the first step: opens data and model, and resumes or starts fresh */
#ifndef ENGINE_TRAIN_TRAIN_START_H
#define ENGINE_TRAIN_TRAIN_START_H

struct train;

int train_start(struct train *t);

#endif
