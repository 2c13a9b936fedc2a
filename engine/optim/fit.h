/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - how much of a batch a rank takes at once, and whether it computes blocks again
 *
 * Pure: no clock, no I/O.
 * Chosen from the memory plan (memory.h) and the memory that is free, each choice
 * with its reason in words.  What is free is an argument.
 *
 *   micro: auto                the largest micro-batch whose plan takes at most FIT_PERCENT of
 *                              what is free, then evened out: 100 as 3 x 34, not 45 + 45 + 10
 *   parallel: auto             ddp where that fits, then zero1, then fsdp: each costs more exchange
 *   grad_checkpointing: auto   only where it does not fit otherwise, not even one sample
 */
#ifndef ENGINE_OPTIM_FIT_H
#define ENGINE_OPTIM_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/device_memory.h"
#include "engine/optim/memory.h"

struct err;
struct train_spec;

/* The rest is for what a plan cannot know: fragments, libraries, other processes. */
enum { FIT_PERCENT = 85, FIT_WHY = 200 };

struct fit_ask {
    const struct train_spec *spec;   /* its model with the sizes that follow from the data */
    int                      height, width, text; /* of the largest sample */
    int                      ranks;  /* of the job */
    enum sharing             sharing;
    bool                     device, bf16;
    struct device_memory     room;   /* of the device; on the CPU all ranks share it; 0: unknown */
    int                      micro_most; /* it was too much before: no more than this; 0 = no limit */
    int64_t                  pixels_most; /* likewise, in latent pixels of all its samples, whatever
                                             their size (memory_micro()); 0 = no limit */
    int64_t                  pixels_least; /* of the smallest sample, with pixels_most */
    bool                     recompute;  /* it was too much before, with one sample */
};

struct fit {
    int                micro;
    bool               recompute;
    bool               fits;      /* or nothing fits, and this is the least there is */
    int                most;      /* micro-batch that would fit, where the given one does not; or 0 */
    int64_t            budget;    /* bytes of the room that may be used; 0: unknown */
    enum sharing       sharing;   /* of fit_choose_sharing() */
    struct memory_plan plan;      /* of the choice */
    char               sharing_why[FIT_WHY];
    char               micro_why[FIT_WHY], recompute_why[FIT_WHY];
};

/* The same, and `parallel: auto` first: the least sharing that fits with as large a micro-batch as is
 * wanted of it; ask->sharing is not read. */
int fit_choose_sharing(struct fit *out, const struct fit_ask *ask, struct err *err);

const char *fit_sharing_name(enum sharing how); /* "ddp" */

/* -1: sizes that no model can have. */
int fit_choose(struct fit *out, const struct fit_ask *ask, struct err *err);

#endif
