/* SPDX-License-Identifier: Apache-2.0 */
/* conv_mma.cuh - 3x3 convolutions on tensor cores, for bf16; part of conv2d.cu
 *
 * A block has 8 x 16 pixels of the result and 128 channels.  For some channels of the picture at a time, the pixels
 * that its windows touch come into shared memory once, rounded, and all nine taps read them there: a tap is another
 * place where lanes begin to read.  Weights of a tap come by copies that run two taps ahead, the pixels of the next
 * channels piece by piece between the products.
 */
#ifndef KERNELS_CONV_MMA_CUH
#define KERNELS_CONV_MMA_CUH

#include "kernels/mma.cuh"

enum {
    CMMA_HIGH = 8, CMMA_WIDE = 16, CMMA_OUT = 128, /* of a block */
    CMMA_TAPS = 9, CMMA_STAGES = 3,
    CMMA_ROWS = 2, CMMA_COLS = 64, CMMA_PAIRS = CMMA_COLS / 16 /* of a warp: rows of pixels, channels, 16 of these */
};

/* Channels at a time; rows are an odd number of 16 bytes apart. */
template <int CH> struct cmma_chunk {
    enum { LD = CH + 8, QUADS = CH / 4, PACKS = CH / 8, WEIGHTS = CMMA_OUT * LD };
};

/* What the block sees of the picture: rows low .. low + high - 1, columns from `left` on. */
struct cmma_view {
    int first, column;          /* of the result: its upper left pixel */
    int low, left, high, wide;  /* `high` and `wide` as of every block */
    __device__ cmma_view(const struct conv_args &a, int high_, int wide_)
    {
        const int across = (a.width + CMMA_WIDE - 1) / CMMA_WIDE, up = a.c.up ? 1 : 0;
        first = a.from + (int)blockIdx.x / across * CMMA_HIGH;
        column = (int)blockIdx.x % across * CMMA_WIDE;
        low = (first * a.c.stride - 1) >> up;
        left = (column * a.c.stride - 1) >> up;
        high = high_, wide = wide_;
    }
    /* Where in the view a tap of a pixel of the block lies. */
    __device__ int at(const struct conv_args &a, int y, int x, int tap) const
    {
        const int up = a.c.up ? 1 : 0;
        const int h = (((first + y) * a.c.stride - 1 + tap / 3) >> up) - low;
        return h * wide + (((column + x) * a.c.stride - 1 + tap % 3) >> up) - left;
    }
};

/* Four channels of a pixel of the view; 0 outside of the picture, and below the rows that the call may touch. */
template <int CH>
__device__ static inline void cmma_fetch(float (&to)[4], const struct conv_args &a, const struct cmma_view &v,
                                         int chunk, int unit)
{
    typedef cmma_chunk<CH> C;
    const int pixel = unit / C::QUADS, c = chunk * CH + unit % C::QUADS * 4;
    const int h = v.low + pixel / v.wide, w = v.left + pixel % v.wide, up = a.c.up ? 1 : 0;
    const int last = ((a.to - 1) * a.c.stride + 1) >> up;
    for (int i = 0; i < 4; i++)
        to[i] = 0;
    if (h >= 0 && h < a.x.height && h <= last && w >= 0 && w < a.x.width && c < a.c.in)
        load<4>(to, a.x.x + ((size_t)(h - a.x.first) * a.x.width + w) * a.x.channels + c);
}

template <int CH> __device__ static inline void cmma_put(bf16 *view, int unit, const float (&x)[4])
{
    typedef cmma_chunk<CH> C;
    store<4>(view + unit / C::QUADS * C::LD + unit % C::QUADS * 4, x);
}

/* The weights of a step: a tap of a chunk of channels. */
template <int CH>
__device__ static inline void cmma_copy(bf16 *to, const struct conv_args &a, int out, int step)
{
    typedef cmma_chunk<CH> C;
    const bf16 *w = (const bf16 *)a.w;
    const int tap = step % CMMA_TAPS, first = step / CMMA_TAPS * CH;
    for (int i = (int)threadIdx.x; i < CMMA_OUT * C::PACKS; i += BLOCK) {
        const int row = out + i / C::PACKS, c = first + i % C::PACKS * 8;
        const bool there = row < a.c.out && c < a.c.in;
        const size_t at = there ? ((size_t)row * CMMA_TAPS + tap) * a.c.in + c : 0;
        copy_start<16>(mma_place(to + i / C::PACKS * C::LD + i % C::PACKS * 8), w + at, there);
    }
}

/* One tap of the chunk that is in `view`. */
template <int CH>
__device__ static inline void cmma_tap(float (&sum)[CMMA_ROWS][2 * CMMA_PAIRS][4], const bf16 *view, const bf16 *w,
                                       const struct conv_args &a, const struct cmma_view &v, int tap)
{
    typedef cmma_chunk<CH> C;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const bf16 *weight = w + (warp % 2 * CMMA_COLS + lane % 8 + lane / 16 * 8) * C::LD + lane / 8 % 2 * 8;
    UNROLLED for (int k = 0; k < CH; k += 16) {
        uint32_t x[CMMA_ROWS][4];
        UNROLLED for (int i = 0; i < CMMA_ROWS; i++)
            mma_load<false>(x[i], mma_place(view + v.at(a, warp / 2 * CMMA_ROWS + i, lane % 16, tap) * C::LD + k +
                                            lane / 16 * 8));
        UNROLLED for (int j = 0; j < CMMA_PAIRS; j++) {
            uint32_t b[4];
            mma_load<false>(b, mma_place(weight + j * 16 * C::LD + k));
            UNROLLED for (int i = 0; i < CMMA_ROWS; i++) {
                mma_add(sum[i][2 * j], x[i], b[0], b[1]);
                mma_add(sum[i][2 * j + 1], x[i], b[2], b[3]);
            }
        }
    }
}

__device__ static inline void cmma_write(const float (&sum)[CMMA_ROWS][2 * CMMA_PAIRS][4], const struct conv_args &a,
                                         const struct cmma_view &v, int out)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    UNROLLED for (int i = 0; i < CMMA_ROWS; i++)
        UNROLLED for (int j = 0; j < 2 * CMMA_PAIRS; j++)
            UNROLLED for (int e = 0; e < 4; e++) {
                const int h = v.first + warp / 2 * CMMA_ROWS + i, w = v.column + lane / 4 + e / 2 * 8;
                const int c = out + j * 8 + lane % 4 * 2 + e % 2;
                if (h < a.to && w < a.width && c < a.c.out)
                    conv_put(a, (size_t)(h - a.from) * a.width + w, c, sum[i][j][e]);
            }
}

template <int CH> __global__ void __launch_bounds__(BLOCK, 2) conv_mma_kernel(struct conv_args a, int high, int wide)
{
    typedef cmma_chunk<CH> C;
    DYNAMIC_SHARED(bf16, smem);
    const struct cmma_view v(a, high, wide);
    const int out = (int)blockIdx.y * CMMA_OUT, mine = out + (int)threadIdx.x / WARP % 2 * CMMA_COLS;
    const int units = high * wide * C::QUADS, room = high * wide * C::LD, chunks = (a.c.in + CH - 1) / CH;
    bf16 *weights = smem + 2 * room;
    float sum[CMMA_ROWS][2 * CMMA_PAIRS][4] = {}, x[4] = {};
    for (int s = 0; s < CMMA_STAGES - 1; s++) {
        cmma_copy<CH>(weights + s * C::WEIGHTS, a, out, s);
        copy_commit();
    }
    for (int unit = (int)threadIdx.x; unit < units; unit += BLOCK) {
        cmma_fetch<CH>(x, a, v, 0, unit);
        cmma_put<CH>(smem, unit, x);
    }
    for (int step = 0; step < chunks * CMMA_TAPS; step++) {
        const int chunk = step / CMMA_TAPS, tap = step % CMMA_TAPS, ahead = step + CMMA_STAGES - 1;
        const int unit = (int)threadIdx.x + tap * BLOCK; /* of the next chunk */
        const bool more = chunk + 1 < chunks && unit < units;
        copy_wait<CMMA_STAGES - 2>();
        __syncthreads(); /* this step's weights and pixels are there; those of the step before are read */
        if (ahead < chunks * CMMA_TAPS)
            cmma_copy<CH>(weights + ahead % CMMA_STAGES * C::WEIGHTS, a, out, ahead);
        copy_commit();
        if (more)
            cmma_fetch<CH>(x, a, v, chunk + 1, unit);
        if (mine < a.c.out)
            cmma_tap<CH>(sum, smem + chunk % 2 * room, weights + step % CMMA_STAGES * C::WEIGHTS, a, v, tap);
        if (more)
            cmma_put<CH>(smem + (chunk + 1) % 2 * room, unit, x);
    }
    cmma_write(sum, a, v, mine);
}

/* Pixels that the windows of `n` in a row touch, wherever they begin. */
static int cmma_reach(struct kern_conv c, int n)
{
    return c.up ? n / 2 + 2 : (n - 1) * c.stride + 3;
}

/* false: not for these sizes or this memory. */
static bool conv_on_tensor_cores(const struct conv_args &a)
{
    const struct kern_conv c = a.c;
    if (device.precision != KERN_BF16 || c.kernel != 3 || c.pad != 1 || c.groups != 1 || c.in < 16 || c.in % 8 ||
        c.stride > 2 || (c.up && c.stride > 1) || !by_four({(size_t)a.x.channels}, a.x.x, a.w))
        return false;
    const int high = cmma_reach(c, CMMA_HIGH), wide = cmma_reach(c, CMMA_WIDE);
    const int ch = c.stride == 1 ? 32 : 16, ld = ch + 8;
    const size_t bytes = sizeof(bf16) * (size_t)ld * (size_t)(2 * high * wide + CMMA_STAGES * CMMA_OUT);
    const dim3 grid(tiles((size_t)a.width, CMMA_WIDE) * tiles((size_t)(a.to - a.from), CMMA_HIGH),
                    tiles((size_t)c.out, CMMA_OUT));
    if (bytes > device.shared_most)
        return false;
    launch("conv", c.stride == 1 ? conv_mma_kernel<32> : conv_mma_kernel<16>, grid, dim3(BLOCK), bytes, a, high, wide);
    return true;
}

#endif
