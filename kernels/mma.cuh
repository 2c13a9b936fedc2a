/* SPDX-License-Identifier: Apache-2.0 */
/* mma.cuh - a warp's products on tensor cores, and asynchronous copies into shared memory
 *
 * For kernels in bf16 on compute capability 8.0 and later; on an older one, which is opened for fp32 only
 * (ops_cuda.cu), all of them trap.  PTX ISA: "Matrix Fragments for mma.m16n8k16", "ldmatrix", "cp.async".
 * All lanes of a warp call mma_load() and mma_add() together.
 *
 * Which lane holds what, with group = lane / 4 and pair = lane % 4 * 2:
 *   a, 16 x 16:  a[0] row group, columns pair and pair + 1;  a[1] row group + 8;  a[2], a[3] the same, columns + 8
 *   b, 16 x 8:   b[0] rows pair and pair + 1, column group;  b[1] rows + 8
 *   c, 16 x 8:   c[0], c[1] row group, columns pair and pair + 1;  c[2], c[3] row group + 8
 * So the sums of two products side by side, narrowed by mma_pair(), are an `a` as they lie.
 *
 * mma_load() reads four matrices of 8 x 8, or the first two, whose rows of 16 bytes lanes 8 i to 8 i + 7 name:
 *   an a of rows [m][k]:              lane names row lane % 16, column lane / 16 * 8
 *   two b of rows [n][k] (16 n):      lane names row lane % 8 + lane / 16 * 8, column lane / 8 % 2 * 8
 *   two b of rows [k][n], TRANSPOSED: lane names row lane % 16, column lane / 16 * 8
 * Rows whose distance is an odd number of 16 bytes have no bank conflicts.
 */
#ifndef KERNELS_MMA_CUH
#define KERNELS_MMA_CUH

#include <utility>

#include "kernels/device.cuh"

#ifdef CUDA_ON_CPU
#include <mma_sync.h>
#define UNROLLED
typedef uintptr_t shared_at; /* an address of shared memory; bytes may be added to it */
#else
#define UNROLLED _Pragma("unroll")
typedef uint32_t shared_at;
#endif

#if !defined(CUDA_ON_CPU) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define MMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define MMA_ASM(...) __trap()
#endif

__device__ static inline shared_at mma_place(const void *p)
{
#ifdef CUDA_ON_CPU
    return (uintptr_t)p;
#else
    return (uint32_t)__cvta_generic_to_shared(p);
#endif
}

/* fn(0), fn(1) .. fn(N - 1), each a constant (decltype(i)::value). */
template <typename F, int... I> __device__ static inline void mma_each(F fn, std::integer_sequence<int, I...>)
{
    (fn(std::integral_constant<int, I>()), ...);
}

template <int N, typename F> __device__ static inline void mma_each(F fn)
{
    mma_each(fn, std::make_integer_sequence<int, N>());
}

/* `row`: this lane's, a multiple of 16, and OFFSET bytes more, which are part of the instruction. N is 4, or 2: of the
 * first two matrices, whose rows lanes 0 to 15 name. */
template <bool TRANSPOSED, int OFFSET = 0, int N>
__device__ static inline void mma_load(uint32_t (&to)[N], shared_at row)
{
    static_assert(N == 4 || N == 2, "matrices at a time");
#ifdef CUDA_ON_CPU
    cuda_cpu_load_matrix(to, N, (const void *)(row + OFFSET), TRANSPOSED);
#else
    if constexpr (N == 2 && TRANSPOSED)
        MMA_ASM("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2+%3];"
                : "=r"(to[0]), "=r"(to[1]) : "r"(row), "n"(OFFSET));
    else if constexpr (N == 2)
        MMA_ASM("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2+%3];"
                : "=r"(to[0]), "=r"(to[1]) : "r"(row), "n"(OFFSET));
    else if constexpr (TRANSPOSED)
        MMA_ASM("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row), "n"(OFFSET));
    else
        MMA_ASM("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row), "n"(OFFSET));
#endif
}

/* c += a b */
__device__ static inline void mma_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#ifdef CUDA_ON_CPU
    cuda_cpu_mma(c, a, b0, b1);
#else
    MMA_ASM("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* d = c + a b */
__device__ static inline void mma_begin(float (&d)[4], const float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1)
{
#ifdef CUDA_ON_CPU
    for (int i = 0; i < 4; i++)
        d[i] = c[i];
    cuda_cpu_mma(d, a, b0, b1);
#else
    MMA_ASM("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %11, %12, %13};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

/* Two numbers rounded to bf16; PTX ISA, "cvt": the first operand is the upper half. */
__device__ static inline uint32_t mma_pair(float low, float high)
{
#ifdef CUDA_ON_CPU
    return __float2bfloat16_rn(low).bits | (uint32_t)__float2bfloat16_rn(high).bits << 16;
#else
    uint32_t d = 0;
    MMA_ASM("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
#endif
}

__device__ static inline float mma_low(uint32_t pair)
{
#ifdef CUDA_ON_CPU
    return __bfloat162float({(uint16_t)pair});
#else
    return __uint_as_float(pair << 16);
#endif
}

__device__ static inline float mma_high(uint32_t pair)
{
#ifdef CUDA_ON_CPU
    return __bfloat162float({(uint16_t)(pair >> 16)});
#else
    return __uint_as_float(pair & 0xffff0000u);
#endif
}

/* 2^x, as the special function unit computes it: relative error 2^-22; PTX ISA, "ex2". */
__device__ static inline float mma_exp2(float x)
{
#ifdef CUDA_ON_CPU
    return exp2f(x);
#else
    float y = 0;
    MMA_ASM("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* 1 / x, as the special function unit computes it: one unit of the last place off; PTX ISA, "rcp". */
__device__ static inline float mma_inverse(float x)
{
#ifdef CUDA_ON_CPU
    return 1.0f / x;
#else
    float y = 0;
    MMA_ASM("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* True in every lane if x is true in any. */
__device__ static inline bool mma_any(bool x)
{
#ifdef CUDA_ON_CPU
    return warp_max(x ? 1.0f : 0.0f) > 0;
#else
    return __any_sync(0xffffffffu, x);
#endif
}

/* Starts a copy of BYTES (8, 16) from global to shared memory, OFFSET behind `to`, all multiples of BYTES; zeros if
 * not `there`, and then `from` is not read. It is part of the group that copy_commit() closes. */
template <int BYTES, int OFFSET = 0>
__device__ static inline void copy_start(shared_at to, const void *from, bool there)
{
#ifdef CUDA_ON_CPU
    cuda_cpu_copy((void *)(to + OFFSET), from, BYTES, there);
#else
    if (BYTES == 16)
        MMA_ASM("cp.async.cg.shared.global [%0+%3], [%1], 16, %2;" : : "r"(to), "l"(__cvta_generic_to_global(from)),
                "r"(there ? 16 : 0), "n"(OFFSET) : "memory");
    else
        MMA_ASM("cp.async.ca.shared.global [%0+%3], [%1], 8, %2;" : : "r"(to), "l"(__cvta_generic_to_global(from)),
                "r"(there ? 8 : 0), "n"(OFFSET) : "memory");
#endif
}

__device__ static inline void copy_commit(void)
{
#ifdef CUDA_ON_CPU
    cuda_cpu_copy_commit();
#else
    MMA_ASM("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits until this thread's copies have arrived, except those of the LEFT groups committed last. Other threads see them
 * after the next barrier. */
template <int LEFT> __device__ static inline void copy_wait(void)
{
#ifdef CUDA_ON_CPU
    cuda_cpu_copy_wait(LEFT);
#else
    MMA_ASM("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
#endif
}

#endif
