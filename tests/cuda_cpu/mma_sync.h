/* SPDX-License-Identifier: Apache-2.0 */
/* mma_sync.h - stand-ins for ldmatrix, mma.sync and cp.async (kernels/mma.cuh), by fragments of the PTX ISA
 *
 * The first two are of a warp: all lanes must take part, and their meeting orders no memory.
 */
#ifndef CUDA_CPU_MMA_SYNC_H
#define CUDA_CPU_MMA_SYNC_H

#include <stdint.h>

/* `many` matrices, 4 or 2, to as many registers; `row` is read of lanes below 8 many. */
void cuda_cpu_load_matrix(uint32_t *to, int many, const void *row, bool transposed);
void cuda_cpu_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);

/* A copy is made when its thread waits for it, as late as may be; until then NaNs are at its place. */
void cuda_cpu_copy(void *to, const void *from, unsigned bytes, bool there);
void cuda_cpu_copy_commit(void);
void cuda_cpu_copy_wait(unsigned left);
/* Before a block: dies if the one before has not waited for all of its copies. */
void cuda_cpu_copy_none(void);

#endif
