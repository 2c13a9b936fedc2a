/* SPDX-License-Identifier: Apache-2.0 */
/* came_ref.c - CAME: second moments kept as one row and one column of a matrix
 *
 * U = g^2 + eps1.  Factored:  row = b2 row + (1-b2) mean of U along the row, col
 * likewise;  u = g * rsqrt(row / mean(row)) * rsqrt(col).  Else v = b2 v + (1-b2) U,
 * u = g * rsqrt(v).  Then u /= max(1, rms(u) / threshold);  m = b1 m + (1-b1) u.
 * Factored: res = (u - m)^2 + eps2 is averaged with b3 into res_row and res_col,
 * and m is scaled by them as g was.  p = p * decay - lr * step.
 */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

enum { SMALL = 16384 };

LANE_FN v16 load_at(const float *p, int c, int cols)
{
    return cols - c >= LANES ? lane_load(p + c) : lane_load_n(p + c, (size_t)(cols - c));
}

/* row[i] and col[j] move toward the means of x^2 + eps. `x` is a (scaled) matrix. */
static void factor_update(float *row, float *col, const float *x, float scale, float eps,
                          float beta, float rest, int rows, int cols)
{
#pragma omp parallel if ((int64_t)rows * cols > SMALL)
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < rows; i++) {
            v16 sum = {0};
            for (int j = 0; j < cols; j += LANES) {
                v16 a = load_at(x + (size_t)i * (size_t)cols, j, cols) * scale;
                sum += a * a;
            }
            row[i] = row[i] * beta + (lane_sum(sum) / (float)cols + eps) * rest;
        }
#pragma omp for schedule(static)
        for (int j = 0; j < cols; j += LANES) {
            const size_t n = (size_t)(cols - j < LANES ? cols - j : LANES);
            v16 total = {0};
            for (int i0 = 0; i0 < rows; i0 += 32) {
                v16 part = {0};
                for (int i = i0; i < rows && i < i0 + 32; i++) {
                    v16 a = load_at(x + (size_t)i * (size_t)cols, j, cols) * scale;
                    part += a * a;
                }
                total += part;
            }
            v16 was = lane_load_n(col + j, n);
            lane_store_n(col + j, was * beta + (total / (float)rows + eps) * rest, n);
        }
    }
}

static float mean_of(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return (float)(sum / n);
}

/* y = x * scale * rsqrt(row / mean(row)) * rsqrt(col) */
static void factor_apply(float *y, const float *x, float scale, const float *row,
                         const float *col, int rows, int cols)
{
    const float mean = mean_of(row, rows);
#pragma omp parallel for schedule(static) if ((int64_t)rows * cols > SMALL)
    for (int i = 0; i < rows; i++) {
        const float r = 1.0f / sqrtf(row[i] / mean);
        const size_t at = (size_t)i * (size_t)cols;
#pragma omp simd
        for (int j = 0; j < cols; j++)
            y[at + (size_t)j] = r * (1.0f / sqrtf(col[j])) * (x[at + (size_t)j] * scale);
    }
}

static double mean_square(const float *x, size_t n)
{
    double total = 0;
    for (size_t k = 0; k < n; k += 4096) {
        const size_t end = n - k < 4096 ? n : k + 4096;
        v16 sum = {0};
        size_t i = k;
        for (; i + LANES <= end; i += LANES)
            sum += lane_load(x + i) * lane_load(x + i);
        if (i < end)
            sum += lane_load_n(x + i, end - i) * lane_load_n(x + i, end - i);
        total += (double)lane_sum(sum);
    }
    return total / (double)n;
}

/* u is limited, m follows it, and u becomes u - m. */
static void momentum(float *u, float *m, struct kern_came c, size_t n)
{
    const float rms = (float)sqrt(mean_square(u, n)) / c.threshold;
    const float limit = rms > 1.0f ? 1.0f / rms : 1.0f;
#pragma omp parallel for simd schedule(static) if (n > SMALL)
    for (size_t i = 0; i < n; i++) {
        float a = u[i] * limit;
        m[i] = m[i] * c.beta1 + a * c.rest1;
        u[i] = a - m[i];
    }
}

static void came(float *p, struct kern_came_state s, const float *g, struct kern_came c, size_t n)
{
    float *u = s.work;
    const float *step = s.m;
    if (s.rows > 0) {
        factor_update(s.row, s.col, g, c.clip, c.eps1, c.beta2, c.rest2, s.rows, s.cols);
        factor_apply(u, g, c.clip, s.row, s.col, s.rows, s.cols);
    } else {
#pragma omp parallel for simd schedule(static) if (n > SMALL)
        for (size_t i = 0; i < n; i++) {
            float a = g[i] * c.clip;
            s.v[i] = s.v[i] * c.beta2 + (a * a + c.eps1) * c.rest2;
            u[i] = a * (1.0f / sqrtf(s.v[i]));
        }
    }
    momentum(u, s.m, c, n);
    if (s.rows > 0) {
        factor_update(s.res_row, s.res_col, u, 1.0f, c.eps2, c.beta3, c.rest3, s.rows, s.cols);
        factor_apply(u, s.m, 1.0f, s.res_row, s.res_col, s.rows, s.cols);
        step = u;
    }
#pragma omp parallel for simd schedule(static) if (n > SMALL)
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] * c.decay - c.lr * step[i];
}

void KERN_FILL(came)(struct kern_ops *ops)
{
    ops->came = came;
}
