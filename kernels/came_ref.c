/* SPDX-License-Identifier: Apache-2.0 */
/* came_ref.c - CAME: second moments of a matrix factored into one row and one column
 *
 * U = g^2 + eps1.  Factored:  row = b2 row + (1-b2) mean of U along the row, col
 * likewise;  u = g * rsqrt(row / mean(row)) * rsqrt(col).  Else v = b2 v + (1-b2) U,
 * u = g * rsqrt(v).  Then u /= max(1, rms(u) / threshold);  m = b1 m + (1-b1) u.
 * Factored: res = (u - m)^2 + eps2 is averaged with b3 into res_row and res_col,
 * and m is scaled by them as g was.  p = p * decay - lr * step.
 */
#include <math.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { LINE = 1024, CHUNKS = 256, CHUNK_MIN = 4096 };

/* A matrix x, its rows and columns; y is the output, if there is one. */
struct factor_args {
    float       *row, *col, *y;
    const float *x, *row_in, *col_in;
    float        scale, eps, beta, rest, mean;
    size_t       rows, cols;
};

static void factor_rows(const void *arg, size_t from, size_t to)
{
    const struct factor_args *k = arg;
    const int cols = (int)k->cols;
    for (size_t i = from; i < to; i++) {
        v16 sum = {0};
        for (int j = 0; j < cols; j += LANES) {
            v16 a = simd_load_at(k->x + i * k->cols, j, cols) * k->scale;
            sum += a * a;
        }
        k->row[i] = k->row[i] * k->beta + (simd_sum(sum) / (float)cols + k->eps) * k->rest;
    }
}

static void factor_cols(const void *arg, size_t from, size_t to)
{
    const struct factor_args *k = arg;
    const int cols = (int)k->cols;
    for (int j = (int)from; j < (int)to; j += LANES) {
        const size_t n = (size_t)(cols - j < LANES ? cols - j : LANES);
        v16 total = {0};
        for (size_t i0 = 0; i0 < k->rows; i0 += 32) {
            v16 part = {0};
            for (size_t i = i0; i < k->rows && i < i0 + 32; i++) {
                v16 a = simd_load_at(k->x + i * k->cols, j, cols) * k->scale;
                part += a * a;
            }
            total += part;
        }
        v16 was = simd_load_n(k->col + j, n);
        simd_store_n(k->col + j, was * k->beta + (total / (float)k->rows + k->eps) * k->rest, n);
    }
}

/* row[i] and col[j] move toward the means of (x * scale)^2 + eps. */
static void factor_update(float *row, float *col, const float *x, float scale, float eps,
                          float beta, float rest, int rows, int cols)
{
    const struct factor_args k = {
        .row = row, .col = col, .x = x, .scale = scale, .eps = eps, .beta = beta, .rest = rest,
        .rows = (size_t)rows, .cols = (size_t)cols,
    };
    thread_pool_range(k.rows, 1, k.cols, factor_rows, &k);
    thread_pool_range(k.cols, LANES, k.rows, factor_cols, &k);
}

static float mean_of(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return (float)(sum / n);
}

static void factor_scale(const void *arg, size_t from, size_t to)
{
    const struct factor_args *k = arg;
    const float *col = k->col_in, scale = k->scale;
    for (size_t i = from; i < to; i++) {
        const float r = 1.0f / sqrtf(k->row_in[i] / k->mean);
        const float *x = k->x + i * k->cols;
        float *y = k->y + i * k->cols;
#pragma omp simd
        for (size_t j = 0; j < k->cols; j++)
            y[j] = r * (1.0f / sqrtf(col[j])) * (x[j] * scale);
    }
}

/* y = x * scale * rsqrt(row / mean(row)) * rsqrt(col) */
static void factor_apply(float *y, const float *x, float scale, const float *row, const float *col, int rows, int cols)
{
    const struct factor_args k = {
        .y = y, .x = x, .scale = scale, .row_in = row, .col_in = col,
        .mean = mean_of(row, rows), .rows = (size_t)rows, .cols = (size_t)cols,
    };
    thread_pool_range(k.rows, 1, 4 * k.cols, factor_scale, &k);
}

/* The pointwise parts, over numbers [from, to) of a tensor. */
struct came_args {
    float           *p, *m, *v, *u;
    const float     *g, *step;
    double          *part;
    size_t           n, chunk;
    float            limit;
    struct kern_came c;
};

static void square_chunks(const void *arg, size_t from, size_t to)
{
    const struct came_args *k = arg;
    for (size_t i = from; i < to; i++) {
        const size_t end = (i + 1) * k->chunk < k->n ? (i + 1) * k->chunk : k->n;
        v16 sum = {0};
        size_t j = i * k->chunk;
        for (; j + LANES <= end; j += LANES)
            sum += simd_load(k->u + j) * simd_load(k->u + j);
        if (j < end)
            sum += simd_load_n(k->u + j, end - j) * simd_load_n(k->u + j, end - j);
        k->part[i] = (double)simd_sum(sum);
    }
}

/* The order of the sum depends on n alone. */
static double mean_square(struct came_args k)
{
    double part[CHUNKS], total = 0;
    k.part = part;
    k.chunk = (k.n + CHUNKS - 1) / CHUNKS;
    k.chunk = k.chunk < CHUNK_MIN ? CHUNK_MIN : (k.chunk + LANES - 1) / LANES * LANES;
    const size_t chunks = (k.n + k.chunk - 1) / k.chunk;
    thread_pool_range(chunks, 1, k.chunk, square_chunks, &k);
    for (size_t i = 0; i < chunks; i++)
        total += part[i];
    return total / (double)k.n;
}

static void plain_range(const void *arg, size_t from, size_t to)
{
    const struct came_args *k = arg;
    const struct kern_came c = k->c;
    float *v = k->v, *u = k->u;
    const float *g = k->g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        float a = g[i] * c.clip;
        v[i] = v[i] * c.beta2 + (a * a + c.eps1) * c.rest2;
        u[i] = a * (1.0f / sqrtf(v[i]));
    }
}

/* Clips u, moves m toward u, and replaces u by u - m. */
static void momentum_range(const void *arg, size_t from, size_t to)
{
    const struct came_args *k = arg;
    const struct kern_came c = k->c;
    float *m = k->m, *u = k->u;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        float a = u[i] * k->limit;
        m[i] = m[i] * c.beta1 + a * c.rest1;
        u[i] = a - m[i];
    }
}

static void update_range(const void *arg, size_t from, size_t to)
{
    const struct came_args *k = arg;
    const struct kern_came c = k->c;
    float *p = k->p;
    const float *step = k->step;
#pragma omp simd
    for (size_t i = from; i < to; i++)
        p[i] = p[i] * c.decay - c.lr * step[i];
}

static void came(float *p, void *also, struct kern_came_state s, const float *g, struct kern_came c, size_t n)
{
    struct came_args k = {.p = p, .m = s.m, .v = s.v, .u = s.work, .g = g, .step = s.m, .n = n,
                          .c = c};
    if (s.rows > 0) {
        factor_update(s.row, s.col, g, c.clip, c.eps1, c.beta2, c.rest2, s.rows, s.cols);
        factor_apply(k.u, g, c.clip, s.row, s.col, s.rows, s.cols);
    } else {
        thread_pool_range(n, LINE, 4, plain_range, &k);
    }
    const float rms = (float)sqrt(mean_square(k)) / c.threshold;
    k.limit = rms > 1.0f ? 1.0f / rms : 1.0f;
    thread_pool_range(n, LINE, 2, momentum_range, &k);
    if (s.rows > 0) {
        factor_update(s.res_row, s.res_col, k.u, 1.0f, c.eps2, c.beta3, c.rest3, s.rows, s.cols);
        factor_apply(k.u, s.m, 1.0f, s.res_row, s.res_col, s.rows, s.cols);
        k.step = k.u;
    }
    thread_pool_range(n, LINE, 2, update_range, &k);
    if (also != p)
        memcpy(also, p, n * sizeof(*p));
}

void KERN_FILL(came)(struct kern_ops *ops)
{
    ops->came = came;
}
