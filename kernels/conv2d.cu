/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.cu - convolutions of rows of a channels-last picture
 *
 * A kernel of 1x1 is a product of the pixels, which lie in memory as rows of a matrix.  All others are products whose
 * left matrix, the windows of all pixels, is never stored: a block gathers the part of it that it needs (an implicit
 * GEMM).  Weights are packed as [groups * out][taps][in], narrow: with bf16, pixels are rounded when they are gathered.
 */
#include "kernels/gemm.cuh"

enum {
    CONV_PIXELS = 64, CONV_OUT = 64, CONV_DEPTH = 16, CONV_EACH = 4, /* of a block; of a thread in both directions */
    CONV_ACROSS = CONV_OUT / CONV_EACH,
    CONV_ROWS = 8192 /* pixels of a product, whose rounded copies are in `work` */
};

struct conv_args {
    float           *y;
    struct kern_rows x;
    struct kern_conv c;
    const void      *w;
    const float     *bias;
    int              from, to, width; /* of the result */
};

static bool conv_is_product(struct kern_conv c)
{
    return c.kernel == 1 && c.stride == 1 && c.pad == 0 && !c.up;
}

static size_t cuda_conv_size(struct kern_conv c)
{
    const size_t n = (size_t)c.groups * (size_t)c.out * (size_t)(c.kernel * c.kernel) * (size_t)c.in;
    return device.precision == KERN_BF16 ? (n + 1) / 2 : n;
}

static size_t cuda_conv_work(struct kern_conv c)
{
    const bool rounds = conv_is_product(c) && device.precision == KERN_BF16;
    return rounds ? ((size_t)CONV_ROWS * (size_t)c.groups * (size_t)c.in + 1) / 2 : 0;
}

/* to[row][tap][in] of w[row][in][tap] */
template <typename T> __global__ void conv_pack_kernel(T *to, const float *w, size_t n, int in, int taps)
{
    for EACH(i, n) {
        const size_t c = i % in, tap = i / in % taps, row = i / in / taps;
        to[i] = narrow<T>(w[(row * in + c) * taps + tap]);
    }
}

static void cuda_conv_pack(float *to, const float *w, struct kern_conv c)
{
    const size_t n = (size_t)c.groups * (size_t)c.out * (size_t)(c.kernel * c.kernel) * (size_t)c.in;
    for_kind(false, [&](auto kind, auto) {
        typedef decltype(kind) T;
        launch("conv_pack", conv_pack_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)to, w, n, c.in, c.kernel * c.kernel);
    });
}

/* --- windows -------------------------------------------------------------------------------- */

/* Where the channels of a tap of a pixel of the result begin; NULL: outside of the picture. */
__device__ static inline const float *conv_tap(const struct conv_args &a, int h, int w, int tap)
{
    const int up = a.c.up ? 1 : 0;
    const int i = h * a.c.stride - a.c.pad + tap / a.c.kernel, j = w * a.c.stride - a.c.pad + tap % a.c.kernel;
    if (i < 0 || j < 0 || i >= a.x.height << up || j >= a.x.width << up)
        return NULL;
    return a.x.x + ((size_t)((i >> up) - a.x.first) * a.x.width + (j >> up)) * a.x.channels;
}

/* Number k of the window of pixel `pixel` of the rows, in group `group`. */
template <typename T>
__device__ static inline float conv_window(const struct conv_args &a, size_t pixel, size_t pixels, int group, int k)
{
    if (pixel >= pixels || k >= a.c.kernel * a.c.kernel * a.c.in)
        return 0;
    const float *at = conv_tap(a, a.from + (int)(pixel / a.width), (int)(pixel % a.width), k / a.c.in);
    return at ? widen(narrow<T>(at[group * a.c.in + k % a.c.in])) : 0.0f;
}

__device__ static inline void conv_put(const struct conv_args &a, size_t pixel, int out, float sum)
{
    const float y = sum + (a.bias ? a.bias[out] : 0.0f);
    a.y[pixel * a.c.groups * a.c.out + out] = a.c.silu ? y * sigmoid(y) : y;
}

/* A block has CONV_PIXELS pixels and CONV_OUT channels of a group, a thread CONV_EACH of both. */
template <typename T> __global__ void conv_kernel(struct conv_args a, size_t pixels)
{
    __shared__ float x[CONV_DEPTH][CONV_PIXELS + 1], w[CONV_DEPTH][CONV_OUT + 1];
    const int depth = a.c.kernel * a.c.kernel * a.c.in, group = (int)blockIdx.z, first = (int)blockIdx.y * CONV_OUT;
    const size_t from = (size_t)blockIdx.x * CONV_PIXELS;
    const int row = (int)threadIdx.x / CONV_ACROSS, col = (int)threadIdx.x % CONV_ACROSS;
    const T *weights = (const T *)a.w + (size_t)group * a.c.out * depth;
    float sum[CONV_EACH][CONV_EACH] = {};
    for (int k = 0; k < depth; k += CONV_DEPTH) {
        __syncthreads(); /* x and w may still be read */
        for (int i = (int)threadIdx.x; i < CONV_PIXELS * CONV_DEPTH; i += BLOCK)
            x[i % CONV_DEPTH][i / CONV_DEPTH] =
                conv_window<T>(a, from + i / CONV_DEPTH, pixels, group, k + i % CONV_DEPTH);
        for (int i = (int)threadIdx.x; i < CONV_OUT * CONV_DEPTH; i += BLOCK) {
            const int out = first + i / CONV_DEPTH, at = k + i % CONV_DEPTH;
            w[i % CONV_DEPTH][i / CONV_DEPTH] = out < a.c.out && at < depth ? widen(weights[(size_t)out * depth + at])
                                                                            : 0.0f;
        }
        __syncthreads();
        for (int d = 0; d < CONV_DEPTH; d++)
            for (int i = 0; i < CONV_EACH; i++)
                for (int j = 0; j < CONV_EACH; j++)
                    sum[i][j] += x[d][row + i * CONV_ACROSS] * w[d][col + j * CONV_ACROSS];
    }
    for (int i = 0; i < CONV_EACH; i++)
        for (int j = 0; j < CONV_EACH; j++) {
            const size_t pixel = from + row + i * CONV_ACROSS;
            const int out = first + col + j * CONV_ACROSS;
            if (pixel < pixels && out < a.c.out)
                conv_put(a, pixel, group * a.c.out + out, sum[i][j]);
        }
}

#include "kernels/conv_mma.cuh"

static void conv_windows(const struct conv_args &a)
{
    if (conv_on_tensor_cores(a))
        return;
    const size_t pixels = (size_t)(a.to - a.from) * (size_t)a.width;
    const dim3 grid(tiles(pixels, CONV_PIXELS), tiles((size_t)a.c.out, CONV_OUT), (unsigned)a.c.groups);
    for_kind(false, [&](auto kind, auto) {
        launch("conv", conv_kernel<decltype(kind)>, grid, dim3(BLOCK), 0, a, pixels);
    });
}

/* --- products ------------------------------------------------------------------------------- */

__global__ void conv_silu_kernel(float *y, const float *bias, size_t n, int cols, bool silu)
{
    for EACH(i, n) {
        const float v = y[i] + (bias ? bias[i % cols] : 0.0f);
        y[i] = silu ? v * sigmoid(v) : v;
    }
}

/* `rows` pixels; all groups are one product of several matrices. */
static void conv_product(float *y, const float *x, const struct conv_args &a, int rows, float *work)
{
    const int in = a.c.in * a.c.groups, out = a.c.out * a.c.groups;
    const size_t n = (size_t)rows * (size_t)in;
    const bool joint = a.c.groups == 1;
    const void *from = x;
    if (device.precision == KERN_BF16) {
        launch("conv", round_kernel<bf16>, grid_for(n), dim3(BLOCK), 0, (bf16 *)work, x, n);
        from = work;
    }
    struct gemm g = dense(y, true, 0, joint ? a.bias : NULL, from, false, a.w, true, rows, a.c.out, a.c.in);
    g.lda = in, g.ldc = out;
    g.batch = a.c.groups;
    g.stride_a = a.c.in, g.stride_b = (int64_t)a.c.in * a.c.out, g.stride_c = a.c.out;
    product("conv", g);
    if (a.c.silu || (a.bias && !joint))
        launch("conv", conv_silu_kernel, grid_for((size_t)rows * (size_t)out), dim3(BLOCK), 0, y,
               joint ? NULL : a.bias, (size_t)rows * (size_t)out, out, a.c.silu);
}

static void cuda_conv(float *y, struct kern_rows x, struct kern_conv c, const float *packed, const float *bias,
                      int from, int to, float *work)
{
    const struct conv_args a = {y, x, c, packed, bias, from, to, (x.width << (c.up ? 1 : 0)) / c.stride};
    const size_t pixels = (size_t)(to - from) * (size_t)a.width;
    if (!conv_is_product(c)) {
        conv_windows(a);
        return;
    }
    const float *rows = x.x + (size_t)(from - x.first) * (size_t)x.width * (size_t)x.channels;
    for (size_t at = 0, n; at < pixels; at += n) {
        n = pixels - at < (size_t)CONV_ROWS ? pixels - at : (size_t)CONV_ROWS;
        conv_product(y + at * (size_t)(c.groups * c.out), rows + at * (size_t)x.channels, a, (int)n, work);
    }
}

static void fill_conv2d(struct kern_ops *ops)
{
    ops->conv_size = cuda_conv_size;
    ops->conv_work = cuda_conv_work;
    ops->conv_pack = cuda_conv_pack;
    ops->conv = cuda_conv;
}
