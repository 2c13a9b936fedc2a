/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blame.h - which GPU a failure speaks against, and when that is enough to leave it out
 *
 * Pure: no clock, no I/O.
 * What the kernel, the driver or the GPU itself has told of is enough at once.  A crash, a
 * hang or a broken collective may be anybody's: it is enough when the same one of several ranks
 * is to blame twice in a row and no step was gained, and only while nothing is left out yet: a
 * program that always fails on rank 1 would lose one GPU after the other else.
 */
#ifndef AGENT_CORE_GPU_BLAME_H
#define AGENT_CORE_GPU_BLAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/cause.h"

struct agent_exit;

enum { GPU_BLAME_UUID = 64 };

struct gpu_blame {
    struct gpu_blame_gpu {
        char uuid[GPU_BLAME_UUID], pci[16];
        int  node; /* a slot is one of a machine */
    }   *gpus;     /* of each rank, NULL: they have none */
    int  np;
    bool spent;    /* something is left out already: only proof counts */
    int  last;     /* the rank that was last to blame for what may be anybody's, -1 = none */
    int  times;    /* in a row */
    int  guilty;   /* rank, -1 = none */
    bool proof;
};

/* The plan that is carried out (agent/plan/plan.h) and its facts; NULL: no GPUs. -1: no memory. */
int gpu_blame_init(struct gpu_blame *s, const json_t *plan, const json_t *facts);
void gpu_blame_fini(struct gpu_blame *s);

/* A generation failed; e: of the rank to blame (-1: of nobody alone). gained: steps that were new. */
void gpu_blame_failure(struct gpu_blame *s, const struct verdict *v, const struct agent_exit *e,
                       int64_t gained);

/* The GPU that must be left out after the last failure, or NULL; once each. */
const char *gpu_blame_guilty(const struct gpu_blame *s);

#endif
