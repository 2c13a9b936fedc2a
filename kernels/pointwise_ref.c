/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise_ref.c - activations, gates, modulation: each number on its own
 *
 * Long arrays are cut into blocks that threads share; what a block computes
 * does not depend on who computes it.
 */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

enum { BLOCK = 8192, SUM_ROWS = 32 };

static void zero(float *y, size_t n)
{
#pragma omp parallel for schedule(static) if (n > 4 * BLOCK)
    for (size_t i = 0; i < n; i += BLOCK)
        memset(y + i, 0, (n - i < BLOCK ? n - i : BLOCK) * sizeof(*y));
}

static void copy(float *y, const float *x, size_t n)
{
#pragma omp parallel for schedule(static) if (n > 4 * BLOCK)
    for (size_t i = 0; i < n; i += BLOCK)
        memcpy(y + i, x + i, (n - i < BLOCK ? n - i : BLOCK) * sizeof(*y));
}

LANE_FN v16 silu16(v16 x)
{
    return x * lane_sigmoid(x);
}

/* d(x s)/dx = s (1 + x (1 - s)) */
LANE_FN v16 silu16_back(v16 dy, v16 x)
{
    v16 s = lane_sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
}

/* 0.5 (1 + tanh u) = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
LANE_FN v16 gelu16_gate(v16 x)
{
    return lane_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

LANE_FN v16 gelu16(v16 x)
{
    return x * gelu16_gate(x);
}

LANE_FN v16 gelu16_back(v16 dy, v16 x)
{
    v16 s = gelu16_gate(x);
    v16 slope = 1.5957691216f * (1.0f + 3.0f * 0.044715f * x * x);
    return dy * (s + x * s * (1.0f - s) * slope);
}

#define MAP1(name, fn)                                                     \
    static void name(float *y, const float *x, size_t n)                   \
    {                                                                      \
        _Pragma("omp parallel for schedule(static) if (n > 2 * BLOCK)")    \
        for (size_t k = 0; k < n; k += BLOCK) {                            \
            size_t end = n - k < BLOCK ? n : k + BLOCK, i = k;             \
            for (; i + LANES <= end; i += LANES)                           \
                lane_store(y + i, fn(lane_load(x + i)));                   \
            if (i < end)                                                   \
                lane_store_n(y + i, fn(lane_load_n(x + i, end - i)), end - i); \
        }                                                                  \
    }

#define MAP2(name, fn)                                                     \
    static void name(float *y, const float *a, const float *b, size_t n)   \
    {                                                                      \
        _Pragma("omp parallel for schedule(static) if (n > 2 * BLOCK)")    \
        for (size_t k = 0; k < n; k += BLOCK) {                            \
            size_t end = n - k < BLOCK ? n : k + BLOCK, i = k;             \
            for (; i + LANES <= end; i += LANES)                           \
                lane_store(y + i, fn(lane_load(a + i), lane_load(b + i))); \
            if (i < end)                                                   \
                lane_store_n(y + i, fn(lane_load_n(a + i, end - i),        \
                                       lane_load_n(b + i, end - i)), end - i); \
        }                                                                  \
    }

LANE_FN v16 add16(v16 a, v16 b)
{
    return a + b;
}

MAP1(silu, silu16)
MAP1(gelu, gelu16)
MAP2(silu_back, silu16_back)
MAP2(gelu_back, gelu16_back)
MAP2(add, add16)

static void relu(float *y, int ldy, const float *x, int ldx, int rows, int cols)
{
#pragma omp parallel for schedule(static) if ((int64_t)rows * cols > 2 * BLOCK)
    for (int r = 0; r < rows; r++) {
        float *to = y + (size_t)r * (size_t)ldy;
        const float *from = x + (size_t)r * (size_t)ldx;
#pragma omp simd
        for (int c = 0; c < cols; c++)
            to[c] = from[c] < 0.0f ? 0.0f : from[c];
    }
}

static void glu(float *y, const float *x, int rows, int half)
{
#pragma omp parallel for schedule(static) if ((int64_t)rows * half > BLOCK)
    for (int r = 0; r < rows; r++) {
        const float *a = x + (size_t)r * 2 * (size_t)half, *g = a + half;
        float *to = y + (size_t)r * (size_t)half;
        int c = 0;
        for (; c + LANES <= half; c += LANES)
            lane_store(to + c, lane_load(a + c) * silu16(lane_load(g + c)));
        size_t n = (size_t)(half - c);
        if (n)
            lane_store_n(to + c, lane_load_n(a + c, n) * silu16(lane_load_n(g + c, n)), n);
    }
}

/* da = dy silu(g), dg = dy a silu'(g); one sigmoid serves both. */
LANE_FN void glu16_back(v16 *da, v16 *dg, v16 dy, v16 a, v16 g)
{
    v16 s = lane_sigmoid(g);
    *da = dy * (g * s);
    *dg = dy * a * (s * (1.0f + g * (1.0f - s)));
}

static void glu_back(float *dx, const float *dy, const float *x, int rows, int half)
{
#pragma omp parallel for schedule(static) if ((int64_t)rows * half > BLOCK)
    for (int r = 0; r < rows; r++) {
        const float *a = x + (size_t)r * 2 * (size_t)half, *g = a + half;
        const float *d = dy + (size_t)r * (size_t)half;
        float *da = dx + (size_t)r * 2 * (size_t)half, *dg = da + half;
        v16 va, vg;
        int c = 0;
        for (; c + LANES <= half; c += LANES) {
            glu16_back(&va, &vg, lane_load(d + c), lane_load(a + c), lane_load(g + c));
            lane_store(da + c, va);
            lane_store(dg + c, vg);
        }
        size_t n = (size_t)(half - c);
        if (n) {
            glu16_back(&va, &vg, lane_load_n(d + c, n), lane_load_n(a + c, n),
                       lane_load_n(g + c, n));
            lane_store_n(da + c, va, n);
            lane_store_n(dg + c, vg, n);
        }
    }
}

static void time_embed(float *emb, const float *t, const float *freqs, int batch, int half)
{
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < half; i++) {
            float angle = truncf(t[b]) * freqs[i];
            emb[b * 2 * half + i] = cosf(angle);
            emb[b * 2 * half + half + i] = sinf(angle);
        }
}

static void mod_add(float *mod, const float *table, const float *t, int ldt, int row, int batch,
                    int rows, int cols)
{
    for (int b = 0; b < batch; b++)
        for (int r = 0; r < rows; r++) {
            const float *from = t + (size_t)b * (size_t)ldt + (size_t)r * (size_t)row;
            const float *own = table + (size_t)r * (size_t)cols;
            float *to = mod + ((size_t)b * (size_t)rows + (size_t)r) * (size_t)cols;
#pragma omp simd
            for (int c = 0; c < cols; c++)
                to[c] = own[c] + from[c];
        }
}

static void mod_add_back(float *dtable, float *dt, int ldt, int row, const float *dmod, int batch,
                         int rows, int cols)
{
    for (int b = 0; b < batch; b++)
        for (int r = 0; r < rows; r++) {
            const float *d = dmod + ((size_t)b * (size_t)rows + (size_t)r) * (size_t)cols;
            float *to = dt + (size_t)b * (size_t)ldt + (size_t)r * (size_t)row;
            float *own = dtable + (size_t)r * (size_t)cols;
#pragma omp simd
            for (int c = 0; c < cols; c++) {
                own[c] += d[c];
                to[c] += d[c];
            }
        }
}

static void gate(float *y, const float *x, const float *g, int ldg, const float *a, int batch,
                 int tokens, int cols)
{
#pragma omp parallel for schedule(static) if ((int64_t)batch * tokens * cols > 2 * BLOCK)
    for (int r = 0; r < batch * tokens; r++) {
        const size_t at = (size_t)r * (size_t)cols;
        const float *w = g + (size_t)(r / tokens) * (size_t)ldg;
#pragma omp simd
        for (int c = 0; c < cols; c++)
            y[at + (size_t)c] = x[at + (size_t)c] + w[c] * a[at + (size_t)c];
    }
}

/* Column sums of dy * a of one sample, LANES columns from c on. */
static void gate_sum(float *dgate, const float *dy, const float *a, int tokens, int cols, int c)
{
    size_t n = (size_t)(cols - c < LANES ? cols - c : LANES);
    v16 total = {0};
    for (int r0 = 0; r0 < tokens; r0 += SUM_ROWS) {
        v16 part = {0};
        for (int r = r0; r < tokens && r < r0 + SUM_ROWS; r++) {
            const size_t at = (size_t)r * (size_t)cols + (size_t)c;
            part += n == LANES ? lane_load(dy + at) * lane_load(a + at)
                               : lane_load_n(dy + at, n) * lane_load_n(a + at, n);
        }
        total += part;
    }
    lane_store_n(dgate + c, total, n);
}

static void gate_back(float *da, float *dgate, const float *dy, const float *g, int ldg,
                      const float *a, int batch, int tokens, int cols)
{
    const int groups = (cols + LANES - 1) / LANES;
#pragma omp parallel if ((int64_t)batch * tokens * cols > 2 * BLOCK)
    {
#pragma omp for schedule(static) nowait
        for (int r = 0; r < batch * tokens; r++) {
            const size_t at = (size_t)r * (size_t)cols;
            const float *w = g + (size_t)(r / tokens) * (size_t)ldg;
#pragma omp simd
            for (int c = 0; c < cols; c++)
                da[at + (size_t)c] = w[c] * dy[at + (size_t)c];
        }
#pragma omp for schedule(static)
        for (int i = 0; i < batch * groups; i++) {
            const size_t b = (size_t)(i / groups), at = b * (size_t)tokens * (size_t)cols;
            gate_sum(dgate + b * (size_t)ldg, dy + at, a + at, tokens, cols, i % groups * LANES);
        }
    }
}

void KERN_FILL(pointwise)(struct kern_ops *ops)
{
    ops->zero = zero;
    ops->copy = copy;
    ops->silu = silu;
    ops->silu_back = silu_back;
    ops->gelu = gelu;
    ops->gelu_back = gelu_back;
    ops->add = add;
    ops->relu = relu;
    ops->glu = glu;
    ops->glu_back = glu_back;
    ops->time_embed = time_embed;
    ops->mod_add = mod_add;
    ops->mod_add_back = mod_add_back;
    ops->gate = gate;
    ops->gate_back = gate_back;
}
