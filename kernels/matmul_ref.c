/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_ref.c - linear layers, forward and backward, as products of gemm_product.h
 *
 * A product is cut into a grid of parts for threads.  An element has the same bits in any grid, so
 * any number of threads gives the same.  Measurements: kernels/dev/SPEED.md.
 */
#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SUM_ROWS = 32, LOW = 512 };

/* A result of rows x cols cut into `down` times `across` pieces. */
struct grid {
    int rows, cols, down, across;
};

/* Small products do not gain from a second thread. Each part packs its own columns: a result with few rows is cut
 * into columns, so that nothing is packed twice. */
static struct grid grid_for(int rows, int cols, int depth)
{
    const double flops = 2.0 * rows * cols * depth;
    const int threads = thread_pool_size(), parts = flops < 0.4e6 ? 1 : flops < 32e6 ? threads : 2 * threads;
    struct grid g = {rows, cols, 1, 1};
    while (g.down * g.across < parts) {
        if (rows / g.down >= LOW || cols / g.across < 2 * GEMM_COLS)
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
    thread_pool_slice(&r0, &r1, (size_t)g.rows, GEMM_ROWS, part / g.across, g.down);
    thread_pool_slice(&c0, &c1, (size_t)g.cols, GEMM_COLS, part % g.across, g.across);
    return (struct piece){r0, c0, (int)(r1 - r0), (int)(c1 - c0)};
}

struct linear_args {
    float       *y;
    const float *x, *w, *b;
    int          k, ldy;
    bool         add;
    struct grid  grid;
};

static void linear_part(const void *arg, int part)
{
    const struct linear_args *a = arg;
    const struct piece p = grid_piece(a->grid, part);
    const size_t n = (size_t)a->ldy, k = (size_t)a->k;
    gemm_multiply(&(struct gemm_product){
        .y = a->y + p.top * n + p.left, .a = a->x + p.top * k, .b = a->w + p.left * k,
        .bias = a->b ? a->b + p.left : NULL, .ldy = n, .lda = k, .ldb = k,
        .rows = p.height, .cols = p.width, .depth = a->k, .b_across = true, .add = a->add,
    });
}

static void linear_wide(float *y, const void *x, const void *w, const float *b, int m, int k, int n)
{
    const struct linear_args a = {y, x, w, b, k, n, false, grid_for(m, n, k)};
    thread_pool_run(grid_parts(a.grid), linear_part, &a);
}

static void linear_add(void *y, int ldy, const void *x, const void *w, int m, int k, int n)
{
    const struct linear_args a = {y, x, w, NULL, k, ldy, true, grid_for(m, n, k)};
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
        simd_reg total[SIMD_REGS] = {{0}};
        for (int r0 = 0; r0 < rows; r0 += SUM_ROWS) {
            simd_reg part[SIMD_REGS] = {{0}};
            for (int r = r0; r < rows && r < r0 + SUM_ROWS; r++)
                SIMD_EACH(i)
                    part[i] += simd_reg_load(x + (size_t)r * (size_t)ld, SIMD_AT(c, i), cols);
            SIMD_EACH(i)
                total[i] += part[i];
        }
        SIMD_EACH(i)
            simd_reg_store(sum, SIMD_AT(c, i), cols, simd_reg_load(sum, SIMD_AT(c, i), cols) + total[i]);
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
    const size_t n = (size_t)a->n, k = (size_t)a->k;
    gemm_multiply(&(struct gemm_product){
        .y = a->dx + p.top * k + p.left, .a = a->dy + p.top * n, .b = a->w + p.left,
        .ldy = k, .lda = n, .ldb = k, .rows = p.height, .cols = p.width, .depth = a->n, .add = a->keep,
    });
}

/* The leftmost piece of each band of dw also sums its part of the bias gradient. */
static void weight_part(const struct back_args *a, int part)
{
    const struct piece p = grid_piece(a->weight, part);
    const size_t n = (size_t)a->n, k = (size_t)a->k;
    if (a->db && p.left == 0)
        column_sums(a->db + p.top, a->dy + p.top, a->n, a->m, p.height);
    gemm_multiply(&(struct gemm_product){
        .y = a->dw + p.top * k + p.left, .a = a->dy + p.top, .b = a->x + p.left, .ldy = k, .lda = n, .ldb = k,
        .rows = p.height, .cols = p.width, .depth = a->m, .a_across = true, .add = true,
    });
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

static void linear_back_add(void *dx, const void *dy, const void *w, int m, int k, int n)
{
    linear_back_wide(dx, 1, NULL, NULL, dy, NULL, w, m, k, n);
}

void KERN_FILL(matmul)(struct kern_ops *ops)
{
    ops->linear = linear;
    ops->linear_wide = linear_wide;
    ops->linear_back = linear_back;
    ops->linear_back_wide = linear_back_wide;
    ops->linear_add = linear_add;
    ops->linear_back_add = linear_back_add;
}
