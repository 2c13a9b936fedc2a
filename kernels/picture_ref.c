/* SPDX-License-Identifier: Apache-2.0 */
/* picture_ref.c - the operations of image autoencoders on rows of a channels-last picture, except convolutions */
#include <math.h>

#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

/* --- depthwise convolution ------------------------------------------------------------------ */

struct depth_args {
    float           *y;
    struct kern_rows x;
    const float     *w, *bias;
    int              kernel, from;
};

/* One pixel: lanes of channels outside, taps inside. */
static void depth_pixel(float *y, const struct depth_args *a, int h, int w)
{
    const int n = a->x.channels, half = a->kernel / 2;
    const float *tap[25], *weight[25];
    int taps = 0;
    for (int i = -half; i <= half; i++)
        for (int j = -half; j <= half; j++) {
            if (h + i < 0 || h + i >= a->x.height || w + j < 0 || w + j >= a->x.width)
                continue;
            const size_t at = (size_t)(h + i - a->x.first) * (size_t)a->x.width + (size_t)(w + j);
            tap[taps] = a->x.x + at * (size_t)n;
            weight[taps++] = a->w + (size_t)((i + half) * a->kernel + j + half) * (size_t)n;
        }
    for (int c = 0; c < n; c += LANES) {
        v16 sum = a->bias ? simd_load_at(a->bias, c, n) : (v16){0};
        for (int t = 0; t < taps; t++)
            sum += simd_load_at(tap[t], c, n) * simd_load_at(weight[t], c, n);
        simd_store_at(y, c, n, sum);
    }
}

static void depth_items(const void *arg, size_t from, size_t to)
{
    const struct depth_args *a = arg;
    const size_t width = (size_t)a->x.width;
    for (size_t i = from; i < to; i++)
        depth_pixel(a->y + i * (size_t)a->x.channels, a, a->from + (int)(i / width), (int)(i % width));
}

static void depthwise_rows(float *y, struct kern_rows x, int kernel, const float *w, const float *bias, int from,
                           int to)
{
    const struct depth_args a = {y, x, w, bias, kernel, from};
    thread_pool_range((size_t)(to - from) * (size_t)x.width, 1, (size_t)x.channels * (size_t)kernel, depth_items, &a);
}

/* --- norms ---------------------------------------------------------------------------------- */

struct norm_args {
    float       *y;
    const float *x, *add, *w, *b;
    int          cols;
    float        eps;
    bool         relu;
};

static void norm_items(const void *arg, size_t from, size_t to)
{
    const struct norm_args *a = arg;
    const int n = a->cols;
    for (size_t r = from; r < to; r++) {
        const float *x = a->x + r * (size_t)n;
        v16 squares = {0};
        for (int c = 0; c < n; c += LANES) {
            const v16 v = simd_load_at(x, c, n);
            squares += v * v;
        }
        const float scale = 1 / sqrtf(simd_sum(squares) / (float)n + a->eps);
        for (int c = 0; c < n; c += LANES) {
            v16 v = simd_load_at(x, c, n) * scale * simd_load_at(a->w, c, n);
            if (a->b)
                v += simd_load_at(a->b, c, n);
            if (a->add)
                v += simd_load_at(a->add + r * (size_t)n, c, n);
            simd_store_at(a->y + r * (size_t)n, c, n, a->relu ? simd_max(v, (v16){0}) : v);
        }
    }
}

static void rms_rows(float *y, const float *x, const float *add, const float *w, const float *b, size_t rows, int cols,
                     float eps, bool relu)
{
    const struct norm_args a = {y, x, add, w, b, cols, eps, relu};
    thread_pool_range(rows, 1, (size_t)cols * 4, norm_items, &a);
}

struct group_args {
    double      *sum;
    float       *y;
    const float *x, *scale, *shift;
    size_t       rows;
    int          cols, groups;
    bool         silu;
};

enum { SUM_ROWS = 64 };

/* Item i is a group: its channels of all rows, in one order. */
static void group_items(const void *arg, size_t from, size_t to)
{
    const struct group_args *a = arg;
    const int n = a->cols / a->groups;
    for (size_t g = from; g < to; g++)
        for (size_t r0 = 0; r0 < a->rows; r0 += SUM_ROWS) {
            v16 sum = {0}, squares = {0};
            for (size_t r = r0; r < r0 + SUM_ROWS && r < a->rows; r++)
                for (int c = 0; c < n; c += LANES) {
                    const v16 v = simd_load_at(a->x + r * (size_t)a->cols + g * (size_t)n, c, n);
                    sum += v;
                    squares += v * v;
                }
            a->sum[2 * g] += (double)simd_sum(sum);
            a->sum[2 * g + 1] += (double)simd_sum(squares);
        }
}

static void group_sums(double *sum, const float *x, size_t rows, int cols, int groups)
{
    const struct group_args a = {.sum = sum, .x = x, .rows = rows, .cols = cols, .groups = groups};
    thread_pool_range((size_t)groups, 1, rows * (size_t)(cols / groups), group_items, &a);
}

static void scale_items(const void *arg, size_t from, size_t to)
{
    const struct group_args *a = arg;
    for (size_t r = from; r < to; r++)
        for (int c = 0; c < a->cols; c += LANES) {
            const size_t at = r * (size_t)a->cols;
            v16 v = simd_load_at(a->x + at, c, a->cols) * simd_load_at(a->scale, c, a->cols) +
                    simd_load_at(a->shift, c, a->cols);
            simd_store_at(a->y + at, c, a->cols, a->silu ? v * simd_sigmoid(v) : v);
        }
}

static void scale_rows(float *y, const float *x, const float *scale, const float *shift, size_t rows, int cols,
                       bool silu)
{
    const struct group_args a = {.y = y, .x = x, .scale = scale, .shift = shift, .cols = cols, .silu = silu};
    thread_pool_range(rows, 1, (size_t)cols * 4, scale_items, &a);
}

/* --- ReLU linear attention ------------------------------------------------------------------ */

enum { LIN_ROWS = 128, LIN_DIM = 32 };

struct lin_args {
    double      *total;
    float       *out;
    const float *x, *sums;
    size_t       rows;
    int          dim, ld, ldo;
    float        eps;
};

/* relu() of columns of up to LIN_ROWS rows */
static void relu_copy(float to[LIN_ROWS][LIN_DIM], const float *x, size_t rows, int ld, int dim)
{
    for (size_t r = 0; r < rows; r++, x += ld)
        for (int j = 0; j < dim; j += LANES)
            simd_store_at(to[r], j, dim, simd_max(simd_load_at(x, j, dim), (v16){0}));
}

/* Keys and values of one head are 2 dim columns of a row. */
static void sum_head(double *total, const struct lin_args *a, const float *kv)
{
    const int dim = a->dim;
    float k[LIN_ROWS][LIN_DIM], vk[(LIN_DIM + 1) * LIN_DIM];
    memset(vk, 0, (size_t)((dim + 1) * dim) * sizeof(*vk));
    for (size_t r0 = 0; r0 < a->rows; r0 += LIN_ROWS, kv += (size_t)LIN_ROWS * (size_t)a->ld) {
        const size_t rows = a->rows - r0 < LIN_ROWS ? a->rows - r0 : LIN_ROWS;
        relu_copy(k, kv, rows, a->ld, dim);
        gemm_multiply(&(struct gemm_product){
            .y = vk, .a = kv + dim, .b = k[0], .ldy = (size_t)dim, .lda = (size_t)a->ld, .ldb = LIN_DIM, .rows = dim,
            .cols = dim, .depth = (int)rows, .a_across = true, .add = true,
        });
        for (int j = 0; j < dim; j += LANES) {
            v16 sum = {0};
            for (size_t r = 0; r < rows; r++)
                sum += simd_load_at(k[r], j, dim);
            simd_store_at(vk + dim * dim, j, dim, simd_load_at(vk + dim * dim, j, dim) + sum);
        }
    }
    for (int i = 0; i < (dim + 1) * dim; i++)
        total[i] += (double)vk[i];
}

static void sum_items(const void *arg, size_t from, size_t to)
{
    const struct lin_args *a = arg;
    for (size_t h = from; h < to; h++)
        sum_head(a->total + h * (size_t)((a->dim + 1) * a->dim), a, a->x + h * (size_t)(2 * a->dim));
}

static void lin_sums(double *total, const float *kv, int ld, size_t rows, int heads, int dim)
{
    const struct lin_args a = {.total = total, .x = kv, .rows = rows, .dim = dim, .ld = ld};
    thread_pool_range((size_t)heads, 1, rows * (size_t)dim * 4, sum_items, &a);
}

static void divide_row(float *out, const float *q, const float *ksum, int dim, float eps)
{
    v16 sum = {0};
    for (int j = 0; j < dim; j += LANES)
        sum += simd_load_at(q, j, dim) * simd_load_at(ksum, j, dim);
    const float by = 1 / (simd_sum(sum) + eps);
    for (int j = 0; j < dim; j += LANES)
        simd_store_at(out, j, dim, simd_load_at(out, j, dim) * by);
}

static void apply_head(float *out, const struct lin_args *a, const float *q, const float *vk)
{
    const int dim = a->dim;
    float relu[LIN_ROWS][LIN_DIM];
    for (size_t r0 = 0; r0 < a->rows; r0 += LIN_ROWS) {
        const size_t rows = a->rows - r0 < LIN_ROWS ? a->rows - r0 : LIN_ROWS;
        relu_copy(relu, q + r0 * (size_t)a->ld, rows, a->ld, dim);
        gemm_multiply(&(struct gemm_product){
            .y = out + r0 * (size_t)a->ldo, .a = relu[0], .b = vk, .ldy = (size_t)a->ldo, .lda = LIN_DIM,
            .ldb = (size_t)dim, .rows = (int)rows, .cols = dim, .depth = dim, .b_across = true,
        });
        for (size_t r = 0; r < rows; r++)
            divide_row(out + (r0 + r) * (size_t)a->ldo, relu[r], vk + dim * dim, dim, a->eps);
    }
}

static void apply_items(const void *arg, size_t from, size_t to)
{
    const struct lin_args *a = arg;
    for (size_t h = from; h < to; h++)
        apply_head(a->out + h * (size_t)a->dim, a, a->x + h * (size_t)a->dim,
                   a->sums + h * (size_t)((a->dim + 1) * a->dim));
}

static void lin_apply(float *out, int ldo, const float *q, int ldq, const float *sums, size_t rows, int heads, int dim,
                      float eps)
{
    const struct lin_args a = {.out = out, .x = q, .sums = sums, .rows = rows, .dim = dim, .ld = ldq, .ldo = ldo,
                               .eps = eps};
    thread_pool_range((size_t)heads, 1, rows * (size_t)dim * 4, apply_items, &a);
}

/* --- shortcuts ------------------------------------------------------------------------------- */

struct shuffle_args {
    float       *y;
    const float *x;
    int          width, in, out;
};

/* Item i is an output pixel: means of the channels of 2 x 2 pixels, channel c * 4 + dy * 2 + dx. */
static void down_items(const void *arg, size_t from, size_t to)
{
    const struct shuffle_args *a = arg;
    const int each = 4 * a->in / a->out;
    for (size_t i = from; i < to; i++) {
        const size_t half = (size_t)a->width / 2, row = i / half * 2, col = i % half * 2;
        float *y = a->y + i * (size_t)a->out;
        for (int c = 0; c < a->out; c++) {
            float sum = 0;
            for (int s = c * each; s < (c + 1) * each; s++)
                sum += a->x[((row + (size_t)(s / 2 % 2)) * (size_t)a->width + col + (size_t)(s % 2)) * (size_t)a->in +
                            (size_t)(s / 4)];
            y[c] += sum / (float)each;
        }
    }
}

static void down_add(float *y, const float *x, int rows, int width, int in, int out)
{
    const struct shuffle_args a = {y, x, width, in, out};
    thread_pool_range((size_t)rows / 2 * (size_t)width / 2, 1, (size_t)in * 8, down_items, &a);
}

/* Item i is an input pixel: channel c of pixel (dy, dx) is number c * 4 + dy * 2 + dx of its repeated channels. */
static void up_items(const void *arg, size_t from, size_t to)
{
    const struct shuffle_args *a = arg;
    const int each = 4 * a->out / a->in;
    for (size_t i = from; i < to; i++) {
        const size_t row = i / (size_t)a->width * 2, col = i % (size_t)a->width * 2;
        const float *x = a->x + i * (size_t)a->in;
        for (int d = 0; d < 4; d++) {
            float *y = a->y + ((row + (size_t)(d / 2)) * 2 * (size_t)a->width + col + (size_t)(d % 2)) * (size_t)a->out;
            for (int c = 0; c < a->out; c++)
                y[c] += x[(4 * c + d) / each];
        }
    }
}

static void up_add(float *y, const float *x, int rows, int width, int in, int out)
{
    const struct shuffle_args a = {y, x, width, in, out};
    thread_pool_range((size_t)rows * (size_t)width, 1, (size_t)out * 8, up_items, &a);
}

/* Item i is a pixel. */
static void spread_items(const void *arg, size_t from, size_t to)
{
    const struct shuffle_args *a = arg;
    const int each = a->out > a->in ? a->out / a->in : a->in / a->out;
    for (size_t i = from; i < to; i++) {
        const float *x = a->x + i * (size_t)a->in;
        float *y = a->y + i * (size_t)a->out;
        for (int o = 0; o < a->out; o++) {
            float sum = 0;
            for (int k = 0; a->out < a->in && k < each; k++)
                sum += x[o * each + k];
            y[o] += a->out < a->in ? sum / (float)each : x[o / each];
        }
    }
}

static void spread_add(float *y, const float *x, size_t rows, int in, int out)
{
    const struct shuffle_args a = {y, x, 0, in, out};
    thread_pool_range(rows, 1, (size_t)(in + out) * 2, spread_items, &a);
}

/* --- other layouts and types -------------------------------------------------------------------- */

static void to_floats(float *y, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

static void planes_to_rows(float *y, const float *planes, struct kern_image s, int from, int to)
{
    const size_t width = (size_t)s.width, channels = (size_t)s.channels, plane = width * (size_t)s.height;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < (size_t)(to - from) * width; i++)
            y[i * channels + c] = planes[c * plane + (size_t)from * width + i];
}

static void rows_to_planes(float *planes, const float *x, struct kern_image s, int from, int to)
{
    const size_t width = (size_t)s.width, channels = (size_t)s.channels, plane = width * (size_t)s.height;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < (size_t)(to - from) * width; i++)
            planes[c * plane + (size_t)from * width + i] = x[i * channels + c];
}

void KERN_FILL(picture)(struct kern_ops *ops)
{
    ops->spread_add = spread_add;
    ops->to_floats = to_floats;
    ops->planes_to_rows = planes_to_rows;
    ops->rows_to_planes = rows_to_planes;
    ops->depthwise_rows = depthwise_rows;
    ops->rms_rows = rms_rows;
    ops->group_sums = group_sums;
    ops->scale_rows = scale_rows;
    ops->lin_sums = lin_sums;
    ops->lin_apply = lin_apply;
    ops->down_add = down_add;
    ops->up_add = up_add;
}
