/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_rotary.h - rotary positions of a decoder: pairs (i, i + dim / 2) of each head turn with the position
 *
 * The angle of pair i at position p is p * theta^(-2i / dim), in floats as the authors have it.
 */
#ifndef ENGINE_TEXT_GEMMA_ROTARY_H
#define ENGINE_TEXT_GEMMA_ROTARY_H

#include <stddef.h>

/* Cosines and sines of positions 0 .. length - 1, dim / 2 of each. */
void gemma_rotary_tables(float *cosine, float *sine, int length, int dim, double theta);

#endif
