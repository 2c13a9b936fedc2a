/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_ref.c - linear layers: OpenBLAS inside our own threads
 *
 * A product is cut into a grid of parts, each a single-threaded sgemm.  The grid
 * depends only on the sizes, not on the number of threads, because sgemm
 * rounds an element according to its position in the matrix: any number of
 * threads gives the same bits.  Measurements: kernels/dev/SPEED.md.
 */
#include <cblas.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SPLIT_UNIT = 16, SUM_ROWS = 32 };

/* A result of rows x cols cut into `down` times `across` pieces. */
struct grid {
    int rows, cols, down, across;
};

/* Small products do not gain from a second thread; large ones are cut for many. */
static struct grid grid_for(int rows, int cols, int depth)
{
    const double flops = 2.0 * rows * cols * depth;
    const int parts = flops < 0.4e6 ? 1 : flops < 32e6 ? 2 : flops < 1e9 ? 4 : 16;
    struct grid g = {rows, cols, 1, 1};
    while (g.down * g.across < parts) {
        if (rows / g.down >= cols / g.across)
            g.down *= 2;
        else
            g.across *= 2;
    }
    return g;
}

static int grid_parts(struct grid g)
{
    return g.down * g.across;
}

/* One piece: `height` rows from `top`, `width` columns from `left`. */
struct piece {
    size_t top, left;
    int    height, width;
};

static struct piece grid_piece(struct grid g, int part)
{
    size_t r0, r1, c0, c1;
    thread_pool_slice(&r0, &r1, (size_t)g.rows, SPLIT_UNIT, part / g.across, g.down);
    thread_pool_slice(&c0, &c1, (size_t)g.cols, SPLIT_UNIT, part % g.across, g.across);
    return (struct piece){r0, c0, (int)(r1 - r0), (int)(c1 - c0)};
}

struct linear_args {
    float       *y;
    const float *x, *w, *b;
    int          k;
    struct grid  grid;
};

/* y starts as the bias, or as zero, and the product is added to it. */
static void linear_part(const void *arg, int part)
{
    const struct linear_args *a = arg;
    const struct piece p = grid_piece(a->grid, part);
    const size_t n = (size_t)a->grid.cols, k = (size_t)a->k;
    float *y = a->y + p.top * n + p.left;
    if (p.height == 0 || p.width == 0)
        return;
    if (a->b)
        for (size_t i = 0; i < (size_t)p.height; i++)
            memcpy(y + i * n, a->b + p.left, (size_t)p.width * sizeof(*y));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p.height, p.width, a->k, 1.0f,
                a->x + p.top * k, a->k, a->w + p.left * k, a->k, a->b ? 1.0f : 0.0f, y,
                a->grid.cols);
}

static void linear_wide(float *y, const void *x, const void *w, const float *b, int m, int k,
                        int n)
{
    const struct linear_args a = {y, x, w, b, k, grid_for(m, n, k)};
    thread_pool_run(grid_parts(a.grid), linear_part, &a);
}

static void linear(void *y, const void *x, const void *w, const void *b, int m, int k, int n)
{
    linear_wide(y, x, w, b, m, k, n);
}

/* sum[j] += column sums; by blocks of rows first, which keeps long sums accurate. */
static void column_sums(float *sum, const float *x, int ld, int rows, int cols)
{
    for (int c = 0; c < cols; c += LANES) {
        size_t n = (size_t)(cols - c < LANES ? cols - c : LANES);
        v16 total = {0};
        for (int r0 = 0; r0 < rows; r0 += SUM_ROWS) {
            v16 part = {0};
            int r1 = r0 + SUM_ROWS < rows ? r0 + SUM_ROWS : rows;
            const float *p = x + (size_t)r0 * (size_t)ld + c;
            if (n == LANES)
                for (int r = r0; r < r1; r++, p += ld)
                    part += simd_load(p);
            else
                for (int r = r0; r < r1; r++, p += ld)
                    part += simd_load_n(p, n);
            total += part;
        }
        simd_store_n(sum + c, simd_load_n(sum + c, n) + total, n);
    }
}

struct back_args {
    float       *dx, *dw, *db;
    const float *dy, *x, *w;
    int          keep, m, k, n;
    struct grid  input, weight;
};

static void input_part(const struct back_args *a, int part)
{
    const struct piece p = grid_piece(a->input, part);
    if (p.height == 0 || p.width == 0)
        return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p.height, p.width, a->n, 1.0f,
                a->dy + p.top * (size_t)a->n, a->n, a->w + p.left, a->k, a->keep ? 1.0f : 0.0f,
                a->dx + p.top * (size_t)a->k + p.left, a->k);
}

/* The leftmost piece of each band of dw also sums its part of the bias gradient. */
static void weight_part(const struct back_args *a, int part)
{
    const struct piece p = grid_piece(a->weight, part);
    if (p.height == 0 || p.width == 0)
        return;
    if (a->db && p.left == 0)
        column_sums(a->db + p.top, a->dy + p.top, a->n, a->m, p.height);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p.height, p.width, a->m, 1.0f,
                a->dy + p.top, a->n, a->x + p.left, a->k, 1.0f,
                a->dw + p.top * (size_t)a->k + p.left, a->k);
}

/* Parts of dx and of dw, interleaved: a thread with the first rows of dx has the first rows
 * of dw. */
static void back_part(const void *arg, int part)
{
    const struct back_args *a = arg;
    const int parts[2] = {a->dx ? grid_parts(a->input) : 0, a->dw ? grid_parts(a->weight) : 0};
    int index;
    if (thread_pool_merge(part, parts, 2, &index) == 0)
        input_part(a, index);
    else
        weight_part(a, index);
}

static void linear_back_wide(float *dx, int keep, float *dw, float *db, const void *dy,
                             const void *x, const void *w, int m, int k, int n)
{
    const struct back_args a = {dx, dw, db, dy, x, w, keep, m, k, n, grid_for(m, k, n),
                                grid_for(n, k, m)};
    const int parts = (dx ? grid_parts(a.input) : 0) + (dw ? grid_parts(a.weight) : 0);
    if (parts > 1 && grid_parts(a.weight) > 1) {
        thread_pool_run(parts, back_part, &a);
        return;
    }
    for (int i = 0; i < parts; i++)
        back_part(&a, i);
}

static void linear_back(void *dx, float *dw, float *db, const void *dy, const void *x,
                        const void *w, int m, int k, int n)
{
    linear_back_wide(dx, 0, dw, db, dy, x, w, m, k, n);
}

void KERN_FILL(matmul)(struct kern_ops *ops)
{
    ops->linear = linear;
    ops->linear_wide = linear_wide;
    ops->linear_back = linear_back;
    ops->linear_back_wide = linear_back_wide;
}
