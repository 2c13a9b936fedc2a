/* SPDX-License-Identifier: Apache-2.0 */
/* conv_ref.c - depthwise 3x3 convolution on channels-last images
 *
 * A group of sixteen channels is one v16.  For each output row a window of
 * three columns slides to the right: three loads per pixel instead of nine.
 * Above, below and beside the image the window holds zeros.  A channel's sums
 * stay with one thread, in one order.
 */
#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

enum { TILE_GROUPS = 20 };

struct window {
    v16 left[3], mid[3], right[3]; /* a column each: rows above, at, below */
};

/* Rows h-1, h, h+1 of one sample at one channel group. */
struct rows {
    const float *row[3];
    size_t       stride[3]; /* from pixel to pixel; 0 for a row outside the image */
};

static const float no_pixels[LANES];

LANE_FN struct rows rows_at(const float *image, int h, struct kern_image s, int c)
{
    struct rows r;
    for (int i = 0; i < 3; i++) {
        int y = h + i - 1;
        int inside = y >= 0 && y < s.height;
        r.row[i] = inside ? image + (size_t)y * (size_t)s.width * (size_t)s.channels + c
                          : no_pixels;
        r.stride[i] = inside ? (size_t)s.channels : 0;
    }
    return r;
}

LANE_FN void load_column(v16 col[3], const struct rows *r, int w, size_t n)
{
    for (int i = 0; i < 3; i++) {
        const float *p = r->row[i] + (size_t)w * r->stride[i];
        col[i] = n == LANES ? lane_load(p) : lane_load_n(p, n);
    }
}

LANE_FN void window_start(struct window *win, const struct rows *r, size_t n)
{
    for (int i = 0; i < 3; i++)
        win->mid[i] = lane_all(0.0f);
    load_column(win->right, r, 0, n);
}

/* Move so that the middle column is w. */
LANE_FN void window_slide(struct window *win, const struct rows *r, int w, int width, size_t n)
{
    for (int i = 0; i < 3; i++) {
        win->left[i] = win->mid[i];
        win->mid[i] = win->right[i];
        win->right[i] = lane_all(0.0f);
    }
    if (w + 1 < width)
        load_column(win->right, r, w + 1, n);
}

LANE_FN void store(float *p, v16 x, size_t n)
{
    if (n == LANES)
        lane_store(p, x);
    else
        lane_store_n(p, x, n);
}

/* w[c][9] of a channel group as nine v16. */
LANE_FN void load_weights(v16 to[9], const float *w, int c, size_t n)
{
    float lanes[9][LANES] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < 9; t++)
            lanes[t][i] = w[((size_t)c + i) * 9 + (size_t)t];
    memcpy(to, lanes, sizeof(lanes));
}

LANE_FN v16 window_product(const struct window *win, const v16 w[9], v16 y)
{
    for (int i = 0; i < 3; i++)
        y += win->left[i] * w[3 * i] + win->mid[i] * w[3 * i + 1] + win->right[i] * w[3 * i + 2];
    return y;
}

LANE_FN void conv_row(float *y, const struct rows *r, const v16 w[9], v16 bias, int width,
                      size_t step, size_t n)
{
    struct window win;
    window_start(&win, r, n);
    for (int x = 0; x < width; x++) {
        window_slide(&win, r, x, width, n);
        store(y + (size_t)x * step, window_product(&win, w, bias), n);
    }
}

/* All rows of one sample for groups of channels [c0, c1). */
static void conv_tile(float *y, const float *x, const float *w, const float *b, int flip, int c0,
                      int c1, struct kern_image s)
{
    v16 weight[TILE_GROUPS][9], bias[TILE_GROUPS];
    for (int c = c0, g = 0; c < c1; c += LANES, g++) {
        const size_t n = (size_t)(c1 - c < LANES ? c1 - c : LANES);
        v16 own[9];
        load_weights(own, w, c, n);
        for (int t = 0; t < 9; t++)
            weight[g][t] = own[flip ? 8 - t : t];
        bias[g] = b ? lane_load_n(b + c, n) : lane_all(0.0f);
    }
    for (int h = 0; h < s.height; h++)
        for (int c = c0, g = 0; c < c1; c += LANES, g++) {
            const size_t n = (size_t)(c1 - c < LANES ? c1 - c : LANES);
            const struct rows r = rows_at(x, h, s, c);
            float *to = y + (size_t)h * (size_t)s.width * (size_t)s.channels + c;
            if (n == LANES)
                conv_row(to, &r, weight[g], bias[g], s.width, (size_t)s.channels, LANES);
            else
                conv_row(to, &r, weight[g], bias[g], s.width, (size_t)s.channels, n);
        }
}

/* Adds one row's share of dw and db to sums[0..8] and sums[9]. */
LANE_FN void weight_row(v16 sums[10], const float *dy, const struct rows *r, int width,
                        size_t step, size_t n)
{
    struct window win;
    v16 part[10] = {{0}};
    window_start(&win, r, n);
    for (int x = 0; x < width; x++) {
        const float *p = dy + (size_t)x * step;
        v16 d = n == LANES ? lane_load(p) : lane_load_n(p, n);
        window_slide(&win, r, x, width, n);
        for (int i = 0; i < 3; i++) {
            part[3 * i] += win.left[i] * d;
            part[3 * i + 1] += win.mid[i] * d;
            part[3 * i + 2] += win.right[i] * d;
        }
        part[9] += d;
    }
    for (int t = 0; t < 10; t++)
        sums[t] += part[t];
}

static void add_weight_sums(float *dw, float *db, const v16 sums[10], int c, size_t n)
{
    float lanes[10][LANES];
    memcpy(lanes, sums, sizeof(lanes));
    for (size_t i = 0; i < n; i++) {
        for (int t = 0; t < 9; t++)
            dw[((size_t)c + i) * 9 + (size_t)t] += lanes[t][i];
        db[(size_t)c + i] += lanes[9][i];
    }
}

/* dw and db of groups of channels [c0, c1), over all samples. */
static void weight_tile(float *dw, float *db, const float *dy, const float *x, int c0, int c1,
                        struct kern_image s)
{
    v16 sums[TILE_GROUPS][10] = {{{0}}};
    const size_t pixels = (size_t)s.height * (size_t)s.width * (size_t)s.channels;
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.height; h++)
            for (int c = c0, g = 0; c < c1; c += LANES, g++) {
                const size_t n = (size_t)(c1 - c < LANES ? c1 - c : LANES);
                const struct rows r = rows_at(x + (size_t)b * pixels, h, s, c);
                const float *d = dy + (size_t)b * pixels +
                                 (size_t)h * (size_t)s.width * (size_t)s.channels + c;
                if (n == LANES)
                    weight_row(sums[g], d, &r, s.width, (size_t)s.channels, LANES);
                else
                    weight_row(sums[g], d, &r, s.width, (size_t)s.channels, n);
            }
    for (int c = c0, g = 0; c < c1; c += LANES, g++)
        add_weight_sums(dw, db, sums[g], c, (size_t)(c1 - c < LANES ? c1 - c : LANES));
}

static void depthwise(float *y, const float *x, const float *w, const float *b,
                      struct kern_image s)
{
    const int tile = TILE_GROUPS * LANES, tiles = (s.channels + tile - 1) / tile;
    const size_t pixels = (size_t)s.height * (size_t)s.width * (size_t)s.channels;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < s.batch * tiles; i++) {
        const size_t at = (size_t)(i / tiles) * pixels;
        const int c0 = i % tiles * tile, c1 = c0 + tile < s.channels ? c0 + tile : s.channels;
        conv_tile(y + at, x + at, w, b, 0, c0, c1, s);
    }
}

static void depthwise_back(float *dx, float *dw, float *db, const float *dy, const float *x,
                           const float *w, struct kern_image s)
{
    const int tile = TILE_GROUPS * LANES, tiles = (s.channels + tile - 1) / tile;
    const size_t pixels = (size_t)s.height * (size_t)s.width * (size_t)s.channels;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < s.batch * tiles; i++) {
            const size_t at = (size_t)(i / tiles) * pixels;
            const int c0 = i % tiles * tile, c1 = c0 + tile < s.channels ? c0 + tile : s.channels;
            conv_tile(dx + at, dy + at, w, NULL, 1, c0, c1, s);
        }
#pragma omp for schedule(static)
        for (int c = 0; c < s.channels; c += LANES)
            weight_tile(dw, db, dy, x, c, c + LANES < s.channels ? c + LANES : s.channels, s);
    }
}

void KERN_FILL(conv)(struct kern_ops *ops)
{
    ops->depthwise = depthwise;
    ops->depthwise_back = depthwise_back;
}
