/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_cpu.h - internals of the stand-in; programs include cuda_runtime.h only */
#ifndef CUDA_CPU_H
#define CUDA_CPU_H

#include <cuda_runtime.h>

#include <stddef.h>
#include <stdint.h>

#include <functional>

enum {
    CUDA_CPU_THREADS = 1024,
    CUDA_CPU_WARP = 32,
    CUDA_CPU_SHARED = 227 * 1024, /* the most of any target */
    CUDA_CPU_FREE = 48 * 1024     /* of shared memory, fixed arrays included, without asking */
};
extern const size_t cuda_cpu_region_bytes;
#define CUDA_CPU_REGION cuda_cpu_region_bytes

/* --- memory (cuda_cpu.cc) */
char *cuda_cpu_region(void);        /* device memory, CUDA_CPU_REGION bytes of addresses; NULL: none yet */
char *cuda_cpu_shared_memory(void); /* CUDA_CPU_SHARED bytes */
/* Whether all of it lies in one live allocation. */
bool cuda_cpu_is_device(const void *p, size_t bytes);
/* The live allocation that p lies in. */
bool cuda_cpu_piece(const void *p, uint64_t *from, uint64_t *to);
/* The GPU that is imitated, for those who have a struct cudaDeviceProp of their own. */
extern "C" void cuda_cpu_target(char name[256], int *major, int *minor, size_t *shared);
/* Like cuda_cpu_launch(), but body is called once and runs all threads; its kernel has `fixed` bytes of shared arrays
 * (tests/ptx). */
cudaError_t cuda_cpu_launch_whole(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                                  size_t fixed, cudaStream_t stream, const std::function<void()> &body);
cudaError_t cuda_cpu_error(void);   /* the first failure, which stays */
cudaError_t cuda_cpu_last(cudaError_t e); /* e, which cudaGetLastError() then tells this thread once */
void cuda_cpu_fault(void);          /* the launch in progress has done what a GPU may not */
bool cuda_cpu_fails(const char *how);
bool cuda_cpu_bare(void); /* $CUDA_CPU_BARE or $CUDA_CPU_EDGES */
int cuda_cpu_thread(void);          /* of the block, 0 on */

/* --- streams (streams.cc): a call is kept until somebody waits for it, directly or by an event */

/* The step returns false as long as it is not done. A capture keeps it instead of the stream. */
cudaError_t cuda_cpu_submit(cudaStream_t s, const std::function<bool()> &step);
cudaError_t cuda_cpu_submit_call(cudaStream_t s, const std::function<void()> &call);
void cuda_cpu_finish(cudaStream_t s);
void cuda_cpu_finish_all(void);
bool cuda_cpu_recording(void);
unsigned long cuda_cpu_events(void); /* recorded so far, in any stream */
void cuda_cpu_not_recorded(const char *what); /* dies, if there is a capture: a GPU refuses it there */

/* --- watch.cc: checks each access of kernels that were compiled with -fsanitize=thread */
bool cuda_cpu_watching(void);
void cuda_cpu_watch_piece(size_t at, size_t bytes, bool there); /* an allocation, by its offset in the region */
void cuda_cpu_watch_launch(const char *name, size_t shared);
void cuda_cpu_watch_block(void);
void cuda_cpu_watch_barrier(void);
void cuda_cpu_watch_warp(int warp);
/* Bytes of fixed shared arrays that the launch has touched. */
size_t cuda_cpu_watch_end(void);

#endif
