/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_ref.c - linear layers: OpenBLAS inside our own threads
 *
 * A product is cut into one part per thread along its longer side, each part a
 * single-threaded sgemm.  The threads of a step are one pool this way, and what
 * follows a product (bias, bias gradient) works on a part that is still in its
 * thread's cache.  Measured against OpenBLAS's own threads: docs/BENCHMARKS.md.
 */
#include <cblas.h>

#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"
#include "kernels/team.h"

enum { SPLIT_UNIT = 16, SUM_ROWS = 32 };
#define SPLIT_FLOPS 400e3 /* below this a second thread costs more than it does */

static int parts_for(double m, double k, double n)
{
    return 2 * m * k * n < SPLIT_FLOPS ? 1 : team_size();
}

/* The i-th of `parts` pieces of 0..total, as [*from, *to). */
static void part_of(int *from, int *to, int i, int parts, int total)
{
    size_t a, b;
    team_slice(&a, &b, (size_t)total, SPLIT_UNIT, i, parts);
    *from = (int)a;
    *to = (int)b;
}

/* y starts as the bias, or as nothing, and the product is added to it. */
static void linear_part(float *y, const float *x, const float *w, const float *b, int m, int k,
                        int n, int ldy)
{
    if (m <= 0 || n <= 0)
        return;
    if (b)
        for (int i = 0; i < m; i++)
            memcpy(y + (size_t)i * (size_t)ldy, b, (size_t)n * sizeof(*y));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, x, k, w, k,
                b ? 1.0f : 0.0f, y, ldy);
}

struct linear_args {
    float       *y;
    const float *x, *w, *b;
    int          m, k, n, parts;
};

static void linear_run(const void *arg, int part)
{
    const struct linear_args *a = arg;
    const size_t n = (size_t)a->n, k = (size_t)a->k;
    int from, to;
    part_of(&from, &to, part, a->parts, a->m >= a->n ? a->m : a->n);
    if (a->m >= a->n)
        linear_part(a->y + (size_t)from * n, a->x + (size_t)from * k, a->w, a->b, to - from, a->k,
                    a->n, a->n);
    else
        linear_part(a->y + from, a->x, a->w + (size_t)from * k, a->b ? a->b + from : NULL, a->m,
                    a->k, to - from, a->n);
}

static void linear(float *y, const float *x, const float *w, const float *b, int m, int k, int n)
{
    const struct linear_args a = {y, x, w, b, m, k, n, parts_for(m, k, n)};
    team_run(a.parts, linear_run, &a);
}

/* sum[j] += column sums; blocks of rows first, so that long sums stay accurate. */
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
                    part += lane_load(p);
            else
                for (int r = r0; r < r1; r++, p += ld)
                    part += lane_load_n(p, n);
            total += part;
        }
        lane_store_n(sum + c, lane_load_n(sum + c, n) + total, n);
    }
}

/* dw's rows or columns, whichever is longer, are cut among the threads. */
static void weight_part(float *dw, float *db, const float *dy, const float *x, int m, int k, int n,
                        int i, int parts)
{
    int from, to;
    part_of(&from, &to, i, parts, n);
    if (db && to > from)
        column_sums(db + from, dy + from, n, m, to - from);
    if (n < k)
        part_of(&from, &to, i, parts, k);
    if (to <= from)
        return;
    if (n >= k)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, to - from, k, m, 1.0f, dy + from, n,
                    x, k, 1.0f, dw + (size_t)from * (size_t)k, k);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, to - from, m, 1.0f, dy, n,
                    x + from, k, 1.0f, dw + from, k);
}

static void input_part(float *dx, int keep, const float *dy, const float *w, int m, int k, int n,
                       int i, int parts)
{
    int from, to;
    part_of(&from, &to, i, parts, m >= k ? m : k);
    if (to <= from)
        return;
    float beta = keep ? 1.0f : 0.0f;
    if (m >= k)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, to - from, k, n, 1.0f,
                    dy + (size_t)from * (size_t)n, n, w, k, beta,
                    dx + (size_t)from * (size_t)k, k);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, to - from, n, 1.0f, dy, n,
                    w + from, k, beta, dx + from, k);
}

struct back_args {
    float       *dx, *dw, *db;
    const float *dy, *x, *w;
    int          keep, m, k, n, parts;
};

/* First the parts of dx, then those of dw: no part waits for another. */
static void back_run(const void *arg, int part)
{
    const struct back_args *a = arg;
    if (a->dx && part < a->parts)
        input_part(a->dx, a->keep, a->dy, a->w, a->m, a->k, a->n, part, a->parts);
    else
        weight_part(a->dw, a->db, a->dy, a->x, a->m, a->k, a->n, part % a->parts, a->parts);
}

static void linear_back(float *dx, int keep, float *dw, float *db, const float *dy,
                        const float *x, const float *w, int m, int k, int n)
{
    const struct back_args a = {dx, dw, db, dy, x, w, keep, m, k, n, parts_for(m, k, n)};
    const int all = dx ? 2 * a.parts : a.parts;
    if (a.parts > 1) {
        team_run(all, back_run, &a);
        return;
    }
    for (int i = 0; i < all; i++)
        back_run(&a, i);
}

void KERN_FILL(matmul)(struct kern_ops *ops)
{
    ops->linear = linear;
    ops->linear_back = linear_back;
}
