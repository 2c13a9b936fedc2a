/* SPDX-License-Identifier: Apache-2.0 */
/* train_base.h - the frozen weights below adapters: read at each start, the same in all of them
 *
 * With train.lora a checkpoint has adapters only.  Each start reads train.model.weights, which must have the numbers
 * that the run began with: their digest is in the checkpoint.
 */
#ifndef ENGINE_TRAIN_TRAIN_BASE_H
#define ENGINE_TRAIN_TRAIN_BASE_H

#include <stdbool.h>

struct err;
struct model;
struct train;

/* Whether the run has one. */
bool train_base_is_used(const struct train *t);
/* Reads it into the model of the step, and the null embedding, from t->pretrained, which it closes. */
int train_base_read(struct train *t);
/* -1, ERR_USAGE: it differs from the base of the checkpoint `dir`, which has this digest. */
int train_base_check(struct train *t, const char *dir, const char *digest);
/* A sampler's model, and its null embedding, get those of the step. */
void train_base_share(struct train *t, struct model *m, float *null);

#endif
