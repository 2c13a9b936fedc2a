/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - which samples a step takes, with which noise: a pure function of the step
 *
 * The samples of all epochs form one endless line: epoch 0 in an order drawn for epoch
 * 0, then epoch 1 in its own order, and so on.  Step k takes the places k B to
 * (k + 1) B - 1 of the line.  So what is left over when an epoch does not fill its last
 * batch is carried into the next one: no sample is dropped or repeated.  A batch may
 * hold the end of one epoch and the beginning of the next.
 *
 * Noise, timestep and caption dropout of a sample come from streams keyed by (seed,
 * epoch, sample, purpose): not by rank, micro-batch or what ran before.
 */
#ifndef ENGINE_LOADER_H
#define ENGINE_LOADER_H

#include <stdint.h>

#include "engine/step.h"

struct dataset;
struct err;
struct train_spec;

/* One place of the line. */
struct loader_slot {
    int64_t  sample;
    uint32_t epoch;
};

struct loader;

/* Holds buffers for the spec's micro-batch and the orders of two epochs. Keeps `d`. */
int loader_create(struct loader **out, const struct dataset *d, const struct train_spec *s,
                  struct err *err);
void loader_destroy(struct loader *l);

/* Places first .. first + n - 1 of the line. */
void loader_plan(struct loader *l, struct loader_slot *slots, int64_t first, int n);

/* The micro-batch [from, from + n) of a step's global batch. *in points into the loader
 * until the next call. Captions are cut to the longest of the micro-batch. */
int loader_fill(struct loader *l, struct step_input *in, int64_t step, int from, int n,
                struct err *err);

#endif
