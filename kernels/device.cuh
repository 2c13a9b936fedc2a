/* SPDX-License-Identifier: Apache-2.0 */
/* device.cuh - shared by all CUDA kernel files: launches, errors, sums over warps and blocks
 *
 * All .cu files here are one translation unit (ops_cuda.cu): nvcc reads CUDA's
 * headers once per unit and target.  They also compile with an ordinary C++
 * compiler against tests/cuda_cpu/, which runs kernels on the CPU: hence launch()
 * instead of <<< >>>, and DYNAMIC_SHARED.
 *
 * One stream, in order.  No atomics: every sum has one order, so the same call
 * gives the same bits.
 */
#ifndef KERNELS_DEVICE_CUH
#define KERNELS_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include <initializer_list>
#include <type_traits>

#include "kernels/cuda.h"
#include "kernels/kernels.h"

#ifdef CUDA_ON_CPU
#define GRID_MAX cuda_cpu_grid
#endif
enum {
    WARP = 32, BLOCK = 256,
#ifndef CUDA_ON_CPU
    GRID_MAX = 8192,
#endif
    /* Dynamic shared memory that needs no opt-in: of 48 KB, 1 KB is for the kernels' fixed arrays. */
    SHARED_FREE = 47 * 1024,
    /* Host memory is page-locked in pieces that end where an address is a multiple of this: one call for all of it
     * keeps other processes out of the driver for 0.1 s per GB, and fails from 512 GiB on (driver 580), on some
     * kernels (Linux 6.11 to 6.13) from 2 GB on. No copy goes from one piece into the next. */
#ifdef CUDA_ON_CPU
    PIN_PIECE = 1 << 16
#else
    PIN_PIECE = 1 << 30
#endif
};

/* Scratch buffers, grown on demand and reused in stream order. */
enum scratch {
    SCRATCH_PARTS,   /* sums of chunks */
    SCRATCH_SCALARS, /* sums of sums */
    SCRATCH_ROWS,    /* sums of a few rows each (norm.cu) */
    SCRATCH_GEMM,    /* cuBLASLt's workspace */
    SCRATCH_BIAS,    /* a bias' gradient, from cuBLASLt */
    SCRATCHES
};

struct device {
    enum kern_precision precision;
    int                 number;   /* among those that CUDA shows */
    cudaStream_t        stream;
    size_t              shared_most; /* bytes of shared memory available to a block */
    bool                reads_host;  /* the GPU reads ordinary host memory directly (Grace): no copy is made first */
    enum kern_state     state;    /* the first failure; nothing runs after it */
    char                why[256];
    void               *scratch[SCRATCHES];
    size_t              scratch_bytes[SCRATCHES];
    unsigned            moves;     /* count of scratch reallocations: each voids all recordings */
    bool                recording; /* calls are recorded, not run (graph.cu) */
    bool                record_lost; /* a call could not be recorded: discard the recording */
    char                lost_why[320];
};

static struct device device;

/* device.cu: records the first failure; true: no failure */
static bool device_ok(cudaError_t e, const char *what);
/* device.cu: this call voids the recording; the first such call is kept for graph.cu to report */
static void device_not_recorded(const char *what, const char *error, int code);
/* At least `bytes`, or NULL with the failure recorded. */
static void *device_scratch(enum scratch which, size_t bytes);
/* Whether an optional optimization is enabled: all are, unless $JOBCTL_CUDA_WAYS lists
 * the enabled ones ("tune graph tensor bgrad"; empty: none). */
static bool device_way(const char *way);

/* A call that a profile may time: of a kernel with its grid, or of a product with its sizes. */
struct profile_what {
    const char *op;
    const void *kernel; /* or NULL */
    dim3        grid;
    int64_t     m, n, k;
};

/* profile.cu: before and after a call. Without a profile, from() is -1 and to(-1) does nothing. */
static int profile_from(const struct profile_what &w);
static void profile_to(int call);

#ifdef CUDA_ON_CPU
#define DYNAMIC_SHARED(type, name) type *name = (type *)cuda_cpu_shared()
#else
#define DYNAMIC_SHARED(type, name)                        \
    extern __shared__ __align__(128) unsigned char name##_bytes[]; \
    type *name = reinterpret_cast<type *>(name##_bytes)
#endif

/* Prevents unrolling of a loop whose unrolled iterations would not fit into registers. */
#ifdef CUDA_ON_CPU
#define ONE_BY_ONE
#define ALL_AT_ONCE
#else
#define ONE_BY_ONE  _Pragma("unroll 1")
#define ALL_AT_ONCE _Pragma("unroll") /* arrays that such a loop indexes stay in registers */
#endif

/* Allows a kernel more dynamic shared memory than it had, never less: recorded launches of it may still need that. */
static bool launch_room(const char *name, const void *kernel, size_t shared)
{
    enum { KERNELS = 128 };
    static struct {
        const void *kernel;
        size_t      bytes;
    } room[KERNELS];
    int i = 0;
    while (i < KERNELS && room[i].kernel && room[i].kernel != kernel)
        i++;
    if (i < KERNELS && room[i].bytes >= shared)
        return true;
    if (!device_ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), name))
        return false;
    if (i < KERNELS)
        room[i] = {kernel, shared};
    return true;
}

template <typename T> struct as_is {
    typedef T type;
};

/* Arguments are converted to the kernel's own parameter types before they are passed by address. */
template <typename... P>
static void launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                   typename as_is<P>::type... args)
{
    if (device.state != KERN_OK)
        return;
    if (shared > SHARED_FREE && !launch_room(name, (const void *)kernel, shared))
        return;
    const int timed = profile_from({name, (const void *)kernel, grid, 0, 0, 0});
#ifdef CUDA_ON_CPU
    device_ok(cuda_cpu_launch(name, (const void *)kernel, grid, block, shared, device.stream,
                              [=] { kernel(args...); }), name);
#else
    void *list[] = {(void *)&args...};
    device_ok(cudaLaunchKernel((const void *)kernel, grid, block, list, shared, device.stream),
              name);
#endif
    profile_to(timed);
}

/* One thread per number, in a loop if there are more numbers than threads. */
static inline dim3 grid_for(size_t n)
{
    const size_t blocks = (n + BLOCK - 1) / BLOCK;
    return dim3(blocks < 1 ? 1u : blocks > GRID_MAX ? (unsigned)GRID_MAX : (unsigned)blocks);
}

static inline unsigned tiles(size_t n, size_t tile)
{
    return (unsigned)((n + tile - 1) / tile);
}

/* --- numbers, fp32 or bf16 ----------------------------------------------------------------- */

using bf16 = __nv_bfloat16;

__device__ static inline float widen(float x)
{
    return x;
}

__device__ static inline float widen(bf16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ static inline T narrow(float x)
{
    if constexpr (std::is_same<T, float>::value)
        return x;
    else
        return __float2bfloat16_rn(x);
}

/* V numbers that are read and written at once. */
template <typename T, int V> struct alignas(sizeof(T) * V) pack {
    T at[V];
};

template <int V, typename T> __device__ static inline pack<T, V> pack_of(const T *from)
{
    return *reinterpret_cast<const pack<T, V> *>(from);
}

template <int V, typename T> __device__ static inline void unpack(float *to, const pack<T, V> &p)
{
    for (int i = 0; i < V; i++)
        to[i] = widen(p.at[i]);
}

template <int V, typename T> __device__ static inline void load(float *to, const T *from)
{
    unpack<V>(to, pack_of<V>(from));
}

template <int V, typename T> __device__ static inline void store(T *to, const float *from)
{
    pack<T, V> p;
    for (int i = 0; i < V; i++)
        p.at[i] = narrow<T>(from[i]);
    *reinterpret_cast<pack<T, V> *>(to) = p;
}

/* Whether packs of four fit: sizes and strides in numbers, and the alignment of the arrays. */
template <typename... P>
static bool by_four(std::initializer_list<size_t> sizes, const P *... arrays)
{
    bool fit = true;
    for (const size_t n : sizes)
        fit = fit && n % 4 == 0;
    for (const void *p : std::initializer_list<const void *>{arrays...})
        fit = fit && (uintptr_t)p % 16 == 0;
    return fit;
}

/* fn(T(), V): T is the type of narrow arrays, V (a constant) the numbers per pack. */
template <typename F> static void for_kind(bool fours, F fn)
{
    const std::integral_constant<int, 4> four;
    const std::integral_constant<int, 1> one;
    if (device.precision == KERN_FP32)
        fours ? fn(float(), four) : fn(float(), one);
    else
        fours ? fn(bf16(), four) : fn(bf16(), one);
}

/* fn(V), for kernels with another implementation in bf16. */
template <typename F> static void for_fp32(bool fours, F fn)
{
    fours ? fn(std::integral_constant<int, 4>()) : fn(std::integral_constant<int, 1>());
}

/* for (size_t i = first number of this thread; i < n; i += threads of the grid) */
#define EACH(i, n)                                                              \
    (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);         \
     i += (size_t)gridDim.x * blockDim.x)

template <typename T> __device__ static inline T warp_sum(T x)
{
    for (int half = WARP / 2; half > 0; half /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, half);
    return x;
}

__device__ static inline float warp_max(float x)
{
    for (int half = WARP / 2; half > 0; half /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, half));
    return x;
}

/* The sum over a block of whole warps, in every thread. */
template <typename T> __device__ static inline T block_sum(T x)
{
    __shared__ T part[BLOCK / WARP];
    x = warp_sum(x);
    __syncthreads(); /* `part` may still be read from the sum before */
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = x;
    __syncthreads();
    T total = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++)
        total += part[w];
    return total;
}

/* --- a warp per row --------------------------------------------------------------------------- */

/* Rows that a block of warps has. */
enum { BLOCK_ROWS = BLOCK / WARP, LANE_PACKS = 18 };

/* Whether packs may stay in registers while as many numbers of other arrays are read. nvcc 11.8 and 12.4 need more
 * registers for that than there are, and write the rest to memory. */
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ < 13
enum { KEEPS_WHILE_READING = 0 };
#else
enum { KEEPS_WHILE_READING = 1 };
#endif

static inline dim3 grid_of_rows(size_t rows)
{
    return dim3(tiles(rows, BLOCK_ROWS));
}

__device__ static inline size_t warp_row(void)
{
    return (size_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / WARP;
}

/* fn(i, c) for each pack of V columns of this lane. N > 0: there are at most N, and i counts them, so that they can
 * stay in registers; N == 0: any number, i is 0, and what a pass before has read is read again, from cache. */
template <int V, int N, typename F> __device__ static inline void lane_packs(int cols, F fn)
{
    const int lane = (int)threadIdx.x % WARP;
    if constexpr (N > 0) {
        ALL_AT_ONCE
        for (int i = 0; i < N; i++)
            if ((i * WARP + lane) * V < cols)
                fn(i, (i * WARP + lane) * V);
    } else
        for (int c = lane * V; c < cols; c += WARP * V)
            fn(0, c);
}

/* fn(T(), V, N); fp32 in place of bf16 would not fit into registers. */
template <typename F> static void for_rows(bool fours, int cols, F fn)
{
    for_kind(fours, [&](auto t, auto v) {
        if constexpr (decltype(v)::value == 4 && sizeof(t) == 2)
            if (cols <= 4 * WARP * LANE_PACKS) {
                fn(t, v, std::integral_constant<int, LANE_PACKS>());
                return;
            }
        fn(t, v, std::integral_constant<int, 0>());
    });
}

/* --- sums over rows, one per column ------------------------------------------------------- */

/* What is summed: F::SUMS numbers per row and column, from get(out, row, col). The rows of a
 * group (a sample) are summed together: chunks of rows first, then the chunks in order.
 * A chunk has cols numbers of each sum: the sums one after the other, or `packed`, those of a column together. */
enum { COL_TILE = 32, COL_LANES = 8, COL_CHUNK = 128 };

template <typename F>
__global__ void column_parts(float *part, F f, int rows, int cols, int chunks, bool packed)
{
    __shared__ float tile[F::SUMS][COL_LANES][COL_TILE + 1];
    const int col = (int)(blockIdx.x * COL_TILE + threadIdx.x);
    const int first = (int)blockIdx.y * COL_CHUNK;
    const int last = first + COL_CHUNK < rows ? first + COL_CHUNK : rows;
    float sum[F::SUMS];
    for (int k = 0; k < F::SUMS; k++)
        sum[k] = 0;
    if (col < cols)
        for (int r = first + (int)threadIdx.y; r < last; r += COL_LANES) {
            float x[F::SUMS];
            f.get(x, (size_t)blockIdx.z * (size_t)rows + (size_t)r, col);
            for (int k = 0; k < F::SUMS; k++)
                sum[k] += x[k];
        }
    for (int k = 0; k < F::SUMS; k++)
        tile[k][threadIdx.y][threadIdx.x] = sum[k];
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols)
        return;
    for (int k = 0; k < F::SUMS; k++) {
        float total = 0;
        for (int l = 0; l < COL_LANES; l++)
            total += tile[k][l][threadIdx.x];
        const int at = packed ? col * F::SUMS + k : k * cols + col;
        part[((size_t)blockIdx.z * chunks + blockIdx.y) * F::SUMS * cols + at] = total;
    }
}

/* to[group * ld + col] = keep * to + scale * sum; one array per sum. */
struct column_to {
    float *to;
    int    ld;
    float  keep, scale, eps;
};

/* part: [groups][chunks][sums][cols] */
__global__ void column_finish(struct column_to to, const float *part, int which, int sums,
                              int groups, int cols, int chunks)
{
    for EACH(i, (size_t)groups * cols) {
        const size_t g = i / cols, c = i % cols;
        float total = 0;
        for (int k = 0; k < chunks; k++)
            total += part[((g * chunks + k) * sums + which) * cols + c];
        float *y = to.to + g * to.ld + c;
        const float old = to.keep != 0 ? *y * to.keep : 0.0f;
        *y = old + total * to.scale + to.eps;
    }
}

/* The sums of all chunks: [groups][chunks], then as `packed` says; NULL without memory for them. */
template <typename F>
static const float *column_chunks(const char *name, F f, int groups, int rows, int cols, bool packed)
{
    const int chunks = (int)tiles((size_t)rows, COL_CHUNK);
    const size_t bytes = sizeof(float) * (size_t)groups * F::SUMS * chunks * (size_t)cols;
    float *part = (float *)device_scratch(SCRATCH_PARTS, bytes);
    if (part)
        launch(name, column_parts<F>, dim3(tiles((size_t)cols, COL_TILE), (unsigned)chunks, (unsigned)groups),
               dim3(COL_TILE, COL_LANES), 0, part, f, rows, cols, chunks, packed);
    return part;
}

template <typename F>
static void column_sums(const char *name, F f, const struct column_to *to, int groups, int rows, int cols)
{
    const float *part = column_chunks(name, f, groups, rows, cols, false);
    for (int k = 0; part && k < F::SUMS; k++)
        launch(name, column_finish, grid_for((size_t)groups * (size_t)cols), dim3(BLOCK), 0, to[k], part, k, F::SUMS,
               groups, cols, (int)tiles((size_t)rows, COL_CHUNK));
}

/* The same for one array whose columns come F::SUMS at a time: get(out, row, c) has those from c * F::SUMS on. */
template <typename F>
static void column_sums_of_packs(const char *name, F f, struct column_to to, int groups, int rows, int cols)
{
    const float *part = column_chunks(name, f, groups, rows, cols / F::SUMS, true);
    if (part)
        launch(name, column_finish, grid_for((size_t)groups * (size_t)cols), dim3(BLOCK), 0, to, part, 0, 1, groups,
               cols, (int)tiles((size_t)rows, COL_CHUNK));
}

#endif
