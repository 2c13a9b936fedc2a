/* SPDX-License-Identifier: Apache-2.0 */
/* count.h - counts what a launch does: instructions by class, memory, bank conflicts; and derives time bounds
 *
 * Counts depend on the kernel, its shape and, where it branches on data, on the data: not on the machine or time.
 */
#ifndef PTX_COUNT_H
#define PTX_COUNT_H

#include "tests/ptx/code.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ptx_counts {
    uint64_t instructions;         /* of PTX, by warps */
    uint64_t slots[PTX_CLASSES];   /* instructions of the machine, about (the costs in alu.c), by warps */
    uint64_t threads[PTX_CLASSES]; /* the same by active lanes */
    uint64_t flops, tensor_flops;
    uint64_t bytes[2], sectors[2], ideal[2]; /* global memory: [0] read, [1] written; sectors of 32 bytes, and those
                                                that the same bytes would need if they were contiguous */
    uint64_t wavefronts, wavefronts_ideal;   /* of shared memory */
    uint64_t blocks, blocks_run;             /* of the grid; that were counted */
};

struct ptx_bound {
    double      ms;
    const char *by; /* what takes that long */
};

enum ptx_machine { PTX_A100, PTX_H100, PTX_H200 };

/* No launch with these counts is faster. */
struct ptx_bound ptx_bound_of(const struct ptx_counts *c, enum ptx_machine m);
/* From the blocks that were run to all of the grid. */
double ptx_scaled(const struct ptx_counts *c, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
