/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - the samples of a step as a batch, with their noise or the streams to draw it from
 *
 * engine/data/batch_plan.h chooses the samples.  Noise, timestep and caption dropout of a sample
 * come from streams keyed by (seed, epoch, sample, purpose); rank, micro-batch and earlier
 * steps have no influence.
 */
#ifndef ENGINE_DATA_LOADER_H
#define ENGINE_DATA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/data/batch_plan.h"
#include "engine/data/step_input.h"

struct dataset;
struct err;
struct train_spec;

struct loader;

/* What a device requires. */
struct loader_device {
    int (*pin)(void *at, size_t bytes); /* pins memory that it reads (kernels/cuda.h): 0, or -1; or NULL */
    void (*unpin)(void *at, size_t bytes);
    bool bf16;                          /* captions in bf16: step_input's y_bf16 instead of its y */
    bool draws;                         /* it draws the noise: step_input's streams instead of its noise */
};

/* Holds buffers for the spec's micro-batch of the largest bucket, and the plan. Keeps `d`. `device` may be NULL. */
int loader_create(struct loader **out, const struct dataset *d, const struct train_spec *s,
                  const struct loader_device *device, struct err *err);
void loader_destroy(struct loader *l);

struct batch_plan *loader_plan(struct loader *l);

/* The micro-batch [from, from + n) of a step's global batch. *in points into the loader
 * until the next call. Captions are cut to the longest of the micro-batch. */
int loader_fill(struct loader *l, struct step_input *in, int64_t step, int from, int n, struct err *err);
/* Reads this micro-batch on a thread, into a second buffer of the same size, while the caller uses the last
 * loader_fill(). If the next loader_fill() asks for it, that call only waits for the thread, and returns its errors;
 * the numbers are the same. */
int loader_ahead(struct loader *l, int64_t step, int from, int n, struct err *err);
/* The samples of the last loader_fill(), as many as it was called for. */
const struct batch_slot *loader_slots(const struct loader *l);

/* Calls of loader_fill(), and those whose batch loader_ahead() had begun to read; it may have been waited for. */
struct loader_counts {
    int64_t all, ahead;
};
struct loader_counts loader_counts(const struct loader *l);

#endif
