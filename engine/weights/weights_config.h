/* SPDX-License-Identifier: Apache-2.0 */
/* weights_config.h - refuses models that only resemble a supported one, by one of their keys or tensors
 *
 * Tensors do not show everything: a 2K-pixel Sana has the same tensors as a 1K one, but adds position embeddings. The
 * rest is in diffusers' config.json next to the weights. A table lists every key: values computed from the spec must be
 * equal, features that the engine lacks must be off, and unknown keys are refused. Weights without a config.json have
 * only their tensors: those of Sana-Sprint, a ControlNet or Sana-Video are recognized by name, and a stored pos_embed
 * that is not zero means position embeddings.
 */
#ifndef ENGINE_WEIGHTS_WEIGHTS_CONFIG_H
#define ENGINE_WEIGHTS_WEIGHTS_CONFIG_H

struct err;
struct model_config;
struct weights_source;

/* ERR_USAGE: the message names file, key or tensor, and the model it belongs to; ERR_DATA: config.json is damaged.
 * Sizes in `cfg` that no tensor shows are compared too; NULL: there is no spec yet. */
int weights_config_check(const struct weights_source *w, const struct model_config *cfg, struct err *err);

#endif
