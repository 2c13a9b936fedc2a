/* SPDX-License-Identifier: Apache-2.0 */
/* lora_config.h - which layers have low-rank adapters: names of layers, ranks and scales
 *
 * Names follow diffusers (SanaTransformer2DModel), because adapters are published under these names: attn1 is
 * self-attention, attn2 cross attention, ff the feed-forward part.  As in peft's target_modules, a target matches the
 * end of a layer's name: "to_q" is attn1.to_q and attn2.to_q.
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_CONTRACT_LORA_CONFIG_H
#define ENGINE_CONTRACT_LORA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/contract/train_config.h"

struct err;

/* "attn1.to_q" */
const char *lora_config_name(enum lora_module module);
/* The layer of this name, or LORA_MODULES. */
enum lora_module lora_config_module(const char *name);
/* The layers whose name equals `target` or ends with "." and `target`: bits as in lora_config.targets; 0: none. */
unsigned lora_config_targets(const char *target);
/* diffusers' and peft's default: to_q, to_k and to_v of both attentions. */
unsigned lora_config_default(void);
/* "attn1.to_q, attn1.to_k, ...", for messages. */
void lora_config_list(char *text, size_t room);

/* A layer's adapter: its rank (0: none), and its scale. */
int lora_config_rank(const struct lora_config *c, int block, enum lora_module module);
double lora_config_alpha(const struct lora_config *c, int block, enum lora_module module);
double lora_config_scale(const struct lora_config *c, int block, enum lora_module module);

#endif
