/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.h - low-rank adapters as diffusers and peft save them, read and written
 *
 *   pytorch_lora_weights.safetensors    diffusers: "transformer.transformer_blocks.0.attn1.to_q.lora_A.weight"; alpha
 *                                       and ranks are in the header's metadata, as "lora_adapter_metadata", a JSON text
 *                                       with keys such as "transformer.lora_alpha"
 *   adapter_model.safetensors           peft: names begin with "base_model.model."; the same keys, without the prefix,
 *                                       are in adapter_config.json next to it
 *
 * Older files use lora.down and lora.up, or have ".alpha" tensors. The rank comes from the tensors. Alpha comes from
 * alpha_pattern for the layer, else lora_alpha, else the ".alpha" tensor; without any of these it is the rank, as in
 * diffusers, whatever was used in training.
 */
#ifndef ENGINE_WEIGHTS_ADAPTER_H
#define ENGINE_WEIGHTS_ADAPTER_H

#include <stdbool.h>

#include "engine/contract/train_config.h"

struct err;
struct layout;
struct adapter;

#define ADAPTER_FILE "pytorch_lora_weights.safetensors"

enum { ADAPTER_PATH = 4096 };

/* `path`: a file, or a directory with one of both. ERR_USAGE: it does not exist, or is not for a Sana of `depth`
 * blocks; ERR_DATA: damaged, no adapters, or an unsupported kind (the message names the tensor). */
int adapter_open(struct adapter **out, const char *path, int depth, struct err *err);
void adapter_close(struct adapter *a); /* accepts NULL */

/* Ranks, alphas and layers. */
const struct lora_config *adapter_config(const struct adapter *a);
/* Does the file specify its alpha? */
bool adapter_has_alpha(const struct adapter *a);
/* Reads them into a block of the layout of a model with that config. ERR_USAGE: tensors have other shapes. */
int adapter_read(const struct adapter *a, const struct layout *l, float *weights, struct err *err);

/* Writes a file as diffusers saves it, in fp32, to a descriptor. */
int adapter_write(int fd, const struct lora_config *c, int depth, const struct layout *l, const float *weights,
                  struct err *err);

#endif
