/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.h - converts a configuration of NVlabs/Sana (`train.config`) to keys of our `train:` block
 *
 * Each key of the file is treated in one of four ways, listed in recipe_rows.c: its value is used; it must have the
 * only value that this engine supports; it has no effect in jobctl; or it is unknown, and the file is refused with the
 * key's name. Keys set in the job's own file take precedence.
 *
 * The learning rate is theirs times the square root of batch / 256 (auto_lr of their TrainingConfig), where the batch
 * is train.batch.global, or if that is not given train_batch_size x gradient_accumulation_steps, as on one GPU.
 */
#ifndef CONTROLLER_SPEC_RECIPE_H
#define CONTROLLER_SPEC_RECIPE_H

struct err;
struct yaml_doc;
struct yaml_node;

/* `text` is the content of the file `name`; `root` a job spec, a map of `doc`. ERR_USAGE names file, line and key. */
int recipe_apply(struct yaml_doc *doc, struct yaml_node *root, const char *text, const char *name, struct err *err);

#endif
