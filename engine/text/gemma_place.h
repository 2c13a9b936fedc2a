/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_place.h - the parts of a text encoder that stay where its kernels run, from run to run
 *
 * On the CPU, matrices stay where they are; a device gets each once, as bf16 if products or the file use bf16.
 */
#ifndef ENGINE_TEXT_GEMMA_PLACE_H
#define ENGINE_TEXT_GEMMA_PLACE_H

#include "engine/text/gemma.h"
#include "kernels/kernels.h"

/* The table is the backend's at this time. NULL: out of memory. */
struct gemma_place *gemma_place_open(void);
void gemma_place_close(struct gemma_place *p); /* accepts NULL */
const struct kern_ops *gemma_place_ops(const struct gemma_place *p);

/* 1 + w of a norm. NULL with an error. */
const float *gemma_place_norm(struct gemma_place *p, const struct gemma_weights *weights, const char *name,
                              size_t count, struct err *err);
/* scratch: on the CPU room for `count` floats, unless weights->in_place. */
int gemma_place_matrix(struct gemma_place *p, const struct gemma_weights *weights, const char *name, size_t count,
                       float *scratch, struct gemma_matrix *out, struct err *err);
/* Cosines and sines of at least `positions` positions, as turn_halves() wants them. */
int gemma_place_angles(struct gemma_place *p, const struct gemma_config *cfg, int positions, const float **cosine,
                       const float **sine, struct err *err);
/* n floats for one run, uninitialized; valid until the next call. NULL with an error. */
float *gemma_place_room(struct gemma_place *p, size_t n, struct err *err);

/* The same for keys and values of a prefix; the caller frees them. */
float *gemma_place_new(struct gemma_place *p, size_t n, struct err *err);
void gemma_place_drop(const struct gemma_place *p, float *array); /* accepts NULL */

#endif
