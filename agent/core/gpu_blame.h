/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blame.h - which GPU a failure implicates, and when that is enough to exclude it
 *
 * Pure: no clock, no I/O.
 * An error of the hardware, reported by the kernel, the driver or CUDA (ECC, NVLink), excludes the GPU at once. A crash, a
 * hang or another error of CUDA, such as an illegal memory access, may have other causes: it excludes the GPU of a rank
 * only when that rank, and no other, fails so twice in a row without a new step, and only while no GPU is excluded yet.
 * Otherwise a program that always fails on rank 1 would lose one GPU after another. A rank whose collective failed is
 * the victim of another rank.
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
        int node; /* addresses are unique per node */
    } * gpus;     /* one per rank; NULL: no GPUs */
    int  np;
    bool spent; /* a GPU is already excluded: from now on only proof counts */
    int last;   /* root-cause rank of the last failure without proof, -1 = none */
    int times;  /* consecutive failures of that rank */
    int guilty; /* rank whose GPU to exclude, -1 = none */
    bool proof;
};

/* Takes the plan being executed (agent/plan/plan.h) and its facts; NULL: no GPUs. -1: no memory. */
int gpu_blame_init(struct gpu_blame *s, const json_t *plan, const json_t *facts);
void gpu_blame_fini(struct gpu_blame *s);

/* Records a failed generation. e: the root-cause rank (-1: no single one); gained: number of new steps. */
void gpu_blame_failure(struct gpu_blame *s, const struct verdict *v, const struct agent_exit *e, int64_t gained);

/* The GPU to exclude after the last failure, or NULL; each is reported once. */
const char *gpu_blame_guilty(const struct gpu_blame *s);

#endif
