/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - plans the device memory that a run needs
 *
 * There is no second set of formulas: the plan creates a step with the code that creates
 * the real one, on a backend that counts instead of allocating
 * (backend_count_begin()).  Only memory that kernels and collectives take later is
 * estimated, from above.
 */
#ifndef ENGINE_OPTIM_MEMORY_H
#define ENGINE_OPTIM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/dist/shard.h"
#include "engine/model/backend.h"
#include "engine/model/model.h"
#include "engine/optim/optim.h"

struct err;

/* A rank of a run. */
struct memory_ask {
    struct model_config model;
    struct model_limits limits;  /* the micro-batch, and gradient checkpointing */
    int64_t             pixels_most; /* maximum latent pixels of a micro-batch, but one sample is always allowed; 0 =
                                      * no limit */
    struct optim_config optim;
    bool                device;  /* a GPU with its own memory */
    bool                bf16;
    bool                reproducible; /* reproducible: true */
    int                 pictures; /* drawn at once before or after training; 0 = none */
    int                 ranks;
    enum sharing        sharing;
};

struct memory_plan {
    struct model_limits limits; /* the rank's arrays */
    int64_t bytes[USES];  /* per rank; USE_HOST is host memory */
    int64_t total;        /* bytes on the device: all but USE_HOST; on the CPU everything */
    int64_t params;       /* trained numbers */
    int64_t checkpoint;   /* bytes on disk: weights and optimizer state */
    double  again;        /* extra work of gradient checkpointing, as a fraction of a step without */
};

/* Fails like step_create(): ERR_USAGE for impossible sizes. Leaves nothing allocated. */
int memory_plan(struct memory_plan *out, const struct memory_ask *ask, struct err *err);

/* The largest micro-batch from 1 to `most` whose plan fits into `room` bytes, or 0. *out gets its plan
 * (that of 1, if none fits). ask->limits.batch is not read. */
int memory_largest_micro(struct memory_plan *out, const struct memory_ask *ask, int most,
                         int64_t room, struct err *err);

/* The number of samples of this size that memory_ask.pixels_most allows in a micro-batch of at most `micro`. */
int memory_micro(int micro, int64_t pixels_most, int height, int width);

#endif
