/* SPDX-License-Identifier: Apache-2.0 */
/* fit_shape.h - minimum sizes of a run's samples, from its spec alone
 *
 * Pure: no clock, no I/O.
 * For checks before the data is read or encoded: a plan with these sizes is never larger than the run's real one.
 */
#ifndef ENGINE_OPTIM_FIT_SHAPE_H
#define ENGINE_OPTIM_FIT_SHAPE_H

#include <stdbool.h>

struct train_spec;

struct fit_shape {
    int channels, height, width;  /* of latents */
    int words, caption_channels;
};

/* False: the spec does not determine the sizes, for example for features. */
bool fit_shape(struct fit_shape *out, const struct train_spec *spec);

#endif
