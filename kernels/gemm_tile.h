/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tile.h - products of rows with a packed matrix, whose sums stay in registers
 *
 * y[r][n] = x[r][k] w[k][n] + bias[n].  The matrix is packed as panels of GEMM_COLS columns, each [k][GEMM_COLS], the
 * last one filled up with zeros. The tiles are as wide as the vectors of the instruction set. Each number is one sum in
 * the order of k, whatever rows and columns are computed with it, but for chunks of GEMM_DEPTH.
 */
#ifndef KERNELS_GEMM_TILE_H
#define KERNELS_GEMM_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/simd.h"

/* GEMM_ROWS x GEMM_VECTORS sums in the registers of the instruction set, each of GEMM_LANES numbers: gcc keeps no v16
 * of several registers in them. */
#if defined(__AVX512F__)
enum { GEMM_LANES = 16, GEMM_ROWS = 12 };
#elif defined(__AVX2__)
enum { GEMM_LANES = 8, GEMM_ROWS = 6 };
#else
enum { GEMM_LANES = 4, GEMM_ROWS = 4 };
#endif
enum {
    GEMM_VECTORS = 2,
    GEMM_COLS = GEMM_VECTORS * GEMM_LANES,
    GEMM_DEPTH = 1024, /* a panel of this many rows stays in the cache */
    GEMM_BAND = 8      /* tiles of rows that a panel is used for at once */
};

typedef float gemm_v __attribute__((vector_size(4 * GEMM_LANES)));
typedef float gemm_any __attribute__((vector_size(4 * GEMM_LANES), aligned(4), may_alias));

struct gemm {
    float       *y;
    const float *x, *w, *bias; /* bias NULL: 0; [n] */
    int          ldy, ldx, rows, k, n;
    bool         add; /* to y */
    float        scale; /* of x w; 0: 1 */
};

SIMD_FN size_t gemm_panels(int n)
{
    return ((size_t)n + GEMM_COLS - 1) / GEMM_COLS;
}

SIMD_FN size_t gemm_packed(int k, int n)
{
    return gemm_panels(n) * (size_t)k * GEMM_COLS;
}

/* One tile: sums of `rows` rows, a constant, and one panel. add: adds to y, else writes it. */
struct gemm_tile {
    float       *y;
    const float *x, *w, *bias; /* bias NULL: none */
    size_t       ldy, ldx;     /* 0: x is packed, [k][rows] */
    int          k;
    bool         add;
    float        scale;
};

SIMD_FN void gemm_sums(const int rows, const int vectors, const bool packed, gemm_v sum[][GEMM_VECTORS],
                       const struct gemm_tile *t)
{
    const size_t row = packed ? 1 : t->ldx, step = packed ? (size_t)rows : 1;
    const float *x = t->x, *w = t->w, *end = w + (size_t)t->k * GEMM_COLS;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (gemm_v){0};
    for (; w < end; x += step, w += GEMM_COLS) {
        gemm_v b[GEMM_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            b[v] = *(const gemm_any *)(w + v * GEMM_LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[r][v] += b[v] * x[(size_t)r * row];
    }
}

SIMD_FN void gemm_tile_sized(const int rows, const int vectors, const bool packed, const struct gemm_tile *t)
{
    gemm_v sum[GEMM_ROWS][GEMM_VECTORS], bias[GEMM_VECTORS] = {{0}};
    float *y = t->y;
    const size_t ldy = t->ldy;
    const bool add = t->add;
    const float scale = t->scale;
    for (int v = 0; v < vectors && t->bias; v++)
        bias[v] = *(const gemm_any *)(t->bias + v * GEMM_LANES);
    gemm_sums(rows, vectors, packed, sum, t);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++, y += ldy)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            gemm_any *to = (gemm_any *)(y + v * GEMM_LANES);
            *to = sum[r][v] * scale + (add ? (gemm_v)*to : bias[v]);
        }
}

/* Not inlined: with anything else around it, gcc keeps the sums in memory. */
#define GEMM_TILE(name, rows, vectors, packed)                                   \
    static __attribute__((noinline)) void name(const struct gemm_tile *t)        \
    {                                                                            \
        gemm_tile_sized(rows, vectors, packed, t);                               \
    }

#define GEMM_TILES(name, rows)                                                   \
    GEMM_TILE(gemm_half_of_##name, rows, 1, false)                               \
    GEMM_TILE(gemm_half_of_##name##_packed, rows, 1, true)                       \
    GEMM_TILE(gemm_whole_of_##name, rows, GEMM_VECTORS, false)                   \
    GEMM_TILE(gemm_whole_of_##name##_packed, rows, GEMM_VECTORS, true)

GEMM_TILES(1, 1)
GEMM_TILES(2, 2)
GEMM_TILES(4, 4)
GEMM_TILES(all, GEMM_ROWS)

#define GEMM_ROW(name)                                                           \
    {{gemm_half_of_##name, gemm_half_of_##name##_packed},                        \
     {gemm_whole_of_##name, gemm_whole_of_##name##_packed}}

/* Writes one vector of columns if `cols` are no more, else a whole panel. */
SIMD_FN void gemm_tile_of(int rows, int cols, const struct gemm_tile *t)
{
    static void (*const tile[4][GEMM_VECTORS][2])(const struct gemm_tile *) = {
        GEMM_ROW(1), GEMM_ROW(2), GEMM_ROW(4), GEMM_ROW(all),
    };
    tile[rows == GEMM_ROWS ? 3 : rows / 2][cols > GEMM_LANES][!t->ldx](t);
}

/* The right end of a matrix: `n` columns of a panel, through a buffer for a whole one. */
static __attribute__((noinline)) void gemm_tile_edge(int rows, const struct gemm_tile *t, int n)
{
    float y[GEMM_ROWS * GEMM_COLS] = {0}, bias[GEMM_COLS] = {0};
    struct gemm_tile whole = *t;
    whole.y = y;
    whole.ldy = GEMM_COLS;
    whole.bias = t->bias ? memcpy(bias, t->bias, (size_t)n * sizeof(*bias)) : NULL;
    for (int r = 0; r < rows && t->add; r++)
        memcpy(y + r * GEMM_COLS, t->y + (size_t)r * t->ldy, (size_t)n * sizeof(*y));
    gemm_tile_of(rows, n, &whole);
    for (int r = 0; r < rows; r++)
        memcpy(t->y + (size_t)r * t->ldy, y + r * GEMM_COLS, (size_t)n * sizeof(*y));
}

/* The rows of the next tile, of `left` rows. */
SIMD_FN int gemm_step(int left)
{
    return left >= GEMM_ROWS ? GEMM_ROWS : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Rows from `row` on with one panel, which begins at column `col`; depth from `from` on. */
SIMD_FN void gemm_band(const struct gemm *g, int row, int rows, int from, int depth, int col)
{
    const int n = g->n - col;
    const size_t panel = (size_t)col / GEMM_COLS;
    struct gemm_tile t = {.w = g->w + (panel * (size_t)g->k + (size_t)from) * GEMM_COLS, .k = depth,
                          .add = g->add || from > 0, .scale = g->scale != 0 ? g->scale : 1.0f,
                          .bias = g->bias ? g->bias + col : NULL, .ldy = (size_t)g->ldy, .ldx = (size_t)g->ldx};
    for (int r = row, step; r < row + rows; r += step) {
        step = gemm_step(row + rows - r);
        t.y = g->y + (size_t)r * t.ldy + col;
        t.x = g->x + (size_t)r * t.ldx + from;
        if (n >= GEMM_COLS || n == GEMM_LANES)
            gemm_tile_of(step, n, &t);
        else
            gemm_tile_edge(step, &t, n);
    }
}

static void __attribute__((unused)) gemm_run(const struct gemm *g)
{
    for (int row = 0; row < g->rows; row += GEMM_ROWS * GEMM_BAND) {
        const int rows = g->rows - row < GEMM_ROWS * GEMM_BAND ? g->rows - row : GEMM_ROWS * GEMM_BAND;
        for (int from = 0; from < g->k; from += GEMM_DEPTH) {
            const int depth = g->k - from < GEMM_DEPTH ? g->k - from : GEMM_DEPTH;
            for (int p = 0; p < (int)gemm_panels(g->n); p++)
                gemm_band(g, row, rows, from, depth, p * GEMM_COLS);
        }
    }
}

#endif
