/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - a rank's micro-batch, sharing and gradient checkpointing, chosen to fit into memory
 *
 * Pure: no clock, no I/O.
 * Chosen from the memory plan (memory.h) and the free memory, which is an argument.
 * Each choice has a reason in words.
 *
 *   micro: auto                the largest micro-batch whose plan takes at most FIT_PERCENT of
 *                              free memory, then evened out: 100 as 3 x 34, not 45 + 45 + 10
 *   parallel: auto             ddp if it fits, else zero1, else fsdp: each costs more communication
 *   grad_checkpointing: auto   only if not even one sample fits without
 */
#ifndef ENGINE_OPTIM_FIT_H
#define ENGINE_OPTIM_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/device_memory.h"
#include "engine/optim/memory.h"

struct err;
struct train_spec;

/* The rest is left for memory that a plan does not count: fragmentation, libraries, other processes. */
enum { FIT_PERCENT = 85, FIT_WHY = 200 };

struct fit_ask {
    const struct train_spec *spec;   /* the model, with the sizes of the data */
    int                      height, width, text; /* size of the largest sample */
    int                      ranks;  /* of the job */
    int                      neighbours; /* ranks that share this host's memory; 0: all */
    enum sharing             sharing;
    bool                     device, bf16;
    struct device_memory     room;   /* of the device, or on the CPU of all ranks together; 0: unknown */
    int                      micro_most; /* limit after running out of memory; 0 = none */
    int64_t                  pixels_most; /* likewise, in latent pixels of a micro-batch (memory_micro()); 0 = none */
    int64_t                  pixels_least; /* size of the smallest sample, with pixels_most */
    bool                     recompute;  /* one sample ran out of memory before */
};

struct fit {
    int                micro;
    int                pictures;  /* pictures drawn at once; 0 = none */
    bool               recompute;
    bool               fits;      /* false: nothing fits, and this choice needs the least memory */
    int                most;      /* the micro-batch that would fit, if the given one does not; or 0 */
    int64_t            budget;    /* bytes that may be used; 0: unknown */
    enum sharing       sharing;   /* set by fit_choose_sharing() */
    struct memory_plan plan;      /* plan for this choice */
    char               sharing_why[FIT_WHY];
    char               micro_why[FIT_WHY], recompute_why[FIT_WHY];
};

/* fit_choose() with the sharing of the spec, or for `parallel: auto` with the first of ddp, zero1 and fsdp that
 * fits; ask->sharing is not read. */
int fit_choose_sharing(struct fit *out, const struct fit_ask *ask, struct err *err);

const char *fit_sharing_name(enum sharing how); /* "ddp" */

/* -1 (ERR_USAGE): impossible sizes. */
int fit_choose(struct fit *out, const struct fit_ask *ask, struct err *err);

#endif
