/* SPDX-License-Identifier: Apache-2.0 */
/* rmsmod_ref.c - RMS norm times a factor per sample and column, around the layers of Next-DiT
 *
 * Before a layer the factor is f = 1 + scale, after it f = tanh(gate) and the
 * result is added to the residual stream:  out = base + x rstd w f.  Both share one
 * backward pass: with S = sum over the tokens of a sample of dy x rstd,
 *
 *     df = w S;  dw += f S;  dx = base + through the norm of (dy w f).
 *
 * A block of rows is processed one slice of columns at a time, so that w f is computed
 * once per block and the data stays in cache.
 */
#include <math.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { BLOCK_ROWS = 32, SLICE = 16 }; /* SLICE: groups of LANES columns */

struct rms_args {
    float       *out, *rstd_out, *dw, *dmod;
    const float *base; /* NULL: nothing is added */
    const float *x, *dy, *rstd, *w, *mod;
    bool         gated; /* mod is the gate, not the scale */
    size_t       ldm;
    int          batch, tokens, cols;
    float        eps;
};

/* Some rows of one sample; their factors are at `mod`. */
struct block {
    size_t       at; /* offset of their first number */
    size_t       row;
    int          rows;
    const float *mod;
};

static struct block block_at(const struct rms_args *k, size_t row, size_t to)
{
    const size_t sample = row / (size_t)k->tokens, end = (sample + 1) * (size_t)k->tokens;
    const size_t left = (to < end ? to : end) - row;
    return (struct block){
        .at = row * (size_t)k->cols,
        .row = row,
        .rows = left < BLOCK_ROWS ? (int)left : BLOCK_ROWS,
        .mod = k->mod + sample * k->ldm,
    };
}

SIMD_FN v16 factor(const struct rms_args *k, const float *mod, int c)
{
    const v16 m = simd_load_at(mod, c, k->cols);
    return k->gated ? simd_tanh(m) : 1.0f + m;
}

/* w f of the columns from c on. */
SIMD_FN void slice_weights(v16 *wf, const struct rms_args *k, const float *mod, int c)
{
    for (int i = 0; i < SLICE && c < k->cols; i++, c += LANES)
        wf[i] = simd_load_at(k->w, c, k->cols) * factor(k, mod, c);
}

static float row_rstd(const float *x, int cols, float eps)
{
    v16 squares = {0};
    for (int c = 0; c < cols; c += LANES) {
        const v16 v = simd_load_at(x, c, cols);
        squares += v * v;
    }
    return 1.0f / sqrtf(simd_sum(squares) / (float)cols + eps);
}

static void forward_block(const struct rms_args *k, struct block b)
{
    const int cols = k->cols;
    float *rstd = k->rstd_out + b.row;
    v16 wf[SLICE];
    for (int r = 0; r < b.rows; r++)
        rstd[r] = row_rstd(k->x + b.at + (size_t)r * (size_t)cols, cols, k->eps);
    for (int first = 0; first < cols; first += SLICE * LANES) {
        slice_weights(wf, k, b.mod, first);
        for (int r = 0; r < b.rows; r++) {
            const size_t at = b.at + (size_t)r * (size_t)cols;
            for (int i = 0, c = first; i < SLICE && c < cols; i++, c += LANES) {
                v16 y = simd_load_at(k->x + at, c, cols) * rstd[r] * wf[i];
                if (k->base)
                    y += simd_load_at(k->base + at, c, cols);
                simd_store_at(k->out + at, c, cols, y);
            }
        }
    }
}

static void forward_rows(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t r = from; r < to;) {
        const struct block b = block_at(k, r, to);
        forward_block(k, b);
        r += (size_t)b.rows;
    }
}

static void forward(const struct rms_args *k)
{
    thread_pool_range((size_t)k->batch * (size_t)k->tokens, 1, 3 * (size_t)k->cols, forward_rows, k);
}

/* means[r] = mean over the columns of g n, g = dy w f, n = x rstd */
static void block_means(float *means, const struct rms_args *k, struct block b)
{
    const int cols = k->cols;
    v16 sum[BLOCK_ROWS], wf[SLICE];
    memset(sum, 0, sizeof(sum));
    for (int first = 0; first < cols; first += SLICE * LANES) {
        slice_weights(wf, k, b.mod, first);
        for (int r = 0; r < b.rows; r++) {
            const size_t at = b.at + (size_t)r * (size_t)cols;
            for (int i = 0, c = first; i < SLICE && c < cols; i++, c += LANES)
                sum[r] += simd_load_at(k->dy + at, c, cols) * wf[i] *
                          (simd_load_at(k->x + at, c, cols) * k->rstd[b.row + (size_t)r]);
        }
    }
    for (int r = 0; r < b.rows; r++)
        means[r] = simd_sum(sum[r]) / (float)cols;
}

/* out = base + (g - n mean) rstd */
static void back_block(const struct rms_args *k, struct block b)
{
    const int cols = k->cols;
    float means[BLOCK_ROWS];
    v16 wf[SLICE];
    block_means(means, k, b);
    for (int first = 0; first < cols; first += SLICE * LANES) {
        slice_weights(wf, k, b.mod, first);
        for (int r = 0; r < b.rows; r++) {
            const size_t at = b.at + (size_t)r * (size_t)cols;
            const float rstd = k->rstd[b.row + (size_t)r];
            for (int i = 0, c = first; i < SLICE && c < cols; i++, c += LANES) {
                const v16 n = simd_load_at(k->x + at, c, cols) * rstd;
                v16 d = (simd_load_at(k->dy + at, c, cols) * wf[i] - n * means[r]) * rstd;
                if (k->base)
                    d += simd_load_at(k->base + at, c, cols);
                simd_store_at(k->out + at, c, cols, d);
            }
        }
    }
}

static void back_rows(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t r = from; r < to;) {
        const struct block b = block_at(k, r, to);
        back_block(k, b);
        r += (size_t)b.rows;
    }
}

/* S of one sample and the columns from c on. */
SIMD_FN v16 sample_sum(const struct rms_args *k, size_t sample, int c)
{
    const size_t first = sample * (size_t)k->tokens;
    v16 total = {0};
    for (int r0 = 0; r0 < k->tokens; r0 += BLOCK_ROWS) {
        v16 part = {0};
        for (int r = r0; r < k->tokens && r < r0 + BLOCK_ROWS; r++) {
            const size_t row = first + (size_t)r, at = row * (size_t)k->cols;
            part += simd_load_at(k->dy + at, c, k->cols) *
                    (simd_load_at(k->x + at, c, k->cols) * k->rstd[row]);
        }
        total += part;
    }
    return total;
}

/* Item i is a group of columns, over all samples: dw has one order. */
static void back_sums(const void *arg, size_t from, size_t to)
{
    const struct rms_args *k = arg;
    for (size_t i = from; i < to; i++) {
        const int c = (int)i * LANES;
        const v16 w = simd_load_at(k->w, c, k->cols);
        v16 dw = simd_load_at(k->dw, c, k->cols);
        for (int b = 0; b < k->batch; b++) {
            const size_t mod = (size_t)b * k->ldm;
            const v16 s = sample_sum(k, (size_t)b, c), f = factor(k, k->mod + mod, c);
            simd_store_at(k->dmod + mod, c, k->cols, k->gated ? s * w * (1.0f - f * f) : s * w);
            dw += f * s;
        }
        simd_store_at(k->dw, c, k->cols, dw);
    }
}

/* All columns before the rows: dx may overlap dy. */
static void back(const struct rms_args *k)
{
    const size_t rows = (size_t)k->batch * (size_t)k->tokens;
    thread_pool_range((size_t)(k->cols + LANES - 1) / LANES, 1, 2 * rows * LANES, back_sums, k);
    thread_pool_range(rows, 1, 4 * (size_t)k->cols, back_rows, k);
}

static void rms_mod(void *h, float *rstd, const float *x, const float *w, const float *scale,
                    int ldm, int batch, int tokens, int cols, float eps)
{
    const struct rms_args k = {
        .out = h, .rstd_out = rstd, .x = x, .w = w, .mod = scale, .ldm = (size_t)ldm,
        .batch = batch, .tokens = tokens, .cols = cols, .eps = eps,
    };
    forward(&k);
}

static void rms_mod_back(float *dx, float *dw, float *dscale, const void *dh, const float *x, const float *rstd,
                         const float *w, const float *scale, int ldm, int batch, int tokens, int cols)
{
    const struct rms_args k = {
        .out = dx, .base = dx, .dw = dw, .dmod = dscale, .x = x, .dy = dh, .rstd = rstd, .w = w,
        .mod = scale, .ldm = (size_t)ldm, .batch = batch, .tokens = tokens, .cols = cols,
    };
    back(&k);
}

static void rms_gate(float *y, float *rstd, const float *x, const void *a, const float *w,
                     const float *gate, int ldg, int batch, int tokens, int cols, float eps)
{
    const struct rms_args k = {
        .out = y, .rstd_out = rstd, .base = x, .x = a, .w = w, .mod = gate, .gated = true,
        .ldm = (size_t)ldg, .batch = batch, .tokens = tokens, .cols = cols, .eps = eps,
    };
    forward(&k);
}

static void rms_gate_back(void *da, float *dw, float *dgate, const float *dy, const void *a, const float *rstd,
                          const float *w, const float *gate, int ldg, int batch, int tokens, int cols)
{
    const struct rms_args k = {
        .out = da, .dw = dw, .dmod = dgate, .x = a, .dy = dy, .rstd = rstd, .w = w, .mod = gate,
        .gated = true, .ldm = (size_t)ldg, .batch = batch, .tokens = tokens, .cols = cols,
    };
    back(&k);
}

void KERN_FILL(rmsmod)(struct kern_ops *ops)
{
    ops->rms_mod = rms_mod;
    ops->rms_mod_back = rms_mod_back;
    ops->rms_gate = rms_gate;
    ops->rms_gate_back = rms_gate_back;
}
