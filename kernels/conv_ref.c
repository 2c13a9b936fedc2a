/* SPDX-License-Identifier: Apache-2.0 */
/* conv_ref.c - depthwise 3x3 convolution on channels-last images
 *
 * Channels are contiguous, so the inner loop runs along them: a few
 * pixels at a time, each channel's nine weights loaded once for all of them.
 * A row of zeros pads the image on every side.  One thread computes all sums of a
 * channel, in one order.
 */
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum {
    TILE = 320,  /* channels per task at most: its weights stay in the L1 cache */
    PAIR = 2,    /* pixels at once, forward ... */
    QUAD = 4     /* ... and for the gradient of the weights */
};

static const float zeros[TILE];

/* One sample's channels from c on. */
struct plane {
    const float *x;
    int          height, width;
    size_t       step; /* stride from pixel to pixel */
};

SIMD_FN struct plane plane_at(const float *x, struct kern_image s, int b, int c)
{
    const size_t pixels = (size_t)s.height * (size_t)s.width * (size_t)s.channels;
    return (struct plane){x + (size_t)b * pixels + c, s.height, s.width, (size_t)s.channels};
}

/* A pixel, or zeros outside. */
SIMD_FN const float *pixel(const struct plane *p, int h, int w)
{
    if (h < 0 || h >= p->height || w < 0 || w >= p->width)
        return zeros;
    return p->x + ((size_t)h * (size_t)p->width + (size_t)w) * p->step;
}

/* w[c][9] as nine rows of channels; `flip` reverses the window. */
static void load_weights(float to[9][TILE], const float *w, int channels, int flip)
{
    for (int c = 0; c < channels; c++)
        for (int t = 0; t < 9; t++)
            to[flip ? 8 - t : t][c] = w[c * 9 + t];
}

/* One register of PAIR pixels: in[3][PAIR + 2] are the pixels around them. */
SIMD_FN void pair_lanes(float *const out[PAIR], const float *const in[3][PAIR + 2],
                        const float w[9][TILE], const float *bias, int at, int channels)
{
    simd_reg y[PAIR];
#pragma GCC unroll 4
    for (int k = 0; k < PAIR; k++)
        y[k] = simd_reg_load(bias, at, channels);
#pragma GCC unroll 4
    for (int i = 0; i < 3; i++) {
        simd_reg x[PAIR + 2];
#pragma GCC unroll 4
        for (int k = 0; k < PAIR + 2; k++)
            x[k] = simd_reg_load(in[i][k], at, channels);
#pragma GCC unroll 4
        for (int j = 0; j < 3; j++) {
            const simd_reg f = simd_reg_load(w[3 * i + j], at, channels);
#pragma GCC unroll 4
            for (int k = 0; k < PAIR; k++)
                y[k] += x[k + j] * f;
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < PAIR; k++)
        simd_reg_store(out[k], at, channels, y[k]);
}

static void conv_pair(float *const out[PAIR], const float *const in[3][PAIR + 2],
                      const float w[9][TILE], const float *bias, int channels)
{
    int at = 0;
    for (; at + SIMD_WIDTH <= channels; at += SIMD_WIDTH)
        pair_lanes(out, in, w, bias, at, at + SIMD_WIDTH);
    if (at < channels)
        pair_lanes(out, in, w, bias, at, channels);
}

/* `channels` channels of one sample. */
static void conv_plane(float *y, struct plane p, const float w[9][TILE], const float *bias, int channels)
{
    float spare[TILE]; /* output for the missing pixel of a row of odd length */
    for (int h = 0; h < p.height; h++)
        for (int x = 0; x < p.width; x += PAIR) {
            const float *in[3][PAIR + 2];
            float *out[PAIR];
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < PAIR + 2; k++)
                    in[i][k] = pixel(&p, h + i - 1, x + k - 1);
            for (int k = 0; k < PAIR; k++)
                out[k] = x + k < p.width
                             ? y + ((size_t)h * (size_t)p.width + (size_t)(x + k)) * p.step
                             : spare;
            conv_pair(out, in, w, bias, channels);
        }
}

/* One register: sums[t] += window pixel t times dy, of QUAD pixels; sums[9] += dy. */
SIMD_FN void quad_lanes(float sums[10][TILE], const float *const in[3][QUAD + 2],
                        const float *const dy[QUAD], int at, int channels)
{
    simd_reg d[QUAD], total = {0};
#pragma GCC unroll 4
    for (int k = 0; k < QUAD; k++) {
        d[k] = simd_reg_load(dy[k], at, channels);
        total += d[k];
    }
    simd_reg_store(sums[9], at, TILE, simd_reg_load(sums[9], at, TILE) + total);
#pragma GCC unroll 4
    for (int i = 0; i < 3; i++) {
        simd_reg x[QUAD + 2];
#pragma GCC unroll 6
        for (int k = 0; k < QUAD + 2; k++)
            x[k] = simd_reg_load(in[i][k], at, channels);
#pragma GCC unroll 4
        for (int j = 0; j < 3; j++) {
            float *to = sums[3 * i + j];
            simd_reg s = {0};
#pragma GCC unroll 4
            for (int k = 0; k < QUAD; k++)
                s += x[k + j] * d[k];
            simd_reg_store(to, at, TILE, simd_reg_load(to, at, TILE) + s);
        }
    }
}

static void weight_plane(float sums[10][TILE], struct plane p, struct plane dy, int channels)
{
    for (int h = 0; h < p.height; h++)
        for (int x = 0; x < p.width; x += QUAD) {
            const float *in[3][QUAD + 2], *d[QUAD];
            int at = 0;
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < QUAD + 2; k++)
                    in[i][k] = pixel(&p, h + i - 1, x + k - 1);
            for (int k = 0; k < QUAD; k++)
                d[k] = pixel(&dy, h, x + k);
            for (; at + SIMD_WIDTH <= channels; at += SIMD_WIDTH)
                quad_lanes(sums, in, d, at, at + SIMD_WIDTH);
            if (at < channels)
                quad_lanes(sums, in, d, at, channels);
        }
}

struct conv_args {
    float            *y, *dw, *db; /* y, or dx */
    const float      *x, *dy, *w, *b;
    struct kern_image s;
    int               tile, tiles;
};

/* Item i is a sample and a tile of channels: y from x, or dx from dy. */
static void conv_items(const void *arg, size_t from, size_t to)
{
    const struct conv_args *a = arg;
    float w[9][TILE], bias[TILE] = {0};
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->tiles, c = (int)i % a->tiles * a->tile;
        const int n = a->s.channels - c < a->tile ? a->s.channels - c : a->tile;
        const struct plane p = plane_at(a->dy ? a->dy : a->x, a->s, b, c);
        load_weights(w, a->w + (size_t)c * 9, n, a->dy != NULL);
        if (a->b)
            memcpy(bias, a->b + c, (size_t)n * sizeof(*bias));
        conv_plane(a->y + (p.x - (a->dy ? a->dy : a->x)), p, (const float(*)[TILE])w, bias, n);
    }
}

/* Item i is a tile of channels, over all samples. */
static void weight_items(const void *arg, size_t from, size_t to)
{
    const struct conv_args *a = arg;
    for (size_t i = from; i < to; i++) {
        float sums[10][TILE] = {{0}};
        const int c = (int)i * a->tile;
        const int n = a->s.channels - c < a->tile ? a->s.channels - c : a->tile;
        for (int b = 0; b < a->s.batch; b++)
            weight_plane(sums, plane_at(a->x, a->s, b, c), plane_at(a->dy, a->s, b, c), n);
        for (int k = 0; k < n; k++) {
            for (int t = 0; t < 9; t++)
                a->dw[(size_t)(c + k) * 9 + (size_t)t] += sums[t][k];
            a->db[c + k] += sums[9][k];
        }
    }
}

/* The widest tiles that still give every thread one. */
static void choose_tiles(struct conv_args *a, int samples)
{
    const int wanted = (2 * thread_pool_size() + samples - 1) / samples;
    const int even = (a->s.channels + wanted - 1) / wanted;
    const int tile = (even + LANES - 1) / LANES * LANES;
    a->tile = tile < TILE ? tile : TILE;
    a->tiles = (a->s.channels + a->tile - 1) / a->tile;
}

static size_t work_of(struct kern_image s, int tile)
{
    return (size_t)s.height * (size_t)s.width * (size_t)tile * 2;
}

static void depthwise(float *y, const float *x, const float *w, const float *b, struct kern_image s)
{
    struct conv_args a = {.y = y, .x = x, .w = w, .b = b, .s = s};
    choose_tiles(&a, s.batch);
    thread_pool_range((size_t)(s.batch * a.tiles), 1, work_of(s, a.tile), conv_items, &a);
}

static void depthwise_back(float *dx, float *dw, float *db, const float *dy, const float *x,
                           const float *w, struct kern_image s)
{
    struct conv_args a = {.y = dx, .dw = dw, .db = db, .x = x, .dy = dy, .w = w, .s = s};
    struct conv_args sums = a;
    choose_tiles(&a, s.batch);
    choose_tiles(&sums, 1);
    const struct thread_pool_loop loops[] = {
        {(size_t)(s.batch * a.tiles), work_of(s, a.tile), conv_items, &a},
        {(size_t)sums.tiles, (size_t)s.batch * work_of(s, sums.tile), weight_items, &sums},
    };
    thread_pool_loops(loops, dw ? 2 : 1);
}

void KERN_FILL(conv)(struct kern_ops *ops)
{
    ops->depthwise = depthwise;
    ops->depthwise_back = depthwise_back;
}
