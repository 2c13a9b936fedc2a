/* SPDX-License-Identifier: Apache-2.0 */
/* pretrained.h - a run's initial weights, opened and checked against its model before anything is allocated
 *
 * PATH is anything that weights_source.h accepts, a hub name whose files are in the cache (engine/hub/hub_cache.h), or
 * a jobctl checkpoint, whose manifest is verified. By default, file and model must have the same tensors, except those
 * that are recomputed or never used (weights_names_optional()). If not strict, missing tensors keep their random
 * initial values, and extra ones are ignored; but family, channels, shapes, and settings that no tensor shows
 * (weights_config.h), must always match the model.
 */
#ifndef ENGINE_WEIGHTS_PRETRAINED_H
#define ENGINE_WEIGHTS_PRETRAINED_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/weights/weights_match.h"

struct err;
struct model;
struct model_config;
struct pretrained;
struct train_spec;

enum { PRETRAINED_TEXT = 1400 };

/* ERR_USAGE: no such path; ERR_NOT_FOUND: not in the hub's cache; ERR_DATA: damaged, or no weights; ERR_SYSTEM:
 * cannot be read at present. */
int pretrained_open(struct pretrained **out, const char *name, struct err *err);
void pretrained_close(struct pretrained *p); /* accepts NULL */

/* Fills in channels and lengths that are 0 in `cfg`, because they depend on the data, from the file. */
void pretrained_complete(const struct pretrained *p, struct model_config *cfg);
/* Locates each tensor; the ERR_USAGE message names the file's model and the spec's. Channels and lengths that are 0
 * in `cfg`, because they depend on the data, are taken from the file. May be called again. */
int pretrained_match(struct pretrained *p, const struct model_config *cfg, bool strict, struct err *err);
/* Both, for a spec that names weights; messages begin with its key. *out is NULL if it names none. */
int pretrained_of_spec(struct pretrained **out, const struct train_spec *s, struct err *err);
/* pretrained_match() again, with the sizes found in the data. */
int pretrained_match_spec(struct pretrained *p, const struct train_spec *s, struct err *err);

/* After a match. Numbers [from, to) of tensor `i` of the model's layout; false: the file does not have them. */
bool pretrained_read(const struct pretrained *p, int i, size_t from, size_t to, float *out);
/* Copies everything into a model with adapters, as its base. `digest`, if not NULL, gets the digest of the numbers
 * as stored in the file (digest.h). ERR_USAGE: a tensor is missing. */
int pretrained_freeze(const struct pretrained *p, struct model *m, char *digest, struct err *err);
/* The null embedding, `count` numbers; false: the file has none. */
bool pretrained_null(const struct pretrained *p, float *out, size_t count);
const struct weights_match *pretrained_found(const struct pretrained *p);
/* "Sana 0.6B, 371 tensors (F32), diffusers' names, from PATH" */
void pretrained_text(char text[PRETRAINED_TEXT], const struct pretrained *p);
/* Missing and ignored tensors if not strict, as one sentence; false: none. */
bool pretrained_left_out(char text[PRETRAINED_TEXT], const struct pretrained *p);

#endif
