/* SPDX-License-Identifier: Apache-2.0 */
/* weights_source.h - tensors by name, from whatever container a model is published in
 *
 *   FILE.pth, .pt, .bin       from torch.save(): the tensors in "state_dict", "model" or "module", or else in the
 *   object itself FILE.safetensors
 *   FILE.index.json           names the shards next to it, in either format
 *   DIRECTORY                 containing one of these, or model_index.json and a folder per part (transformer, vae,
 *                             text_encoder)
 *
 * The format of a file is recognized by its bytes, not by its name. Opening checks everything but the numbers: shards
 * exist and have exactly the tensors that their index names, and no name occurs twice.
 */
#ifndef ENGINE_WEIGHTS_WEIGHTS_SOURCE_H
#define ENGINE_WEIGHTS_WEIGHTS_SOURCE_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>

struct err;
struct tensor_view;
struct weights_source;

/* `part`: the folder of a pipeline, "transformer" or "vae". ERR_SYSTEM: it cannot be read; ERR_DATA: it is damaged, or
 * has no weights. */
int weights_source_open(struct weights_source **out, const char *path, const char *part, struct err *err);
void weights_source_close(struct weights_source *w); /* accepts NULL */

/* By name; valid until the source is closed. */
int weights_source_len(const struct weights_source *w);
const struct tensor_view *weights_source_at(const struct weights_source *w, int i);
const struct tensor_view *weights_source_find(const struct weights_source *w, const char *name); /* or NULL */

/* The file or index that was read. */
const char *weights_source_path(const struct weights_source *w);
/* The object in config.json next to it, and its path; a new reference, NULL if there is no such file. ERR_DATA: not
 * a JSON object. */
int weights_source_config(json_t **config, char path[PATH_MAX], const struct weights_source *w, struct err *err);
/* "torch.save()", "safetensors" or "safetensors, 2 shards" */
const char *weights_source_form(const struct weights_source *w);
/* Tensors of the file that are not weights: optimizer state, averages, random numbers. */
int weights_source_others(const struct weights_source *w);

#endif
