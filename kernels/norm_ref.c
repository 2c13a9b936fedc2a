/* SPDX-License-Identifier: Apache-2.0 */
/* norm_ref.c - layer norm with modulation or weights, and RMS norm
 *
 * A row is a token.  The backward pass has two parts: rows (the gradient of the input)
 * and columns (sums over tokens, each by one thread in one order).
 */
#include <math.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SUM_ROWS = 32 };

/* stats = mean, 1/std */
static void row_stats(float *stats, const float *x, int cols, float eps)
{
    simd_reg sum[SIMD_REGS] = {{0}}, squares[SIMD_REGS] = {{0}};
    for (int c = 0; c < cols; c += LANES)
        SIMD_EACH(i)
            sum[i] += simd_reg_load(x, SIMD_AT(c, i), cols);
    const float mean = simd_reg_sum(sum) / (float)cols;
    for (int c = 0; c < cols; c += LANES)
        SIMD_EACH(i) {
            const simd_reg d = simd_reg_first(cols - SIMD_AT(c, i), simd_reg_load(x, SIMD_AT(c, i), cols) - mean);
            squares[i] += d * d;
        }
    stats[0] = mean;
    stats[1] = 1.0f / sqrtf(simd_reg_sum(squares) / (float)cols + eps);
}

static void norm_mod_row(float *h, float *stats, const float *x, const float *shift,
                         const float *scale, int cols, float eps)
{
    row_stats(stats, x, cols, eps);
    const float mean = stats[0], rstd = stats[1];
    for (int at = 0; at < cols; at += SIMD_WIDTH) {
        const simd_reg n = (simd_reg_load(x, at, cols) - mean) * rstd;
        simd_reg_store(h, at, cols, n * (1.0f + simd_reg_load(scale, at, cols)) + simd_reg_load(shift, at, cols));
    }
}

struct norm_args {
    float       *y, *dshift, *dscale; /* h, or dx */
    float       *stats_out;
    const float *x, *dh, *stats, *shift, *scale;
    size_t       ldm, tokens, cols, groups;
    float        eps;
};

static void norm_mod_rows(const void *arg, size_t from, size_t to)
{
    const struct norm_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const size_t at = r * k->cols, b = r / k->tokens * k->ldm;
        norm_mod_row(k->y + at, k->stats_out + 2 * r, k->x + at, k->shift + b, k->scale + b, (int)k->cols, k->eps);
    }
}

static void norm_mod(void *h, float *stats, const float *x, const float *shift,
                     const float *scale, int ldm, int batch, int tokens, int cols, float eps)
{
    const struct norm_args k = {
        .y = h, .stats_out = stats, .x = x, .shift = shift, .scale = scale, .ldm = (size_t)ldm,
        .tokens = (size_t)tokens, .cols = (size_t)cols, .eps = eps,
    };
    thread_pool_range((size_t)(batch * tokens), 1, 3 * k.cols, norm_mod_rows, &k);
}

/* g = dh (1 + scale), n = LN(x):  dx += (g - mean(g) - n mean(g n)) / std */
static void norm_mod_back_row(float *dx, const float *dh, const float *x, const float *stats,
                              const float *scale, int cols)
{
    const float mean = stats[0], rstd = stats[1];
    simd_reg sum_g[SIMD_REGS] = {{0}}, sum_gn[SIMD_REGS] = {{0}};
    for (int c = 0; c < cols; c += LANES)
        SIMD_EACH(i) {
            const int at = SIMD_AT(c, i);
            const simd_reg g = simd_reg_load(dh, at, cols) * (1.0f + simd_reg_load(scale, at, cols));
            sum_g[i] += g;
            sum_gn[i] += g * ((simd_reg_load(x, at, cols) - mean) * rstd);
        }
    const float mean_g = simd_reg_sum(sum_g) / (float)cols, mean_gn = simd_reg_sum(sum_gn) / (float)cols;
    for (int at = 0; at < cols; at += SIMD_WIDTH) {
        const simd_reg g = simd_reg_load(dh, at, cols) * (1.0f + simd_reg_load(scale, at, cols));
        const simd_reg n = (simd_reg_load(x, at, cols) - mean) * rstd;
        simd_reg_store(dx, at, cols, simd_reg_load(dx, at, cols) + rstd * (g - mean_g - n * mean_gn));
    }
}

/* One sample, LANES columns: dshift = sum dh, dscale = sum dh LN(x). */
static void norm_mod_back_col(float *dshift, float *dscale, const float *dh, const float *x,
                              const float *stats, int tokens, int cols, int c)
{
    simd_reg shift[SIMD_REGS] = {{0}}, scale[SIMD_REGS] = {{0}};
    for (int r0 = 0; r0 < tokens; r0 += SUM_ROWS) {
        simd_reg part_shift[SIMD_REGS] = {{0}}, part_scale[SIMD_REGS] = {{0}};
        for (int r = r0; r < tokens && r < r0 + SUM_ROWS; r++) {
            const size_t row = (size_t)r * (size_t)cols;
            SIMD_EACH(i) {
                const simd_reg d = simd_reg_load(dh + row, SIMD_AT(c, i), cols);
                const simd_reg n = (simd_reg_load(x + row, SIMD_AT(c, i), cols) - stats[2 * r]) * stats[2 * r + 1];
                part_shift[i] += d;
                part_scale[i] += d * n;
            }
        }
        SIMD_EACH(i) {
            shift[i] += part_shift[i];
            scale[i] += part_scale[i];
        }
    }
    SIMD_EACH(i) {
        simd_reg_store(dshift, SIMD_AT(c, i), cols, shift[i]);
        simd_reg_store(dscale, SIMD_AT(c, i), cols, scale[i]);
    }
}

static void norm_mod_back_rows(const void *arg, size_t from, size_t to)
{
    const struct norm_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const size_t at = r * k->cols;
        norm_mod_back_row(k->y + at, k->dh + at, k->x + at, k->stats + 2 * r,
                          k->scale + r / k->tokens * k->ldm, (int)k->cols);
    }
}

/* Item i is a sample and a group of columns. */
static void norm_mod_back_sums(const void *arg, size_t from, size_t to)
{
    const struct norm_args *k = arg;
    for (size_t i = from; i < to; i++) {
        const size_t b = i / k->groups, row = b * k->tokens;
        norm_mod_back_col(k->dshift + b * k->ldm, k->dscale + b * k->ldm, k->dh + row * k->cols, k->x + row * k->cols,
                          k->stats + 2 * row, (int)k->tokens, (int)k->cols, (int)(i % k->groups) * LANES);
    }
}

static void norm_mod_back(float *dx, float *dshift, float *dscale, const void *dh, const float *x, const float *stats,
                          const float *scale, int ldm, int batch, int tokens, int cols)
{
    const struct norm_args k = {
        .y = dx, .dshift = dshift, .dscale = dscale, .x = x, .dh = dh, .stats = stats,
        .scale = scale, .ldm = (size_t)ldm, .tokens = (size_t)tokens, .cols = (size_t)cols,
        .groups = (size_t)(cols + LANES - 1) / LANES,
    };
    const struct thread_pool_loop loops[] = {
        {(size_t)(batch * tokens), 4 * k.cols, norm_mod_back_rows, &k},
        {(size_t)batch * k.groups, 2 * k.tokens * LANES, norm_mod_back_sums, &k},
    };
    thread_pool_loops(loops, 2);
}

struct rms_args {
    float       *y, *rstd_out, *dw; /* y, or dx */
    const float *x, *dy, *rstd, *w;
    size_t       ldy, ldx, lddy;
    int          rows, cols;
    float        eps;
};

static void rms_rows(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const float *x = k->x + r * k->ldx;
        float *y = k->y + r * k->ldy;
        v16 squares = {0};
        for (int c = 0; c < k->cols; c += LANES) {
            v16 v = simd_load_at(x, c, k->cols);
            squares += v * v;
        }
        const float s = 1.0f / sqrtf(simd_sum(squares) / (float)k->cols + k->eps);
        k->rstd_out[r] = s;
        for (int c = 0; c < k->cols; c += LANES)
            simd_store_at(y, c, k->cols, simd_load_at(x, c, k->cols) * s * simd_load_at(k->w, c, k->cols));
    }
}

static void rms_norm(void *y, int ldy, float *rstd, const void *x, int ldx, const float *w,
                     int rows, int cols, float eps)
{
    const struct rms_args k = {
        .y = y, .rstd_out = rstd, .x = x, .w = w, .ldy = (size_t)ldy, .ldx = (size_t)ldx,
        .rows = rows, .cols = cols, .eps = eps,
    };
    thread_pool_range((size_t)rows, 1, 2 * (size_t)cols, rms_rows, &k);
}

/* dx = (g - n mean(g n)) rstd, g = dy w, n = x rstd */
static void rms_back_row(float *dx, const float *dy, const float *x, float rstd, const float *w, int cols)
{
    v16 sum = {0};
    for (int c = 0; c < cols; c += LANES)
        sum += simd_load_at(dy, c, cols) * simd_load_at(w, c, cols) *
               (simd_load_at(x, c, cols) * rstd);
    const float mean = simd_sum(sum) / (float)cols;
    for (int c = 0; c < cols; c += LANES) {
        v16 n = simd_load_at(x, c, cols) * rstd;
        v16 g = simd_load_at(dy, c, cols) * simd_load_at(w, c, cols);
        simd_store_at(dx, c, cols, (g - n * mean) * rstd);
    }
}

static void rms_back_col(float *dw, const float *dy, int lddy, const float *x, int ldx,
                         const float *rstd, int rows, int cols, int c)
{
    v16 total = {0};
    for (int r0 = 0; r0 < rows; r0 += SUM_ROWS) {
        v16 part = {0};
        for (int r = r0; r < rows && r < r0 + SUM_ROWS; r++)
            part += simd_load_at(dy + (size_t)r * (size_t)lddy, c, cols) *
                    (simd_load_at(x + (size_t)r * (size_t)ldx, c, cols) * rstd[r]);
        total += part;
    }
    simd_store_at(dw, c, cols, simd_load_at(dw, c, cols) + total);
}

static void rms_back_sums(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t i = from; i < to; i++)
        rms_back_col(k->dw, k->dy, (int)k->lddy, k->x, (int)k->ldx, k->rstd, k->rows, k->cols, (int)i * LANES);
}

static void rms_back_rows(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t r = from; r < to; r++)
        rms_back_row(k->y + r * k->ldy, k->dy + r * k->lddy, k->x + r * k->ldx, k->rstd[r], k->w, k->cols);
}

static void rms_norm_back(void *dx, int lddx, float *dw, const void *dy, int lddy, const void *x,
                          int ldx, const float *rstd, const float *w, int rows, int cols)
{
    const struct rms_args k = {
        .y = dx, .dw = dw, .x = x, .dy = dy, .rstd = rstd, .w = w, .ldy = (size_t)lddx,
        .ldx = (size_t)ldx, .lddy = (size_t)lddy, .rows = rows, .cols = cols,
    };
    /* All columns before the rows: dx may be dy. */
    if (dw)
        thread_pool_range((size_t)(cols + LANES - 1) / LANES, 1, 2 * (size_t)rows * LANES, rms_back_sums, &k);
    thread_pool_range((size_t)rows, 1, 3 * (size_t)cols, rms_back_rows, &k);
}

struct layer_args {
    float       *y, *stats_out, *dw, *db; /* y, or dx */
    const float *x, *dy, *stats, *w, *b;
    size_t       ldy, ldx, lddy;
    int          rows, cols;
    float        eps;
};

static void layer_rows(const void *arg, size_t from, size_t to)
{
    const struct layer_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const float *x = k->x + r * k->ldx;
        float *y = k->y + r * k->ldy, *stats = k->stats_out + 2 * r;
        row_stats(stats, x, k->cols, k->eps);
        for (int c = 0; c < k->cols; c += LANES) {
            const v16 n = (simd_load_at(x, c, k->cols) - stats[0]) * stats[1];
            simd_store_at(y, c, k->cols, n * simd_load_at(k->w, c, k->cols) + simd_load_at(k->b, c, k->cols));
        }
    }
}

static void layer_norm(void *y, int ldy, float *stats, const void *x, int ldx, const float *w,
                       const float *b, int rows, int cols, float eps)
{
    const struct layer_args k = {
        .y = y, .stats_out = stats, .x = x, .w = w, .b = b, .ldy = (size_t)ldy,
        .ldx = (size_t)ldx, .rows = rows, .cols = cols, .eps = eps,
    };
    thread_pool_range((size_t)rows, 1, 3 * (size_t)cols, layer_rows, &k);
}

/* g = dy w, n = LN(x):  dx = (g - mean(g) - n mean(g n)) / std */
static void layer_back_rows(const void *arg, size_t from, size_t to)
{
    const struct layer_args *k = arg;
    const int cols = k->cols;
    for (size_t r = from; r < to; r++) {
        const float *x = k->x + r * k->ldx, *dy = k->dy + r * k->lddy;
        const float mean = k->stats[2 * r], rstd = k->stats[2 * r + 1];
        v16 sum_g = {0}, sum_gn = {0};
        for (int c = 0; c < cols; c += LANES) {
            const v16 g = simd_load_at(dy, c, cols) * simd_load_at(k->w, c, cols);
            sum_g += g;
            sum_gn += g * ((simd_load_at(x, c, cols) - mean) * rstd);
        }
        const float mean_g = simd_sum(sum_g) / (float)cols;
        const float mean_gn = simd_sum(sum_gn) / (float)cols;
        for (int c = 0; c < cols; c += LANES) {
            const v16 g = simd_load_at(dy, c, cols) * simd_load_at(k->w, c, cols);
            const v16 n = (simd_load_at(x, c, cols) - mean) * rstd;
            simd_store_at(k->y + r * k->ldy, c, cols, rstd * (g - mean_g - n * mean_gn));
        }
    }
}

/* Item i is a group of columns: dw += sum dy n, db += sum dy. */
static void layer_back_sums(const void *arg, size_t from, size_t to)
{
    const struct layer_args *k = arg;
    const int cols = k->cols;
    for (size_t i = from; i < to; i++) {
        const int c = (int)i * LANES;
        v16 dw = simd_load_at(k->dw, c, cols), db = simd_load_at(k->db, c, cols);
        for (int r0 = 0; r0 < k->rows; r0 += SUM_ROWS) {
            v16 part_w = {0}, part_b = {0};
            for (int r = r0; r < k->rows && r < r0 + SUM_ROWS; r++) {
                const v16 dy = simd_load_at(k->dy + (size_t)r * k->lddy, c, cols);
                const v16 x = simd_load_at(k->x + (size_t)r * k->ldx, c, cols);
                part_w += dy * ((x - k->stats[2 * r]) * k->stats[2 * r + 1]);
                part_b += dy;
            }
            dw += part_w;
            db += part_b;
        }
        simd_store_at(k->dw, c, cols, dw);
        simd_store_at(k->db, c, cols, db);
    }
}

static void layer_norm_back(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x, int ldx,
                            const float *stats, const float *w, int rows, int cols)
{
    const struct layer_args k = {
        .y = dx, .dw = dw, .db = db, .x = x, .dy = dy, .stats = stats, .w = w,
        .ldy = (size_t)lddx, .ldx = (size_t)ldx, .lddy = (size_t)lddy, .rows = rows, .cols = cols,
    };
    /* All columns before the rows: dx may be dy. */
    thread_pool_range((size_t)(cols + LANES - 1) / LANES, 1, 2 * (size_t)rows * LANES, layer_back_sums, &k);
    thread_pool_range((size_t)rows, 1, 4 * (size_t)cols, layer_back_rows, &k);
}

void KERN_FILL(norm)(struct kern_ops *ops)
{
    ops->layer_norm = layer_norm;
    ops->layer_norm_back = layer_norm_back;
    ops->norm_mod = norm_mod;
    ops->norm_mod_back = norm_mod_back;
    ops->rms_norm = rms_norm;
    ops->rms_norm_back = rms_norm_back;
}
