/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise_ref.c - elementwise operations: activations, gates, modulation
 *
 * Threads share long arrays block by block; the result of a block
 * does not depend on the thread.
 */
#include <math.h>
#include <string.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { LINE = 1024, SUM_ROWS = 32 };

/* y from x, or from a and b: numbers [from, to). */
struct map_args {
    float       *y;
    const float *a, *b;
};

static void zero_range(const void *arg, size_t from, size_t to)
{
    const struct map_args *m = arg;
    memset(m->y + from, 0, (to - from) * sizeof(*m->y));
}

static void zero(float *y, size_t n)
{
    const struct map_args m = {y, NULL, NULL};
    thread_pool_range(n, LINE, 1, zero_range, &m);
}

static void copy_range(const void *arg, size_t from, size_t to)
{
    const struct map_args *m = arg;
    memcpy(m->y + from, m->a + from, (to - from) * sizeof(*m->y));
}

static void copy(float *y, const float *x, size_t n)
{
    const struct map_args m = {y, x, NULL};
    thread_pool_range(n, LINE, 1, copy_range, &m);
}

/* Narrow arrays are fp32 here. */
static void round_to(void *y, const float *x, size_t n)
{
    if (y != x)
        copy(y, x, n);
}

SIMD_FN v16 silu16(v16 x)
{
    return x * simd_sigmoid(x);
}

/* d(x s)/dx = s (1 + x (1 - s)) */
SIMD_FN v16 silu16_back(v16 dy, v16 x)
{
    v16 s = simd_sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
}

/* 0.5 (1 + tanh u) = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
SIMD_FN v16 gelu16_gate(v16 x)
{
    return simd_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

SIMD_FN v16 gelu16(v16 x)
{
    return x * gelu16_gate(x);
}

SIMD_FN v16 gelu16_back(v16 dy, v16 x)
{
    v16 s = gelu16_gate(x);
    v16 slope = 1.5957691216f * (1.0f + 3.0f * 0.044715f * x * x);
    return dy * (s + x * s * (1.0f - s) * slope);
}

/* A kernel from a function of one v16, or of two. */
#define MAP1(name, Y, X, fn)                                                       \
    static void name##_range(const void *arg, size_t i, size_t end)                \
    {                                                                              \
        const struct map_args *m = arg;                                            \
        for (; i + LANES <= end; i += LANES)                                       \
            simd_store(m->y + i, fn(simd_load(m->a + i)));                         \
        if (i < end)                                                               \
            simd_store_n(m->y + i, fn(simd_load_n(m->a + i, end - i)), end - i);   \
    }                                                                              \
    static void name(Y *y, const X *x, size_t n)                                   \
    {                                                                              \
        const struct map_args m = {y, x, NULL};                                    \
        thread_pool_range(n, LINE, 4, name##_range, &m);                           \
    }

#define MAP2(name, Y, A, B, fn)                                                    \
    static void name##_range(const void *arg, size_t i, size_t end)                \
    {                                                                              \
        const struct map_args *m = arg;                                            \
        for (; i + LANES <= end; i += LANES)                                       \
            simd_store(m->y + i, fn(simd_load(m->a + i), simd_load(m->b + i)));    \
        if (i < end)                                                               \
            simd_store_n(m->y + i, fn(simd_load_n(m->a + i, end - i),              \
                                      simd_load_n(m->b + i, end - i)), end - i);   \
    }                                                                              \
    static void name(Y *y, const A *a, const B *b, size_t n)                       \
    {                                                                              \
        const struct map_args m = {y, a, b};                                       \
        thread_pool_range(n, LINE, 4, name##_range, &m);                           \
    }

SIMD_FN v16 add16(v16 a, v16 b)
{
    return a + b;
}

MAP1(silu, void, float, silu16)
MAP1(gelu, void, void, gelu16)
MAP2(silu_back, void, void, float, silu16_back)
MAP2(gelu_back, void, void, void, gelu16_back)
SIMD_FN v16 swiglu16(v16 a, v16 b)
{
    return silu16(a) * b;
}

SIMD_FN v16 geglu16(v16 a, v16 b)
{
    return gelu16(a) * b;
}

MAP2(add, float, float, void, add16)
MAP2(add_rows, float, float, float, add16)
MAP2(geglu, float, float, float, geglu16)

struct glu_args {
    float       *y;
    const float *dy, *x;
    int          half;
};

static void glu_rows(const void *arg, size_t from, size_t to)
{
    const struct glu_args *k = arg;
    const int half = k->half;
    for (size_t r = from; r < to; r++) {
        const float *a = k->x + r * 2 * (size_t)half, *g = a + half;
        float *y = k->y + r * (size_t)half;
        int c = 0;
        for (; c + LANES <= half; c += LANES)
            simd_store(y + c, simd_load(a + c) * silu16(simd_load(g + c)));
        const size_t n = (size_t)(half - c);
        if (n)
            simd_store_n(y + c, simd_load_n(a + c, n) * silu16(simd_load_n(g + c, n)), n);
    }
}

static void glu(float *y, const float *x, int rows, int half)
{
    const struct glu_args a = {y, NULL, x, half};
    thread_pool_range((size_t)rows, 1, 6 * (size_t)half, glu_rows, &a);
}

/* da = dy silu(g), dg = dy a silu'(g); one sigmoid serves both. */
SIMD_FN void glu16_back(v16 *da, v16 *dg, v16 dy, v16 a, v16 g)
{
    v16 s = simd_sigmoid(g);
    *da = dy * (g * s);
    *dg = dy * a * (s * (1.0f + g * (1.0f - s)));
}

static void glu_back_rows(const void *arg, size_t from, size_t to)
{
    const struct glu_args *k = arg;
    const int half = k->half;
    for (size_t r = from; r < to; r++) {
        const float *a = k->x + r * 2 * (size_t)half, *g = a + half;
        const float *d = k->dy + r * (size_t)half;
        float *da = k->y + r * 2 * (size_t)half, *dg = da + half;
        v16 va, vg;
        int c = 0;
        for (; c + LANES <= half; c += LANES) {
            glu16_back(&va, &vg, simd_load(d + c), simd_load(a + c), simd_load(g + c));
            simd_store(da + c, va);
            simd_store(dg + c, vg);
        }
        const size_t n = (size_t)(half - c);
        if (n) {
            glu16_back(&va, &vg, simd_load_n(d + c, n), simd_load_n(a + c, n), simd_load_n(g + c, n));
            simd_store_n(da + c, va, n);
            simd_store_n(dg + c, vg, n);
        }
    }
}

static void glu_back(float *dx, const float *dy, const float *x, int rows, int half)
{
    const struct glu_args a = {dx, dy, x, half};
    thread_pool_range((size_t)rows, 1, 8 * (size_t)half, glu_back_rows, &a);
}

struct swiglu_args {
    float       *to;
    const float *dy, *u;
    int          cols, second;
};

static void swiglu_rows(const void *arg, size_t from, size_t to)
{
    const struct swiglu_args *k = arg;
    const size_t cols = (size_t)k->cols, second = (size_t)k->second;
    for (size_t r = from; r < to; r++) {
        const float *a = k->u + r * (second + cols), *b = a + second;
        float *y = k->to + r * cols;
        size_t c = 0;
        for (; c + LANES <= cols; c += LANES)
            simd_store(y + c, swiglu16(simd_load(a + c), simd_load(b + c)));
        if (c < cols)
            simd_store_n(y + c, swiglu16(simd_load_n(a + c, cols - c), simd_load_n(b + c, cols - c)), cols - c);
    }
}

static void swiglu(void *y, const void *u, int rows, int cols, int second)
{
    const struct swiglu_args k = {y, NULL, u, cols, second};
    thread_pool_range((size_t)rows, 1, 4 * (size_t)cols, swiglu_rows, &k);
}

/* Both halves of a row, or its last n numbers. */
SIMD_FN void swiglu16_back(float *da, const float *dy, const float *a, size_t second, size_t n)
{
    v16 va, vb;
    glu16_back(&vb, &va, simd_load_n(dy, n), simd_load_n(a + second, n), simd_load_n(a, n));
    simd_store_n(da, va, n);
    simd_store_n(da + second, vb, n);
}

static void swiglu_back_rows(const void *arg, size_t from, size_t to)
{
    const struct swiglu_args *k = arg;
    const size_t cols = (size_t)k->cols, second = (size_t)k->second;
    v16 va, vb;
    for (size_t r = from; r < to; r++) {
        const float *a = k->u + r * (second + cols), *dy = k->dy + r * cols;
        float *da = k->to + r * (second + cols);
        size_t c = 0;
        for (; c + LANES <= cols; c += LANES) {
            glu16_back(&vb, &va, simd_load(dy + c), simd_load(a + second + c), simd_load(a + c));
            simd_store(da + c, va);
            simd_store(da + second + c, vb);
        }
        if (c < cols)
            swiglu16_back(da + c, dy + c, a + c, second, cols - c);
        memset(da + cols, 0, (second - cols) * sizeof(*da));
    }
}

static void swiglu_back(void *du, const void *dy, const void *u, int rows, int cols, int second)
{
    const struct swiglu_args k = {du, dy, u, cols, second};
    thread_pool_range((size_t)rows, 1, 8 * (size_t)cols, swiglu_back_rows, &k);
}

static void embed_number(float *emb, float t, const float *freqs, int half)
{
    for (int i = 0; i < half; i++) {
        emb[i] = cosf(t * freqs[i]);
        emb[half + i] = sinf(t * freqs[i]);
    }
}

static void time_embed(void *to, const float *t, const float *freqs, int batch, int half)
{
    for (int b = 0; b < batch; b++)
        embed_number((float *)to + (size_t)b * 2 * (size_t)half, truncf(t[b]), freqs, half);
}

static void time_embed_exact(void *to, const float *t, const float *freqs, int batch, int half)
{
    for (int b = 0; b < batch; b++)
        embed_number((float *)to + (size_t)b * 2 * (size_t)half, t[b], freqs, half);
}

static void mod_add(float *mod, const float *table, const float *t, int ldt, int row, int batch, int rows, int cols)
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

static void mod_add_back(float *dtable, float *dt, int ldt, int row, const float *dmod, int batch, int rows, int cols)
{
    for (int b = 0; b < batch; b++)
        for (int r = 0; r < rows; r++) {
            const float *d = dmod + ((size_t)b * (size_t)rows + (size_t)r) * (size_t)cols;
            float *to = dt + (size_t)b * (size_t)ldt + (size_t)r * (size_t)row;
            float *own = dtable ? dtable + (size_t)r * (size_t)cols : NULL;
#pragma omp simd
            for (int c = 0; c < cols; c++)
                to[c] += d[c];
#pragma omp simd
            for (int c = 0; c < (own ? cols : 0); c++)
                own[c] += d[c];
        }
}

struct gate_args {
    float       *y, *dgate;
    const float *x, *g, *a;
    size_t       ldg, tokens, cols, groups;
};

static void gate_rows(const void *arg, size_t from, size_t to)
{
    const struct gate_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const float *x = k->x + r * k->cols, *a = k->a + r * k->cols;
        const float *g = k->g + r / k->tokens * k->ldg;
        float *y = k->y + r * k->cols;
#pragma omp simd
        for (size_t c = 0; c < k->cols; c++)
            y[c] = x[c] + g[c] * a[c];
    }
}

static void gate(float *y, void *also, const float *x, const float *g, int ldg, const void *a,
                 int batch, int tokens, int cols)
{
    const struct gate_args k = {y, NULL, x, g, a, (size_t)ldg, (size_t)tokens, (size_t)cols, 0};
    thread_pool_range((size_t)(batch * tokens), 1, 2 * (size_t)cols, gate_rows, &k);
    round_to(also, y, (size_t)(batch * tokens) * (size_t)cols);
}

/* Column sums of dy * a of one sample, LANES columns from c on. */
static void gate_sum(float *dgate, const float *dy, const float *a, int tokens, int cols, int c)
{
    simd_reg total[SIMD_REGS] = {{0}};
    for (int r0 = 0; r0 < tokens; r0 += SUM_ROWS) {
        simd_reg part[SIMD_REGS] = {{0}};
        for (int r = r0; r < tokens && r < r0 + SUM_ROWS; r++) {
            const size_t row = (size_t)r * (size_t)cols;
            SIMD_EACH(i)
                part[i] += simd_reg_load(dy + row, SIMD_AT(c, i), cols) * simd_reg_load(a + row, SIMD_AT(c, i), cols);
        }
        SIMD_EACH(i)
            total[i] += part[i];
    }
    SIMD_EACH(i)
        simd_reg_store(dgate, SIMD_AT(c, i), cols, total[i]);
}

static void gate_back_rows(const void *arg, size_t from, size_t to)
{
    const struct gate_args *k = arg;
    for (size_t r = from; r < to; r++) {
        const float *g = k->g + r / k->tokens * k->ldg, *dy = k->x + r * k->cols;
        float *da = k->y + r * k->cols;
#pragma omp simd
        for (size_t c = 0; c < k->cols; c++)
            da[c] = g[c] * dy[c];
    }
}

/* Item i is a sample and a group of columns. */
static void gate_back_sums(const void *arg, size_t from, size_t to)
{
    const struct gate_args *k = arg;
    for (size_t i = from; i < to; i++) {
        const size_t b = i / k->groups, at = b * k->tokens * k->cols;
        gate_sum(k->dgate + b * k->ldg, k->x + at, k->a + at, (int)k->tokens, (int)k->cols,
                 (int)(i % k->groups) * LANES);
    }
}

static void gate_back(void *da, float *dgate, const float *dy, const float *g, int ldg,
                      const void *a, int batch, int tokens, int cols)
{
    const struct gate_args k = {da,  dgate, dy, g, a, (size_t)ldg, (size_t)tokens, (size_t)cols,
                                (size_t)(cols + LANES - 1) / LANES};
    const struct thread_pool_loop loops[] = {
        {(size_t)(batch * tokens), 2 * k.cols, gate_back_rows, &k},
        {(size_t)batch * k.groups, 2 * k.tokens * LANES, gate_back_sums, &k},
    };
    thread_pool_loops(loops, 2);
}

/* --- numbers of low-rank adapters --------------------------------------------------------------- */

static void columns(void *y, const void *x, int ldx, int m, int n)
{
    for (size_t r = 0; r < (size_t)m; r++)
        memcpy((float *)y + r * (size_t)n, (const float *)x + r * (size_t)ldx, sizeof(float) * (size_t)n);
}

static void scale(void *y, const void *x, float by, size_t n)
{
    float *to = y;
    const float *from = x;
    for (size_t i = 0; i < n; i++)
        to[i] = by * from[i];
}

struct widen_args {
    float          *y;
    const uint16_t *half;
};

static void widen_range(const void *arg, size_t from, size_t to)
{
    const struct widen_args *a = arg;
    for (size_t i = from; i < to; i++) {
        const uint32_t bits = (uint32_t)a->half[i] << 16;
        memcpy(a->y + i, &bits, sizeof(bits));
    }
}

static void widen_bf16(float *y, const void *half, size_t n)
{
    const struct widen_args a = {y, half};
    thread_pool_range(n, 64, 2, widen_range, &a);
}

void KERN_FILL(pointwise)(struct kern_ops *ops)
{
    ops->zero = zero;
    ops->copy = copy;
    ops->round = round_to;
    ops->columns = columns;
    ops->scale = scale;
    ops->widen_bf16 = widen_bf16;
    ops->silu = silu;
    ops->silu_back = silu_back;
    ops->gelu = gelu;
    ops->gelu_back = gelu_back;
    ops->add = add;
    ops->add_rows = add_rows;
    ops->geglu = geglu;
    ops->glu = glu;
    ops->glu_back = glu_back;
    ops->swiglu = swiglu;
    ops->swiglu_back = swiglu_back;
    ops->time_embed = time_embed;
    ops->time_embed_exact = time_embed_exact;
    ops->mod_add = mod_add;
    ops->mod_add_back = mod_add_back;
    ops->gate = gate;
    ops->gate_back = gate_back;
}
