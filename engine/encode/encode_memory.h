/* SPDX-License-Identifier: Apache-2.0 */
/* encode_memory.h - how much memory the encoders of a data set need while they run */
#ifndef ENGINE_ENCODE_ENCODE_MEMORY_H
#define ENGINE_ENCODE_ENCODE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct encode;

/* Bytes of the autoencoder's encoder for the largest picture: of the host, or of a device with products of bf16 or
 * fp32. */
int64_t encode_memory_vae(const struct encode *e, bool device, bool bf16);
int64_t encode_memory_text(const struct encode *e, bool device);

#endif
