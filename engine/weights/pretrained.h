/* SPDX-License-Identifier: Apache-2.0 */
/* pretrained.h - weights that a run begins with: opened and checked against its model before anything is allocated
 *
 * PATH is what weights_source.h takes, a name on a hub whose files are in the cache (engine/hub/hub_cache.h), or a
 * checkpoint of jobctl, whose manifest is verified.  By default every tensor
 * of the model must be there, and every tensor of the file must have a place in the model, except those that are
 * computed again or never used (weights_names_optional()).  Not strict: missing ones stay as they are drawn, and others
 * are left out; but family, channels and shapes must be the model's always.
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

/* ERR_USAGE: not there; ERR_NOT_FOUND: not in the cache of the hub; ERR_DATA: damaged, no weights; ERR_SYSTEM: it cannot be read now. */
int pretrained_open(struct pretrained **out, const char *name, struct err *err);
void pretrained_close(struct pretrained *p); /* also of NULL */

/* Channels and lengths that are 0 in `cfg`, because only the data tells them, from the file. */
void pretrained_complete(const struct pretrained *p, struct model_config *cfg);
/* Finds the place of each tensor; the sentence of ERR_USAGE says what the file is and what the spec has. Channels and
 * lengths that are 0 in `cfg`, because only the data tells them, are taken from the file. May be called again. */
int pretrained_match(struct pretrained *p, const struct model_config *cfg, bool strict, struct err *err);
/* Both for a spec that names weights; sentences begin with its key. *out is NULL if it names none. */
int pretrained_of_spec(struct pretrained **out, const struct train_spec *s, struct err *err);
/* pretrained_match() again, with what the data has told. */
int pretrained_match_spec(struct pretrained *p, const struct train_spec *s, struct err *err);

/* After a match. Numbers [from, to) of tensor `i` of the model's layout; false: the file has them not. */
bool pretrained_read(const struct pretrained *p, int i, size_t from, size_t to, float *out);
/* All of it into a model with adapters, as its base. `digest`, if not NULL, gets that of the numbers as they are in the
 * file (digest.h). ERR_USAGE: a tensor is missing. */
int pretrained_freeze(const struct pretrained *p, struct model *m, char *digest, struct err *err);
/* The null embedding, `count` numbers; false: it has none. */
bool pretrained_null(const struct pretrained *p, float *out, size_t count);
const struct weights_match *pretrained_found(const struct pretrained *p);
/* "Sana 0.6B, 371 tensors (F32), diffusers' names, from PATH" */
void pretrained_text(char text[PRETRAINED_TEXT], const struct pretrained *p);
/* What is missing and what was left out, of weights that are not strict, as one sentence; false: nothing. */
bool pretrained_left_out(char text[PRETRAINED_TEXT], const struct pretrained *p);

#endif
