/* SPDX-License-Identifier: Apache-2.0 */
/* train_start.h - everything before the first step: opens data and model, and resumes or starts fresh */
#ifndef ENGINE_TRAIN_TRAIN_START_H
#define ENGINE_TRAIN_TRAIN_START_H

struct checkpoint_match;
struct err;
struct model;
struct state;
struct train;

int train_start(struct train *t);
/* The weights of a fresh run: drawn from the seed, then overwritten by load_from; *match tells what it had. */
int train_first_weights(const struct train *t, const struct model *m, const struct state *into,
                        struct checkpoint_match *match, struct err *err);

#endif
