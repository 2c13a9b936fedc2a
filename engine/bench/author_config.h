/* SPDX-License-Identifier: Apache-2.0 */
/* author_config.h - optimizer, schedule and flow shift, from the keys of the models' authors
 *
 * Sections "train" and "scheduler" of a configuration; model_config_parse() reads its "model".
 */
#ifndef ENGINE_BENCH_AUTHOR_CONFIG_H
#define ENGINE_BENCH_AUTHOR_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct optim_config;
struct schedule;

/* train.optimizer and train.gradient_clip. Without an optimizer section *opt is AdamW with the authors' defaults. */
int author_config_optimizer(struct optim_config *opt, const json_t *config, struct err *err);
/* train.lr_schedule; *known false: the configuration does not determine its rates. */
int author_config_schedule(struct schedule *lr, bool *known, const json_t *config, struct err *err);
/* scheduler.flow_shift, or 1. */
double author_config_flow_shift(const json_t *config);

#endif
