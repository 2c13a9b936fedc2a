/* SPDX-License-Identifier: Apache-2.0 */
/* mma.h - a stand-in: products of 16 x 16 x 16 by a warp; its first lane does all the work
 *
 * What a GPU demands of pointers and row distances is demanded here too.  Lanes meet in each call, which orders no
 * memory: the warp sees what a lane has written only after __syncwarp().
 */
#ifndef CUDA_CPU_MMA_H
#define CUDA_CPU_MMA_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define CUDA_CPU_BY_WARP __attribute__((noinline, no_sanitize("thread")))

namespace nvcuda {
namespace wmma {

struct row_major {
    static unsigned at(unsigned r, unsigned c, unsigned ld)
    {
        return r * ld + c;
    }
};
struct col_major {
    static unsigned at(unsigned r, unsigned c, unsigned ld)
    {
        return c * ld + r;
    }
};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major };

template <typename Use, int M, int N, int K, typename T, typename Way = void> struct fragment {
    float at[16][16];
};

static inline void check(const void *p, size_t row_bytes)
{
    if ((uintptr_t)p % 32 || row_bytes % 16)
        cuda_cpu_die("a matrix of 16 x 16 is not aligned as wmma wants it");
}

template <typename F> static inline void fill_fragment(F &f, float x)
{
    for (auto &row : f.at)
        for (float &y : row)
            y = x;
}

template <typename T> CUDA_CPU_BY_WARP static void touch(const T *p, unsigned ld, bool write)
{
    for (unsigned i = 0; i < 16; i++)
        cuda_cpu_warp_touch(p + (size_t)i * ld, 16 * sizeof(T), write);
}

template <typename Use, typename T, typename Way>
CUDA_CPU_BY_WARP static void load_matrix_sync(fragment<Use, 16, 16, 16, T, Way> &f, const T *p, unsigned ld)
{
    check(p, ld * sizeof(T));
    cuda_cpu_join();
    if (cuda_cpu_lane() == 0)
        touch(p, ld, false);
    for (unsigned r = 0; cuda_cpu_lane() == 0 && r < 16; r++)
        for (unsigned c = 0; c < 16; c++)
            f.at[r][c] = __bfloat162float(p[Way::at(r, c, ld)]);
}

template <typename D, typename A, typename B>
CUDA_CPU_BY_WARP static void mma_sync(D &d, const A &a, const B &b, const D &c)
{
    cuda_cpu_join();
    for (int i = 0; cuda_cpu_lane() == 0 && i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float sum = c.at[i][j];
            for (int k = 0; k < 16; k++)
                sum += a.at[i][k] * b.at[k][j];
            d.at[i][j] = sum;
        }
}

template <typename F>
CUDA_CPU_BY_WARP static void store_matrix_sync(float *p, const F &f, unsigned ld, layout_t)
{
    check(p, ld * sizeof(*p));
    if (cuda_cpu_lane() == 0)
        touch(p, ld, true);
    for (unsigned r = 0; cuda_cpu_lane() == 0 && r < 16; r++)
        for (unsigned c = 0; c < 16; c++)
            p[r * ld + c] = f.at[r][c];
    cuda_cpu_join();
}

} // namespace wmma
} // namespace nvcuda

#endif
