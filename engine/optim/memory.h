/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what a run needs of a device's memory, before it takes it
 *
 * There is no second set of formulas: the step of a run is created by the code that
 * creates it in earnest, on a table that counts instead of allocating
 * (backend_count_begin()).  Only what is taken later, inside kernels and
 * collectives, is estimated, from above.
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
    struct model_limits limits;  /* the micro-batch, and whether blocks are computed again */
    int64_t             pixels_most; /* latent pixels that a micro-batch may have, but for one
                                        sample; 0 = no limit */
    struct optim_config optim;
    bool                device;  /* a GPU, whose memory is not this process's */
    bool                bf16;
    bool                reproducible; /* reproducible: true */
    int                 pictures; /* drawn at once, before or after training; 0 = none */
    int                 ranks;
    enum sharing        sharing;
};

struct memory_plan {
    struct model_limits limits; /* what arrays are made for */
    int64_t bytes[USES];  /* of one rank; USE_HOST is not the device's */
    int64_t total;        /* of the device: all but USE_HOST; on the CPU all */
    int64_t params;       /* trained numbers */
    int64_t checkpoint;   /* bytes of one on disk: weights and state */
    double  again;        /* work of computing blocks again, as a share of the step without */
};

/* A failure is one of the sizes: ERR_USAGE, as step_create() would say it. Changes nothing. */
int memory_plan(struct memory_plan *out, const struct memory_ask *ask, struct err *err);

/* The largest micro-batch from 1 to `most` whose plan stays within `room` bytes, or 0. The plan of
 * that one (of 1, if none fits) is left in *out. ask->limits.batch is not read. */
int memory_largest_micro(struct memory_plan *out, const struct memory_ask *ask, int most,
                         int64_t room, struct err *err);

/* The samples of a size that a micro-batch of at most `micro` may have: memory_ask.pixels_most. */
int memory_micro(int micro, int64_t pixels_most, int height, int width);

enum { MEMORY_TEXT = 32 };
/* "33.6 MiB", "12.50 GiB"; returns out. */
const char *memory_text(int64_t bytes, char out[MEMORY_TEXT]);

#endif
