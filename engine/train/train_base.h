/* SPDX-License-Identifier: Apache-2.0 */
/* train_base.h - the frozen weights under adapters: read at each start, and always the same
 *
 * With train.lora a checkpoint has adapters only.  Each start reads train.model.weights, which must have the same
 * numbers as at the run's first start: their digest is in the checkpoint.
 */
#ifndef ENGINE_TRAIN_TRAIN_BASE_H
#define ENGINE_TRAIN_TRAIN_BASE_H

#include <stdbool.h>

struct err;
struct model;
struct train;

/* Does the run have frozen weights? */
bool train_base_is_used(const struct train *t);
/* Reads them into the step's model, and the null embedding, from t->pretrained, which it closes. */
int train_base_read(struct train *t);
/* -1, ERR_USAGE: they differ from the base of the checkpoint `dir`, which has this digest. */
int train_base_check(struct train *t, const char *dir, const char *digest);
/* Copies the step's base and null embedding to a sampler's model. */
void train_base_share(struct train *t, struct model *m, float *null);

#endif
