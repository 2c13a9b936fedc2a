/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_product.h - products of two matrices as they lie in memory
 *
 * y[r][c] = sum over i of A(r, i) B(i, c), in chunks of at most GEMM_CHUNK numbers: B is packed into panels on the
 * stack (gemm_tile.h), chunk by chunk, and A is read where it is.  A number of y has the same bits whatever rows and
 * columns are computed with it, so a product may be cut for threads in any way.
 */
#ifndef KERNELS_GEMM_PRODUCT_H
#define KERNELS_GEMM_PRODUCT_H

#include "kernels/gemm_tile.h"

enum {
    GEMM_CHUNK = 320,        /* rows of a panel: it stays in the L1 cache */
    GEMM_PANELS = 256 * 256  /* numbers that are packed at once: they stay in the L2 cache */
};

struct gemm_product {
    float       *y;
    const float *a, *b, *bias; /* bias NULL: none */
    size_t       ldy, lda, ldb;
    int          rows, cols, depth;
    bool         a_across; /* A(r, i) = a[i * lda + r], else a[r * lda + i] */
    bool         b_across; /* B(i, c) = b[c * ldb + i], else b[i * ldb + c] */
    bool         add;      /* to y, and without bias */
    bool         near;     /* A is in the L2 cache: panels go through the L1 cache, and A again for each */
    float        scale;    /* of A B; 0: 1 */
};

/* to[i][c] = from[c][i], 4 x 4 */
SIMD_FN void gemm_turn(float *to, const float *from, size_t ld)
{
#if __has_builtin(__builtin_shufflevector) /* gcc 12, clang */
    v4 r[4];
    for (int c = 0; c < 4; c++)
        memcpy(&r[c], from + (size_t)c * ld, sizeof(r[c]));
    const v4 low0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const v4 low1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const v4 high0 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const v4 high1 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++)
        memcpy(to + i * GEMM_COLS, &r[i], sizeof(r[i]));
#else
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 4; i++)
            to[i * GEMM_COLS + c] = from[(size_t)c * ld + (size_t)i];
#endif
}

/* One panel of `cols` columns of a transposed B, the other columns zero. */
static void gemm_panel_across(float *to, const float *b, size_t ldb, int depth, int cols)
{
    const int whole = cols / 4 * 4, deep = depth / 4 * 4;
    for (int c = 0; c < whole; c += 4)
        for (int i = 0; i < deep; i += 4)
            gemm_turn(to + i * GEMM_COLS + c, b + (size_t)c * ldb + i, ldb);
    for (int i = 0; i < depth; i++)
        for (int c = i < deep ? whole : 0; c < GEMM_COLS; c++)
            to[i * GEMM_COLS + c] = c < cols ? b[(size_t)c * ldb + (size_t)i] : 0.0f;
}

/* All panels of a B with contiguous rows, row by row: hardware reads ahead in that order. */
static void gemm_panels_along(float *to, const float *b, size_t ldb, int depth, int cols)
{
    const int whole = cols / GEMM_COLS, rest = cols % GEMM_COLS;
    const size_t panel = (size_t)depth * GEMM_COLS;
    for (int i = 0; i < depth; i++, to += GEMM_COLS, b += ldb) {
        for (int p = 0; p < whole; p++)
            memcpy(to + (size_t)p * panel, b + p * GEMM_COLS, GEMM_COLS * sizeof(*to));
        for (int c = 0; rest && c < GEMM_COLS; c++)
            to[(size_t)whole * panel + (size_t)c] = c < rest ? b[whole * GEMM_COLS + c] : 0.0f;
    }
}

/* B from row `from` on, `cols` columns from `left` on. */
static void gemm_pack_part(float *to, const struct gemm_product *p, int from, int depth, int left, int cols)
{
    const float *b = p->b + (p->b_across ? (size_t)left * p->ldb + (size_t)from : (size_t)from * p->ldb + (size_t)left);
    if (!p->b_across) {
        gemm_panels_along(to, b, p->ldb, depth, cols);
        return;
    }
    for (int c = 0; c < cols; c += GEMM_COLS, to += (size_t)depth * GEMM_COLS)
        gemm_panel_across(to, b + (size_t)c * p->ldb, p->ldb, depth, cols - c < GEMM_COLS ? cols - c : GEMM_COLS);
}

/* Chunks of one size: a short last one would cost as many additions to y as a long one. */
static int gemm_chunk(int depth)
{
    const int chunks = (depth + GEMM_CHUNK - 1) / GEMM_CHUNK;
    return (depth + chunks - 1) / chunks;
}

/* to[i][r] = a[i][r], `rows` a constant */
SIMD_FN void gemm_copy_rows(const int rows, float *to, const float *a, size_t lda, int depth)
{
    for (int i = 0; i < depth; i++, to += rows, a += lda)
        memcpy(to, a, (size_t)rows * sizeof(*to));
}

static void gemm_pack_rows(int rows, float *to, const float *a, size_t lda, int depth)
{
    if (rows == GEMM_ROWS)
        gemm_copy_rows(GEMM_ROWS, to, a, lda, depth);
    else if (rows == 4)
        gemm_copy_rows(4, to, a, lda, depth);
    else if (rows == 2)
        gemm_copy_rows(2, to, a, lda, depth);
    else
        gemm_copy_rows(1, to, a, lda, depth);
}

/* Tile by tile: each number of A is read from memory once; a transposed A, whose lines are far apart, is packed. */
static void gemm_rows(const struct gemm *g, const struct gemm_product *p)
{
    float rows[GEMM_CHUNK * GEMM_ROWS] __attribute__((aligned(64)));
    for (int r = 0, step; r < g->rows; r += step) {
        struct gemm tile = *g;
        step = gemm_step(g->rows - r);
        tile.y += (size_t)r * p->ldy;
        tile.x = p->a_across ? rows : g->x + (size_t)r * p->lda;
        if (p->a_across)
            gemm_pack_rows(step, rows, g->x + r, p->lda, g->k);
        for (int i = 0; i < (int)gemm_panels(g->n); i++)
            gemm_band(&tile, 0, step, 0, g->k, i * GEMM_COLS);
    }
}

/* Columns from `left` on and numbers of the sum from `from` on. */
static void gemm_block(const struct gemm_product *p, float *panels, int left, int cols, int from, int depth)
{
    const struct gemm g = {
        .y = p->y + left, .x = p->a + (size_t)from * (p->a_across ? p->lda : 1), .w = panels,
        .bias = p->bias ? p->bias + left : NULL, .ldy = (int)p->ldy, .ldx = p->a_across ? 0 : (int)p->lda,
        .rows = p->rows, .k = depth, .n = cols, .add = p->add || from > 0, .scale = p->scale,
    };
    gemm_pack_part(panels, p, from, depth, left, cols);
    if (p->a_across || !p->near)
        gemm_rows(&g, p);
    else
        gemm_run(&g);
}

static void __attribute__((unused)) gemm_multiply(const struct gemm_product *p)
{
    float panels[GEMM_PANELS] __attribute__((aligned(64)));
    const int chunk = gemm_chunk(p->depth), most = GEMM_PANELS / chunk / GEMM_COLS * GEMM_COLS;
    for (int left = 0; left < p->cols; left += most)
        for (int from = 0; from < p->depth; from += chunk)
            gemm_block(p, panels, left, p->cols - left < most ? p->cols - left : most, from,
                       p->depth - from < chunk ? p->depth - from : chunk);
}

#endif
