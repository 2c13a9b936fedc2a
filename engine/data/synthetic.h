/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.h - samples of random numbers, to measure speed and memory
 *
 * Pure: no clock, no I/O.
 * Sample i is a piece of one long row of random numbers, at an offset that depends
 * only on i, and as cheap as a copy.  The shapes are
 * those of Sana's own encoders: 32 channels at 1/32 of the resolution, and as
 * many caption words and channels as the spec sets, all of them valid.
 */
#ifndef ENGINE_DATA_SYNTHETIC_H
#define ENGINE_DATA_SYNTHETIC_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { SYNTHETIC_SAMPLES = 65536 };

struct synthetic;

int synthetic_create(struct synthetic **out, struct err *err);
void synthetic_destroy(struct synthetic *s);

/* The latent and the caption of a sample, with the given counts of numbers; either may be NULL. */
void synthetic_get(const struct synthetic *s, int64_t sample, float *latent, size_t latent_floats,
                   float *caption, size_t caption_floats);

#endif
