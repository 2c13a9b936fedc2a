/* SPDX-License-Identifier: Apache-2.0 */
/* train_start.h - everything before the first step: opens data and model, and resumes or starts fresh */
#ifndef ENGINE_TRAIN_TRAIN_START_H
#define ENGINE_TRAIN_TRAIN_START_H

struct err;
struct model;
struct state;
struct train;

int train_start(struct train *t);
/* The weights of a fresh run: those named by the spec, the others drawn from the seed. */
int train_first_weights(struct train *t, const struct model *m, const struct state *into, struct err *err);

#endif
