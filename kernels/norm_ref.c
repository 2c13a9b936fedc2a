/* SPDX-License-Identifier: Apache-2.0 */
/* norm_ref.c - layer norm with modulation, and RMS norm
 *
 * A row is a token.  Backward does two things that share no output: rows (the
 * gradient of the input) and columns (sums over tokens), so threads go from one
 * to the other without waiting.
 */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

enum { SUM_ROWS = 32, SMALL = 16384 };


LANE_FN v16 load_at(const float *p, int c, int cols)
{
    return cols - c >= LANES ? lane_load(p + c) : lane_load_n(p + c, (size_t)(cols - c));
}

LANE_FN void store_at(float *p, int c, int cols, v16 x)
{
    if (cols - c >= LANES)
        lane_store(p + c, x);
    else
        lane_store_n(p + c, x, (size_t)(cols - c));
}

/* Ones in the lanes that exist: a sum of differences must not count the others. */
LANE_FN v16 keep_at(v16 x, int c, int cols)
{
    if (cols - c < LANES)
        for (int i = cols - c; i < LANES; i++)
            x[i] = 0.0f;
    return x;
}

static void norm_mod_row(float *h, float *stats, const float *x, const float *shift,
                         const float *scale, int cols, float eps)
{
    v16 sum = {0}, squares = {0};
    for (int c = 0; c < cols; c += LANES)
        sum += load_at(x, c, cols);
    float mean = lane_sum(sum) / (float)cols;
    for (int c = 0; c < cols; c += LANES) {
        v16 d = keep_at(load_at(x, c, cols) - mean, c, cols);
        squares += d * d;
    }
    float rstd = 1.0f / sqrtf(lane_sum(squares) / (float)cols + eps);
    stats[0] = mean;
    stats[1] = rstd;
    for (int c = 0; c < cols; c += LANES) {
        v16 n = (load_at(x, c, cols) - mean) * rstd;
        store_at(h, c, cols, n * (1.0f + load_at(scale, c, cols)) + load_at(shift, c, cols));
    }
}

static void norm_mod(float *h, float *stats, const float *x, const float *shift,
                     const float *scale, int ldm, int batch, int tokens, int cols, float eps)
{
#pragma omp parallel for schedule(static) if ((int64_t)batch * tokens * cols > SMALL)
    for (int r = 0; r < batch * tokens; r++) {
        const size_t at = (size_t)r * (size_t)cols, b = (size_t)(r / tokens) * (size_t)ldm;
        norm_mod_row(h + at, stats + 2 * r, x + at, shift + b, scale + b, cols, eps);
    }
}

/* g = dh (1 + scale), n = LN(x):  dx += (g - mean(g) - n mean(g n)) / std */
static void norm_mod_back_row(float *dx, const float *dh, const float *x, const float *stats,
                              const float *scale, int cols)
{
    const float mean = stats[0], rstd = stats[1];
    v16 sum_g = {0}, sum_gn = {0};
    for (int c = 0; c < cols; c += LANES) {
        v16 g = load_at(dh, c, cols) * (1.0f + load_at(scale, c, cols));
        sum_g += g;
        sum_gn += g * ((load_at(x, c, cols) - mean) * rstd);
    }
    const float mean_g = lane_sum(sum_g) / (float)cols, mean_gn = lane_sum(sum_gn) / (float)cols;
    for (int c = 0; c < cols; c += LANES) {
        v16 g = load_at(dh, c, cols) * (1.0f + load_at(scale, c, cols));
        v16 n = (load_at(x, c, cols) - mean) * rstd;
        store_at(dx, c, cols, load_at(dx, c, cols) + rstd * (g - mean_g - n * mean_gn));
    }
}

/* One sample, LANES columns: dshift = sum dh, dscale = sum dh LN(x). */
static void norm_mod_back_col(float *dshift, float *dscale, const float *dh, const float *x,
                              const float *stats, int tokens, int cols, int c)
{
    v16 shift = {0}, scale = {0};
    for (int r0 = 0; r0 < tokens; r0 += SUM_ROWS) {
        v16 part_shift = {0}, part_scale = {0};
        for (int r = r0; r < tokens && r < r0 + SUM_ROWS; r++) {
            const size_t at = (size_t)r * (size_t)cols;
            v16 d = load_at(dh + at, c, cols);
            part_shift += d;
            part_scale += d * ((load_at(x + at, c, cols) - stats[2 * r]) * stats[2 * r + 1]);
        }
        shift += part_shift;
        scale += part_scale;
    }
    store_at(dshift, c, cols, shift);
    store_at(dscale, c, cols, scale);
}

static void norm_mod_back(float *dx, float *dshift, float *dscale, const float *dh, const float *x,
                          const float *stats, const float *scale, int ldm, int batch, int tokens,
                          int cols)
{
    const int groups = (cols + LANES - 1) / LANES;
#pragma omp parallel if ((int64_t)batch * tokens * cols > SMALL)
    {
#pragma omp for schedule(static) nowait
        for (int r = 0; r < batch * tokens; r++) {
            const size_t at = (size_t)r * (size_t)cols;
            norm_mod_back_row(dx + at, dh + at, x + at, stats + 2 * r,
                              scale + (size_t)(r / tokens) * (size_t)ldm, cols);
        }
#pragma omp for schedule(static)
        for (int i = 0; i < batch * groups; i++) {
            const size_t b = (size_t)(i / groups), row = b * (size_t)tokens;
            norm_mod_back_col(dshift + b * (size_t)ldm, dscale + b * (size_t)ldm,
                              dh + row * (size_t)cols, x + row * (size_t)cols, stats + 2 * row,
                              tokens, cols, i % groups * LANES);
        }
    }
}

static void rms_norm(float *y, int ldy, float *rstd, const float *x, int ldx, const float *w,
                     int rows, int cols, float eps)
{
#pragma omp parallel for schedule(static) if ((int64_t)rows * cols > SMALL)
    for (int r = 0; r < rows; r++) {
        const float *from = x + (size_t)r * (size_t)ldx;
        float *to = y + (size_t)r * (size_t)ldy;
        v16 squares = {0};
        for (int c = 0; c < cols; c += LANES) {
            v16 v = load_at(from, c, cols);
            squares += v * v;
        }
        float s = 1.0f / sqrtf(lane_sum(squares) / (float)cols + eps);
        rstd[r] = s;
        for (int c = 0; c < cols; c += LANES)
            store_at(to, c, cols, load_at(from, c, cols) * s * load_at(w, c, cols));
    }
}

/* dx = (g - n mean(g n)) rstd, g = dy w, n = x rstd */
static void rms_back_row(float *dx, const float *dy, const float *x, float rstd, const float *w,
                         int cols)
{
    v16 sum = {0};
    for (int c = 0; c < cols; c += LANES)
        sum += load_at(dy, c, cols) * load_at(w, c, cols) * (load_at(x, c, cols) * rstd);
    const float mean = lane_sum(sum) / (float)cols;
    for (int c = 0; c < cols; c += LANES) {
        v16 n = load_at(x, c, cols) * rstd;
        v16 g = load_at(dy, c, cols) * load_at(w, c, cols);
        store_at(dx, c, cols, (g - n * mean) * rstd);
    }
}

static void rms_back_col(float *dw, const float *dy, int lddy, const float *x, int ldx,
                         const float *rstd, int rows, int cols, int c)
{
    v16 total = {0};
    for (int r0 = 0; r0 < rows; r0 += SUM_ROWS) {
        v16 part = {0};
        for (int r = r0; r < rows && r < r0 + SUM_ROWS; r++)
            part += load_at(dy + (size_t)r * (size_t)lddy, c, cols) *
                    (load_at(x + (size_t)r * (size_t)ldx, c, cols) * rstd[r]);
        total += part;
    }
    store_at(dw, c, cols, load_at(dw, c, cols) + total);
}

static void rms_norm_back(float *dx, int lddx, float *dw, const float *dy, int lddy,
                          const float *x, int ldx, const float *rstd, const float *w, int rows,
                          int cols)
{
#pragma omp parallel if ((int64_t)rows * cols > SMALL)
    {
        /* Columns first, and all of them: dx may be dy. */
#pragma omp for schedule(static)
        for (int c = 0; c < cols; c += LANES)
            rms_back_col(dw, dy, lddy, x, ldx, rstd, rows, cols, c);
#pragma omp for schedule(static)
        for (int r = 0; r < rows; r++)
            rms_back_row(dx + (size_t)r * (size_t)lddx, dy + (size_t)r * (size_t)lddy,
                         x + (size_t)r * (size_t)ldx, rstd[r], w, cols);
    }
}

void KERN_FILL(norm)(struct kern_ops *ops)
{
    ops->norm_mod = norm_mod;
    ops->norm_mod_back = norm_mod_back;
    ops->rms_norm = rms_norm;
    ops->rms_norm_back = rms_norm_back;
}
