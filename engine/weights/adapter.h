/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.h - low-rank adapters as diffusers and peft save them, read and written
 *
 *   pytorch_lora_weights.safetensors    diffusers: "transformer.transformer_blocks.0.attn1.to_q.lora_A.weight"; alpha
 *                                       and ranks are in the header's metadata, as "lora_adapter_metadata", a JSON text
 *                                       with keys such as "transformer.lora_alpha"
 *   adapter_model.safetensors           peft: names begin with "base_model.model."; the same keys, without the prefix,
 *                                       are in adapter_config.json beside it
 *
 * Older files say lora.down and lora.up, or have ".alpha" tensors.  A rank is that of the tensors; an alpha is that of
 * alpha_pattern for the layer, then lora_alpha, then the ".alpha" tensor; without any of these it is the rank, as
 * diffusers takes it, whatever was trained.
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
 * blocks; ERR_DATA: damaged, no adapters, or of a kind that is not supported (the sentence names the tensor). */
int adapter_open(struct adapter **out, const char *path, int depth, struct err *err);
void adapter_close(struct adapter *a); /* also of NULL */

/* Ranks, alphas and layers. */
const struct lora_config *adapter_config(const struct adapter *a);
/* Whether the file says its alpha. */
bool adapter_has_alpha(const struct adapter *a);
/* Into a block of the layout of a model with that config. ERR_USAGE: tensors of another shape. */
int adapter_read(const struct adapter *a, const struct layout *l, float *weights, struct err *err);

/* A file as diffusers saves it, in fp32, to a descriptor. */
int adapter_write(int fd, const struct lora_config *c, int depth, const struct layout *l, const float *weights,
                  struct err *err);

#endif
