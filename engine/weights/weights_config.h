/* SPDX-License-Identifier: Apache-2.0 */
/* weights_config.h - models that only resemble one that the engine computes are refused, by a key or a tensor of theirs
 *
 * Tensors do not tell everything: a Sana of 2K pixels has those of one of 1K, and adds position embeddings. The rest is
 * in config.json beside the weights, as diffusers writes it. A table has every key of it: what the engine computes from
 * the spec must be equal, what it cannot compute must be off, and a key that is in no table is refused too. Weights
 * without a config.json have only their tensors: those of Sana-Sprint, a ControlNet or Sana-Video are known by name,
 * and a stored pos_embed that is not zero means position embeddings.
 */
#ifndef ENGINE_WEIGHTS_WEIGHTS_CONFIG_H
#define ENGINE_WEIGHTS_WEIGHTS_CONFIG_H

struct err;
struct model_config;
struct weights_source;

/* ERR_USAGE: the sentence names file, key or tensor, and what it is of; ERR_DATA: config.json is damaged. Sizes of `cfg`
 * that no tensor shows are compared too; NULL: there is no spec yet. */
int weights_config_check(const struct weights_source *w, const struct model_config *cfg, struct err *err);

#endif
