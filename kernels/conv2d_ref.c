/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d_ref.c - convolutions of rows of a channels-last picture, and their packed weights
 *
 * 3x3 with stride 1 by Winograd's F(2x2, 3x3): a tile of 4x4 pixels is transformed (additions only), sixteen products
 * of tiles with transformed weights take the place of 36, and the sums are transformed into 2x2 pixels.  Its rounding
 * is about twice that of the plain sum (tests/unit/kernels/test_conv2d.c).  All others gather the window of each
 * pixel into a row, and 1x1 has it already. Threads take blocks of tiles or rows first come, first served: any thread
 * computes a number in the same order.
 */
#include <stdatomic.h>

#include "kernels/gemm_tile.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

enum {
    POINTS = 16,                    /* of a transformed tile */
    NARROW = 16,                    /* with fewer channels the transforms do not pay */
    TILES = 48,                     /* per block: its transforms stay in the cache */
    ROWS = GEMM_ROWS * GEMM_BAND    /* pixels per block */
};

struct conv {
    float           *y;
    struct kern_rows x;
    struct kern_conv c;
    const float     *w, *bias;
    float           *work;
    size_t           work_size; /* of one part, in numbers */
    int              from, to, width;
    size_t           blocks;
    atomic_size_t   *next;
};

static bool is_winograd(struct kern_conv c)
{
    return c.kernel == 3 && c.stride == 1 && c.groups == 1 && c.in >= NARROW && c.out >= NARROW;
}

static int depth_of(struct kern_conv c)
{
    return c.kernel * c.kernel * c.in;
}

static size_t conv_size(struct kern_conv c)
{
    return is_winograd(c) ? POINTS * gemm_packed(c.in, c.out) : (size_t)c.groups * gemm_packed(depth_of(c), c.out);
}

static size_t part_work(struct kern_conv c)
{
    if (is_winograd(c))
        return (size_t)POINTS * TILES * (size_t)(c.in + c.out);
    return c.kernel == 1 ? 0 : (size_t)ROWS * (size_t)depth_of(c);
}

static size_t conv_work(struct kern_conv c)
{
    return (size_t)thread_pool_size() * part_work(c);
}

/* --- weights ------------------------------------------------------------------------------- */

/* u = G g G^T */
static void transform_weight(float u[POINTS], const float *g)
{
    double half[4][3];
    for (int j = 0; j < 3; j++) {
        const double a = (double)g[j], b = (double)g[3 + j], c = (double)g[6 + j];
        half[0][j] = a;
        half[1][j] = (a + b + c) / 2;
        half[2][j] = (a - b + c) / 2;
        half[3][j] = c;
    }
    for (int i = 0; i < 4; i++) {
        const double a = half[i][0], b = half[i][1], c = half[i][2];
        u[4 * i] = (float)a;
        u[4 * i + 1] = (float)((a + b + c) / 2);
        u[4 * i + 2] = (float)((a - b + c) / 2);
        u[4 * i + 3] = (float)c;
    }
}

struct pack_args {
    float           *to;
    const float     *w;
    struct kern_conv c;
};

/* Item i is a row of a panel: an input channel, for GEMM_COLS output channels at all points. */
static void pack_winograd(const void *arg, size_t from, size_t to)
{
    const struct pack_args *a = arg;
    const size_t in = (size_t)a->c.in, point = gemm_packed(a->c.in, a->c.out);
    for (size_t i = from; i < to; i++)
        for (size_t c = 0; c < GEMM_COLS; c++) {
            const size_t out = i / in * GEMM_COLS + c;
            float u[POINTS] = {0};
            if (out < (size_t)a->c.out)
                transform_weight(u, a->w + (out * in + i % in) * 9);
            for (size_t p = 0; p < POINTS; p++)
                a->to[p * point + i * GEMM_COLS + c] = u[p];
        }
}

/* w[out][in][taps] as a matrix of out x (taps, in), for each group. */
static void conv_pack(float *to, const float *w, struct kern_conv c)
{
    const int taps = c.kernel * c.kernel;
    const struct pack_args a = {to, w, c};
    if (is_winograd(c)) {
        thread_pool_range(gemm_panels(c.out) * (size_t)c.in, 1, (size_t)POINTS * 64, pack_winograd, &a);
        return;
    }
    for (int g = 0; g < c.groups; g++, w += (size_t)c.out * (size_t)depth_of(c))
        for (int p = 0; p < (int)gemm_panels(c.out); p++)
            for (int k = 0; k < depth_of(c); k++)
                for (int o = 0; o < GEMM_COLS; o++, to++) {
                    const int row = p * GEMM_COLS + o;
                    *to = row < c.out ? w[((size_t)row * (size_t)c.in + (size_t)(k % c.in)) * (size_t)taps +
                                          (size_t)(k / c.in)]
                                      : 0;
                }
}

/* --- pixels -------------------------------------------------------------------------------- */

static const float zeros[LANES];

/* The channels of a pixel: x[c * step], and zeros outside. */
struct pixel {
    const float *x;
    size_t       step;
};

SIMD_FN struct pixel pixel_at(const struct conv *a, int h, int w)
{
    const int up = a->c.up ? 1 : 0;
    const struct kern_rows *r = &a->x;
    if (h < 0 || w < 0 || h >= r->height << up || w >= r->width << up)
        return (struct pixel){zeros, 0};
    const size_t at = (size_t)((h >> up) - r->first) * (size_t)r->width + (size_t)(w >> up);
    return (struct pixel){r->x + at * (size_t)r->channels, 1};
}

SIMD_FN v16 channels_at(struct pixel p, int c, int channels)
{
    return p.step ? simd_load_at(p.x, c, channels) : simd_load(p.x);
}

SIMD_FN void silu_row(float *y, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const v16 x = simd_load_at(y + i, 0, n - i);
        simd_store_at(y + i, 0, n - i, x * simd_sigmoid(x));
    }
}

/* --- Winograd ------------------------------------------------------------------------------- */

/* v = B^T d B of one tile of pixels: sixteen rows of channels, `point` numbers apart. */
static void transform_tile(float *v, size_t point, const struct pixel px[POINTS], int channels)
{
    for (int c = 0; c < channels; c += LANES, v += LANES) {
        v16 t[4][4];
        for (int j = 0; j < 4; j++) {
            const int at = c;
            const v16 a = channels_at((struct pixel){px[j].x + (size_t)at * px[j].step, px[j].step}, 0, channels - c);
            const v16 b = channels_at((struct pixel){px[4 + j].x + (size_t)at * px[4 + j].step, px[4 + j].step}, 0,
                                      channels - c);
            const v16 e = channels_at((struct pixel){px[8 + j].x + (size_t)at * px[8 + j].step, px[8 + j].step}, 0,
                                      channels - c);
            const v16 f = channels_at((struct pixel){px[12 + j].x + (size_t)at * px[12 + j].step, px[12 + j].step}, 0,
                                      channels - c);
            t[0][j] = a - e;
            t[1][j] = b + e;
            t[2][j] = e - b;
            t[3][j] = b - f;
        }
        for (int i = 0; i < 4; i++) {
            float *to = v + (size_t)(4 * i) * point;
            simd_store_at(to, 0, channels - c, t[i][0] - t[i][2]);
            simd_store_at(to + point, 0, channels - c, t[i][1] + t[i][2]);
            simd_store_at(to + 2 * point, 0, channels - c, t[i][2] - t[i][1]);
            simd_store_at(to + 3 * point, 0, channels - c, t[i][1] - t[i][3]);
        }
    }
}

/* y = A^T m A: 2x2 pixels, of which some can lie outside (NULL). */
static void inverse_tile(float *const y[4], const float *m, size_t point, const float *bias, int channels, bool silu)
{
    for (int c = 0; c < channels; c += LANES, m += LANES) {
        const int left = channels - c;
        const v16 b = bias ? simd_load_at(bias + c, 0, left) : (v16){0};
        v16 t[2][4];
        for (int j = 0; j < 4; j++) {
            const float *col = m + (size_t)j * point;
            const v16 m0 = simd_load_at(col, 0, left), m1 = simd_load_at(col + 4 * point, 0, left);
            const v16 m2 = simd_load_at(col + 8 * point, 0, left), m3 = simd_load_at(col + 12 * point, 0, left);
            t[0][j] = m0 + m1 + m2;
            t[1][j] = m1 - m2 - m3;
        }
        for (int i = 0; i < 4; i++) {
            const v16 *r = t[i / 2];
            v16 s = (i % 2 ? r[1] - r[2] - r[3] : r[0] + r[1] + r[2]) + b;
            if (silu)
                s = s * simd_sigmoid(s);
            if (y[i])
                simd_store_at(y[i] + c, 0, left, s);
        }
    }
}

static void gather_tiles(float *v, const struct conv *a, size_t first, size_t count)
{
    const size_t across = ((size_t)a->width + 1) / 2;
    for (size_t t = 0; t < count; t++) {
        const int h = a->from + 2 * (int)((first + t) / across) - 1, w = 2 * (int)((first + t) % across) - 1;
        struct pixel px[POINTS];
        for (int i = 0; i < POINTS; i++)
            px[i] = pixel_at(a, h + i / 4, w + i % 4);
        transform_tile(v + t * (size_t)a->c.in, TILES * (size_t)a->c.in, px, a->c.in);
    }
}

static void scatter_tiles(const struct conv *a, const float *m, size_t first, size_t count)
{
    const size_t across = ((size_t)a->width + 1) / 2, out = (size_t)a->c.out;
    for (size_t t = 0; t < count; t++) {
        const int h = a->from + 2 * (int)((first + t) / across), w = 2 * (int)((first + t) % across);
        float *y[4];
        for (int i = 0; i < 4; i++)
            y[i] = h + i / 2 < a->to && w + i % 2 < a->width
                       ? a->y + ((size_t)(h + i / 2 - a->from) * (size_t)a->width + (size_t)(w + i % 2)) * out
                       : NULL;
        inverse_tile(y, m + t * out, TILES * out, a->bias, a->c.out, a->c.silu);
    }
}

static void winograd_block(const struct conv *a, size_t block, float *work)
{
    const size_t tiles = (size_t)((a->to - a->from + 1) / 2) * (((size_t)a->width + 1) / 2);
    const size_t first = block * TILES, count = tiles - first < TILES ? tiles - first : TILES;
    const size_t in = (size_t)a->c.in, out = (size_t)a->c.out;
    float *v = work, *m = work + POINTS * TILES * in;
    gather_tiles(v, a, first, count);
    for (size_t p = 0; p < POINTS; p++)
        gemm_run(&(struct gemm){
            .y = m + p * TILES * out, .x = v + p * TILES * in, .w = a->w + p * gemm_packed(a->c.in, a->c.out),
            .ldy = a->c.out, .ldx = a->c.in, .rows = (int)count, .k = a->c.in, .n = a->c.out,
        });
    scatter_tiles(a, m, first, count);
}

/* --- all others ---------------------------------------------------------------------------- */

/* Output pixel i as a row: for each tap of its window the channels. */
static void gather_window(float *to, const struct conv *a, size_t i)
{
    const int h = (a->from + (int)(i / (size_t)a->width)) * a->c.stride - a->c.pad;
    const int w = (int)(i % (size_t)a->width) * a->c.stride - a->c.pad;
    for (int t = 0; t < a->c.kernel * a->c.kernel; t++, to += a->c.in) {
        const struct pixel p = pixel_at(a, h + t / a->c.kernel, w + t % a->c.kernel);
        if (p.step)
            memcpy(to, p.x, (size_t)a->c.in * sizeof(*to));
        else
            memset(to, 0, (size_t)a->c.in * sizeof(*to));
    }
}

static void plain_block(const struct conv *a, size_t block, float *work)
{
    const size_t pixels = (size_t)(a->to - a->from) * (size_t)a->width, first = block * ROWS;
    const size_t count = pixels - first < ROWS ? pixels - first : ROWS, cols = (size_t)(a->c.out * a->c.groups);
    const int k = depth_of(a->c), ldx = a->c.kernel == 1 ? a->x.channels : k;
    const size_t at = ((size_t)(a->from - a->x.first) * (size_t)a->x.width + first) * (size_t)a->x.channels;
    const float *x = a->c.kernel == 1 ? a->x.x + at : work;
    for (size_t i = 0; a->c.kernel > 1 && i < count; i++)
        gather_window(work + i * (size_t)k, a, first + i);
    for (int g = 0; g < a->c.groups; g++)
        gemm_run(&(struct gemm){
            .y = a->y + first * cols + g * a->c.out, .x = x + g * a->c.in,
            .w = a->w + (size_t)g * gemm_packed(k, a->c.out), .bias = a->bias ? a->bias + g * a->c.out : NULL,
            .ldy = (int)cols, .ldx = ldx, .rows = (int)count, .k = k, .n = a->c.out,
        });
    for (size_t i = 0; a->c.silu && i < count; i++)
        silu_row(a->y + (first + i) * cols, (int)cols);
}

/* --- threads ------------------------------------------------------------------------------- */

static void conv_part(const void *arg, int part)
{
    const struct conv *a = arg;
    float *work = a->work + (size_t)part * a->work_size;
    for (;;) {
        const size_t b = atomic_fetch_add(a->next, 1);
        if (b >= a->blocks)
            return;
        if (is_winograd(a->c))
            winograd_block(a, b, work);
        else
            plain_block(a, b, work);
    }
}

static void conv(float *y, struct kern_rows x, struct kern_conv c, const float *w, const float *bias, int from, int to,
                 float *work)
{
    atomic_size_t next = 0;
    struct conv a = {.y = y, .x = x, .c = c, .w = w, .bias = bias, .work = work, .work_size = part_work(c),
                     .from = from, .to = to, .next = &next};
    a.width = x.width * (c.up ? 2 : 1) / c.stride;
    const size_t tiles = (size_t)((to - from + 1) / 2) * (((size_t)a.width + 1) / 2);
    const size_t pixels = (size_t)(to - from) * (size_t)a.width;
    a.blocks = is_winograd(c) ? (tiles + TILES - 1) / TILES : (pixels + ROWS - 1) / ROWS;
    thread_pool_run(thread_pool_size(), conv_part, &a);
}

void KERN_FILL(conv2d)(struct kern_ops *ops)
{
    ops->conv_size = conv_size;
    ops->conv_work = conv_work;
    ops->conv_pack = conv_pack;
    ops->conv = conv;
}
