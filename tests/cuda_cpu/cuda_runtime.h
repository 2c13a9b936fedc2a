/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_runtime.h - a stand-in: the .cu files as ordinary C++, kernels run on the CPU
 *
 * Every thread of a block is a fiber with its own stack, so that barriers
 * and shuffles between threads work; blocks run one after another.  Device memory is one region that (with
 * CUDA_CPU_GUARD) only kernels and copies may access, is full of NaNs when new, and has a fence after each piece.
 *
 * Streams are queues (streams.cc).  Kernels that were compiled with -fsanitize=thread have each of their
 * accesses to memory checked (watch.cc); limits of a launch are those of the GPU that CUDA_CPU_GPU names.
 *
 * What passes here has its indices, its arithmetic and its barriers right.  It says nothing about what
 * nvcc makes of it, about speed, or about what only hardware has.
 */
#ifndef CUDA_CPU_RUNTIME_H
#define CUDA_CPU_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#define CUDA_ON_CPU 1

#define __global__ static
#define __device__
#define __host__
/* Apart, so that what is past the end of one is not the beginning of the next (watch.cc). */
#define __shared__ static __attribute__((aligned(256)))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

extern dim3 gridDim, blockDim, blockIdx, threadIdx;

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorNvlinkUncorrectable = 220,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900
} cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

typedef struct cuda_cpu_stream *cudaStream_t;
typedef struct cuda_cpu_event *cudaEvent_t;
typedef struct cuda_cpu_graph *cudaGraph_t, *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType_t;

struct cudaFuncAttributes {
    int numRegs;
};

struct cudaDeviceProp {
    char name[256];
    int  major, minor;
    size_t sharedMemPerBlockOptin;
    int  pageableMemoryAccessUsesHostPageTables;
};

extern "C" {
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *v);
cudaError_t cudaRuntimeGetVersion(int *v);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t s);
enum { cudaHostRegisterDefault = 0 };
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute what, int value);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *to, const void *kernel);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s);
}

/* Runs body once per thread of the grid, when the stream comes to it. */
cudaError_t cuda_cpu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                            cudaStream_t stream, const std::function<void()> &body);
/* The clock that events read, in milliseconds: it goes only where somebody lets it. */
void cuda_cpu_pass(float ms);
/* The fault that is turned on, by $CUDA_CPU_PLANT (plant/run.sh); 0: none. */
extern int cuda_cpu_plant;
/* The most blocks of a grid whose threads go round: few, so that they do with a test's numbers. */
extern const unsigned cuda_cpu_grid;
/* From here on in this stream, kernels may use the first `bytes` of this allocation only. */
void cuda_cpu_use(cudaStream_t s, void *p, size_t bytes);
void *cuda_cpu_shared(void);
int cuda_cpu_lane(void);
void cuda_cpu_die(const char *what);

/* Device memory is open between these two; for what works on it outside of a launch. */
void cuda_cpu_open_memory(void);
void cuda_cpu_close_memory(void);

void __syncthreads(void);
void __syncwarp(void);
/* Lanes meet, as for a shuffle: that orders no memory. */
void cuda_cpu_join(void);
/* An access by a warp as a whole (wmma, ldmatrix); by this thread (cp.async). */
void cuda_cpu_warp_touch(const void *at, size_t bytes, bool write);
void cuda_cpu_thread_touch(const void *at, size_t bytes, bool write);

/* The value that lane `lane ^ mask` brought to the same call. */
uint64_t cuda_cpu_exchange(uint64_t bits, int mask);

/* Operations that no compiler may make one of: calls into another file. */
double __dmul_rn(double a, double b);
double __dadd_rn(double a, double b);
double __dsub_rn(double a, double b);
double __dsqrt_rn(double a);

template <typename T> static inline T __shfl_xor_sync(unsigned, T x, int mask)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(x));
    bits = cuda_cpu_exchange(bits, mask);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

#endif
