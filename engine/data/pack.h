/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - a collection of pictures encoded once into one file, which later runs map
 *
 * A safetensors file: latent [N,C,H,W], caption [N,L,D] and mask [N,L] as in a shard of
 * features (engine/data/dataset.h), with multi_scale once per bucket; null [L,D]
 * for guidance, mean [C] and deviation [C] (latents are standardised per channel; the
 * deviation has a floor of 0.15 of the largest, so that invisible frequencies are not
 * amplified), and as metadata the names, the captions, the digest of the inputs and that of
 * the contents.
 *
 * The file's name contains the digest of all its inputs: names, sizes and
 * times of the pictures, captions, settings.  Changed inputs make another file.  Of several captions a pack has the one
 * with the best score, or the prompt.
 */
#ifndef ENGINE_DATA_PACK_H
#define ENGINE_DATA_PACK_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct train_spec;

enum { PACK_PATH = 4096 };

/* Called after each picture; false stops the packing (ERR_CONFLICT). May be NULL. */
typedef bool (*pack_tick_fn)(void *arg, int64_t done, int64_t total);

enum pack_made {
    PACK_FOUND,
    PACK_BUILT,
    PACK_RENEWED /* replaced a pack of an older format, which was removed */
};

/* The pack of s->data_path in `dir` (which is created if missing): found, or built if it is missing
 * or damaged.  path[PACK_PATH] gets its name.  A picture that cannot be read is an ERR_DATA that
 * names it. */
int pack_ensure(char *path, enum pack_made *made, const struct train_spec *s, const char *dir,
                pack_tick_fn tick, void *arg, struct err *err);

#endif
