/* SPDX-License-Identifier: Apache-2.0 */
/* pretrained.h - weights that a run begins with: opened and checked against its model before anything is allocated
 *
 * PATH is what weights_source.h takes, a name on a hub whose files are in the cache (engine/hub/hub_cache.h), or a
 * checkpoint of jobctl, whose manifest is verified. By default the file must have every tensor of the model, and the
 * model every tensor of the file, except those that are computed again or never used (weights_names_optional()). Not
 * strict: missing ones keep their random initial values, and others are ignored; but family, channels and shapes must
 * be the model's always, and so must be what no tensor shows (weights_config.h).
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

/* ERR_USAGE: not there; ERR_NOT_FOUND: not in the cache of the hub; ERR_DATA: damaged, no weights; ERR_SYSTEM: it
 * cannot be read now. */
int pretrained_open(struct pretrained **out, const char *name, struct err *err);
void pretrained_close(struct pretrained *p); /* also of NULL */

/* Channels and lengths that are 0 in `cfg`, because they depend on the data, from the file. */
void pretrained_complete(const struct pretrained *p, struct model_config *cfg);
/* Finds the place of each tensor; the sentence of ERR_USAGE names the model of the file and that of the spec. Channels
 * and lengths that are 0 in `cfg`, because they depend on the data, are taken from the file. May be called again. */
int pretrained_match(struct pretrained *p, const struct model_config *cfg, bool strict, struct err *err);
/* Both for a spec that names weights; sentences begin with its key. *out is NULL if it names none. */
int pretrained_of_spec(struct pretrained **out, const struct train_spec *s, struct err *err);
/* pretrained_match() again, with the sizes found in the data. */
int pretrained_match_spec(struct pretrained *p, const struct train_spec *s, struct err *err);

/* After a match. Numbers [from, to) of tensor `i` of the model's layout; false: the file does not have them. */
bool pretrained_read(const struct pretrained *p, int i, size_t from, size_t to, float *out);
/* All of it into a model with adapters, as its base. `digest`, if not NULL, gets that of the numbers as they are in the
 * file (digest.h). ERR_USAGE: a tensor is missing. */
int pretrained_freeze(const struct pretrained *p, struct model *m, char *digest, struct err *err);
/* The null embedding, `count` numbers; false: it has none. */
bool pretrained_null(const struct pretrained *p, float *out, size_t count);
const struct weights_match *pretrained_found(const struct pretrained *p);
/* "Sana 0.6B, 371 tensors (F32), diffusers' names, from PATH" */
void pretrained_text(char text[PRETRAINED_TEXT], const struct pretrained *p);
/* Missing and ignored tensors of weights that are not strict, as one sentence; false: there are none. */
bool pretrained_left_out(char text[PRETRAINED_TEXT], const struct pretrained *p);

#endif
