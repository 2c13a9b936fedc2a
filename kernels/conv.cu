/* SPDX-License-Identifier: Apache-2.0 */
/* conv.cu - depthwise 3x3 convolution on channels-last images
 *
 * Neighbouring threads have neighbouring channels, so that loads are whole
 * lines; the nine pixels of a window come from cache.
 */
#include "kernels/device.cuh"

/* The window's pixel (i, j) - (1, 1), or 0 outside. */
__device__ static inline float window(const float *x, struct kern_image s, int h, int w, int c,
                                      int i, int j)
{
    const int y = h + i - 1, z = w + j - 1;
    if (y < 0 || y >= s.height || z < 0 || z >= s.width)
        return 0.0f;
    return x[((size_t)y * s.width + z) * s.channels + c];
}

/* `flip`: the window turned round, which is the gradient of the input. bias may be NULL. */
__global__ void depthwise_kernel(float *y, const float *x, const float *w, const float *bias,
                                 struct kern_image s, int flip, size_t n)
{
    const size_t image = (size_t)s.height * s.width * s.channels;
    for EACH(at, n) {
        const size_t b = at / image;
        const int c = (int)(at % s.channels), px = (int)(at % image / s.channels);
        float sum = bias ? bias[c] : 0.0f;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                sum += window(x + b * image, s, px / s.width, px % s.width, c, i, j) *
                       w[(size_t)c * 9 + (flip ? 8 - 3 * i - j : 3 * i + j)];
        y[at] = sum;
    }
}

/* Row `row` is a pixel of the batch: its part of the nine weights' gradients and of the bias's. */
struct depthwise_columns {
    enum { SUMS = 10 };
    const float      *dy, *x;
    struct kern_image s;
    __device__ void get(float *out, size_t row, int c) const
    {
        const size_t pixels = (size_t)s.height * s.width, b = row / pixels;
        const int px = (int)(row % pixels);
        const float d = dy[row * s.channels + c];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                out[3 * i + j] = d * window(x + b * pixels * s.channels, s, px / s.width,
                                            px % s.width, c, i, j);
        out[9] = d;
    }
};

/* dw[c][9] += and db[c] += the sums over chunks. */
__global__ void depthwise_finish(float *dw, float *db, const float *part, int cols, int chunks)
{
    for EACH(i, (size_t)cols * 10) {
        const size_t k = i / cols, c = i % cols;
        float total = 0;
        for (int j = 0; j < chunks; j++)
            total += part[(k * chunks + j) * cols + c];
        if (k < 9)
            dw[c * 9 + k] += total;
        else
            db[c] += total;
    }
}

static size_t image_numbers(struct kern_image s)
{
    return (size_t)s.batch * (size_t)s.height * (size_t)s.width * (size_t)s.channels;
}

static void cuda_depthwise(float *y, const float *x, const float *w, const float *b,
                           struct kern_image s)
{
    const size_t n = image_numbers(s);
    launch("depthwise", depthwise_kernel, grid_for(n), dim3(BLOCK), 0, y, x, w, b, s, 0, n);
}

static void cuda_depthwise_back(float *dx, float *dw, float *db, const float *dy, const float *x,
                                const float *w, struct kern_image s)
{
    const size_t n = image_numbers(s);
    const int rows = s.batch * s.height * s.width, cols = s.channels;
    const int chunks = (int)tiles((size_t)rows, COL_CHUNK);
    const struct depthwise_columns f = {dy, x, s};
    float *part = (float *)device_scratch(SCRATCH_PARTS, sizeof(float) * 10 * (size_t)chunks *
                                                             (size_t)cols);
    if (!part)
        return;
    launch("depthwise_back", depthwise_kernel, grid_for(n), dim3(BLOCK), 0, dx, dy, w, NULL, s, 1,
           n);
    launch("depthwise_back", column_parts<depthwise_columns>,
           dim3(tiles((size_t)cols, COL_TILE), (unsigned)chunks, 1), dim3(COL_TILE, COL_LANES), 0,
           part, f, rows, cols, chunks);
    launch("depthwise_back", depthwise_finish, grid_for((size_t)cols * 10), dim3(BLOCK), 0, dw, db,
           part, cols, chunks);
}

static void fill_conv(struct kern_ops *ops)
{
    ops->depthwise = cuda_depthwise;
    ops->depthwise_back = cuda_depthwise_back;
}
