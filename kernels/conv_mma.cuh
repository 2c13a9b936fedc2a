/* SPDX-License-Identifier: Apache-2.0 */
/* conv_mma.cuh - 3x3 convolutions on tensor cores, for bf16; part of conv2d.cu
 *
 * A block has 8 x 16 pixels of the result and 128 channels. For some channels of the picture at a time, the pixels that
 * its windows touch are loaded into shared memory once, rounded, and all nine taps read them there, each from another
 * offset. The weights of a tap are copied two taps ahead, the pixels of the next channels piece by piece between the
 * products.
 */
#ifndef KERNELS_CONV_MMA_CUH
#define KERNELS_CONV_MMA_CUH

#include "kernels/mma.cuh"

enum {
    CMMA_HIGH = 8, CMMA_WIDE = 16, CMMA_OUT = 128, /* of a block */
    CMMA_TAPS = 9, CMMA_STAGES = 3, /* a row of taps, so that a column of them has one stage */
    CMMA_ROWS = 2, CMMA_COLS = 64, CMMA_PAIRS = CMMA_COLS / 16 /* of a warp: rows of pixels, channels, 16 of these */
};

/* Pixels that the windows of `n` in a row touch, wherever they begin. */
static constexpr int cmma_reach(int stride, bool up, int n)
{
    return up ? n / 2 + 2 : (n - 1) * stride + 3;
}

/* The sizes of a kernel: CH channels at a time, of a view of HIGH x WIDE pixels; rows are an odd number of 16 bytes
 * apart. UP: of the picture with each pixel repeated. */
template <int STRIDE_, bool UP_> struct cmma_sizes {
    enum {
        STRIDE = STRIDE_, UP = UP_, CH = STRIDE == 1 ? 32 : 16,
        HIGH = cmma_reach(STRIDE, UP, CMMA_HIGH), WIDE = cmma_reach(STRIDE, UP, CMMA_WIDE),
        LD = CH + 8, QUADS = CH / 4, PACKS = CH / 8, WEIGHTS = CMMA_OUT * LD, ROOM = HIGH * WIDE * LD,
        UNITS = HIGH * WIDE * QUADS, COPIES = CMMA_OUT * PACKS / BLOCK /* of a thread */
    };
    static_assert(UNITS <= CMMA_TAPS * BLOCK, "a chunk comes during the taps of the one before");
};

/* What the block sees of the picture: rows from `low`, columns from `left` on. */
template <typename S> struct cmma_view {
    int first, column;          /* of the result: its upper left pixel */
    int low, left;
    __device__ cmma_view(const struct conv_args &a)
    {
        const int across = (a.width + CMMA_WIDE - 1) / CMMA_WIDE;
        first = a.from + (int)blockIdx.x / across * CMMA_HIGH;
        column = (int)blockIdx.x % across * CMMA_WIDE;
        low = (first * S::STRIDE - 1) >> S::UP;
        left = (column * S::STRIDE - 1) >> S::UP;
    }
    /* Where in the view a tap of a pixel of the block lies. */
    __device__ int at(int y, int x, int tap) const
    {
        const int even = S::UP ? 1 - first % 2 : 0; /* `column` is even */
        return ((y * S::STRIDE + tap / 3 + even) >> S::UP) * S::WIDE + ((x * S::STRIDE + tap % 3 + S::UP) >> S::UP);
    }
};

/* Four channels of a pixel of the view; 0 outside of the picture, and below the rows that the call may touch. */
template <typename S>
__device__ static inline void cmma_fetch(float (&to)[4], const struct conv_args &a, const struct cmma_view<S> &v,
                                         int chunk, int unit)
{
    const int pixel = unit / S::QUADS, c = chunk * S::CH + unit % S::QUADS * 4;
    const int h = v.low + pixel / S::WIDE, w = v.left + pixel % S::WIDE;
    const int last = ((a.to - 1) * S::STRIDE + 1) >> S::UP;
    for (int i = 0; i < 4; i++)
        to[i] = 0;
    if (h >= 0 && h < a.x.height && h <= last && w >= 0 && w < a.x.width && c < a.c.in)
        load<4>(to, a.x.x + ((size_t)(h - a.x.first) * a.x.width + w) * a.x.channels + c);
}

template <typename S> __device__ static inline void cmma_put(bf16 *view, int unit, const float (&x)[4])
{
    store<4>(view + unit / S::QUADS * S::LD + unit % S::QUADS * 4, x);
}

/* The weights of a tap of a chunk of channels. */
template <typename S>
__device__ static inline void cmma_copy(bf16 *to, const struct conv_args &a, int out, int chunk, int tap)
{
    const bf16 *w = (const bf16 *)a.w;
    ONE_BY_ONE for (int k = 0; k < S::COPIES; k++) { /* not unrolled: there are not enough registers */
        const int i = (int)threadIdx.x + k * BLOCK, row = out + i / S::PACKS, c = chunk * S::CH + i % S::PACKS * 8;
        const bool there = row < a.c.out && c < a.c.in;
        const size_t at = there ? ((size_t)row * CMMA_TAPS + tap) * a.c.in + c : 0;
        copy_start<16>(mma_place(to + i / S::PACKS * S::LD + i % S::PACKS * 8), w + at, there);
    }
}

/* One tap of the chunk that is in `view`. */
template <typename S>
__device__ static inline void cmma_tap(float (&sum)[CMMA_ROWS][2 * CMMA_PAIRS][4], const bf16 *view, const bf16 *w,
                                       const struct cmma_view<S> &v, int tap)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const bf16 *weight = w + (warp % 2 * CMMA_COLS + lane % 8 + lane / 16 * 8) * S::LD + lane / 8 % 2 * 8;
    UNROLLED for (int k = 0; k < S::CH; k += 16) {
        uint32_t x[CMMA_ROWS][4];
        UNROLLED for (int i = 0; i < CMMA_ROWS; i++)
            mma_load<false>(x[i], mma_place(view + v.at(warp / 2 * CMMA_ROWS + i, lane % 16, tap) * S::LD + k +
                                            lane / 16 * 8));
        UNROLLED for (int j = 0; j < CMMA_PAIRS; j++) {
            uint32_t b[4];
            mma_load<false>(b, mma_place(weight + j * 16 * S::LD + k));
            UNROLLED for (int i = 0; i < CMMA_ROWS; i++) {
                mma_add(sum[i][2 * j], x[i], b[0], b[1]);
                mma_add(sum[i][2 * j + 1], x[i], b[2], b[3]);
            }
        }
    }
}

__device__ static inline void cmma_write(const float (&sum)[CMMA_ROWS][2 * CMMA_PAIRS][4], const struct conv_args &a,
                                         int first, int column, int out)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    UNROLLED for (int i = 0; i < CMMA_ROWS; i++)
        UNROLLED for (int j = 0; j < 2 * CMMA_PAIRS; j++)
            UNROLLED for (int e = 0; e < 4; e++) {
                const int h = first + warp / 2 * CMMA_ROWS + i, w = column + lane / 4 + e / 2 * 8;
                const int c = out + j * 8 + lane % 4 * 2 + e % 2;
                if (h < a.to && w < a.width && c < a.c.out)
                    conv_put(a, (size_t)(h - a.from) * a.width + w, c, sum[i][j][e]);
            }
}

template <typename S> __global__ void __launch_bounds__(BLOCK, 2) conv_mma_kernel(struct conv_args a)
{
    DYNAMIC_SHARED(bf16, smem);
    const struct cmma_view<S> v(a);
    const int out = (int)blockIdx.y * CMMA_OUT, mine = out + (int)threadIdx.x / WARP % 2 * CMMA_COLS;
    const int chunks = (a.c.in + S::CH - 1) / S::CH;
    bf16 *weights = smem + 2 * S::ROOM;
    float sum[CMMA_ROWS][2 * CMMA_PAIRS][4] = {};
    for (int s = 0; s < CMMA_STAGES - 1; s++) {
        cmma_copy<S>(weights + s * S::WEIGHTS, a, out, 0, s);
        copy_commit();
    }
    for (int unit = (int)threadIdx.x; unit < S::UNITS; unit += BLOCK) {
        float x[4];
        cmma_fetch<S>(x, a, v, 0, unit);
        cmma_put<S>(smem, unit, x);
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        const bf16 *view = smem + chunk % 2 * S::ROOM;
        bf16 *next = smem + (chunk + 1) % 2 * S::ROOM;
        ONE_BY_ONE for (int row = 0; row < CMMA_TAPS; row += 3)
        UNROLLED for (int col = 0; col < 3; col++) {
            const int tap = row + col;
            const int unit = (int)threadIdx.x + tap * BLOCK; /* of the next chunk */
            const int ahead = tap + CMMA_STAGES - 1, of = chunk + ahead / CMMA_TAPS;
            const bool more = chunk + 1 < chunks && unit < S::UNITS;
            float x[4] = {};
            copy_wait<CMMA_STAGES - 2>();
            __syncthreads(); /* this tap's weights and pixels have arrived; those of the tap before have been read */
            if (of < chunks)
                cmma_copy<S>(weights + (col + CMMA_STAGES - 1) % CMMA_STAGES * S::WEIGHTS, a, out, of,
                             ahead % CMMA_TAPS);
            copy_commit();
            if (more)
                cmma_fetch<S>(x, a, v, chunk + 1, unit);
            if (mine < a.c.out)
                cmma_tap<S>(sum, view, weights + col % CMMA_STAGES * S::WEIGHTS, v, tap);
            if (more)
                cmma_put<S>(next, unit, x);
        }
    }
    cmma_write(sum, a, v.first, v.column, mine);
}

template <typename S> static bool conv_mma(const struct conv_args &a)
{
    const size_t bytes = sizeof(bf16) * (size_t)(2 * S::ROOM + CMMA_STAGES * S::WEIGHTS);
    const dim3 grid(tiles((size_t)a.width, CMMA_WIDE) * tiles((size_t)(a.to - a.from), CMMA_HIGH),
                    tiles((size_t)a.c.out, CMMA_OUT));
    if (bytes > device.shared_most)
        return false;
    launch("conv", conv_mma_kernel<S>, grid, dim3(BLOCK), bytes, a);
    return true;
}

/* false: not for these sizes or this memory. */
static bool conv_on_tensor_cores(const struct conv_args &a)
{
    const struct kern_conv c = a.c;
    if (device.precision != KERN_BF16 || c.kernel != 3 || c.pad != 1 || c.groups != 1 || c.in < 16 || c.in % 8 ||
        c.stride > 2 || (c.up && c.stride > 1) || !by_four({(size_t)a.x.channels}, a.x.x, a.w))
        return false;
    return c.up ? conv_mma<cmma_sizes<1, true>>(a)
                : c.stride == 1 ? conv_mma<cmma_sizes<1, false>>(a) : conv_mma<cmma_sizes<2, false>>(a);
}

#endif
