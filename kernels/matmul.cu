/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.cu - linear layers, forward and backward, as products of gemm.cuh */
#include "kernels/gemm.cuh"

/* c[m, n] of fp32 or narrow numbers from op(a)[m, k] op(b)[k, n]; all rows are dense. */
static struct gemm dense(void *c, bool fp32, float beta, const void *bias,
                         const void *a, bool ta, const void *b, bool tb, int m, int n, int k)
{
    struct gemm g = {};
    g.m = m, g.n = n, g.k = k;
    g.ta = ta, g.tb = tb;
    g.a = a, g.lda = ta ? m : k;
    g.b = b, g.ldb = tb ? k : n;
    g.c = c, g.wide = fp32, g.ldc = n;
    g.beta = beta, g.bias = bias;
    g.batch = 1;
    return g;
}

static void product(const char *name, const struct gemm &g)
{
    gemm_run(name, &g);
}

static void cuda_linear(void *y, const void *x, const void *w, const void *b, int m, int k, int n)
{
    product("linear", dense(y, false, 0, b, x, false, w, true, m, n, k));
}

static void cuda_linear_wide(float *y, const void *x, const void *w, const float *b, int m, int k,
                             int n)
{
    product("linear_wide", dense(y, true, 0, b, x, false, w, true, m, n, k));
}

template <typename T> struct plain_columns {
    enum { SUMS = 1 };
    const T *x;
    int      cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        out[0] = widen(x[row * cols + col]);
    }
};

__global__ void bias_kernel(float *db, const float *sums, int n)
{
    for EACH(i, (size_t)n)
        db[i] += sums[i];
}

/* cuBLASLt overwrites its output. */
static void gemm_sums_come(const struct gemm *g, float *to)
{
    launch("linear_back", bias_kernel, grid_for((size_t)g->m), dim3(BLOCK), 0, to, g->row_sums, g->m);
}

static void gemm_sums_apart(const struct gemm *g, float *to)
{
    const struct column_to sums = {to, 0, 1, 1, 0};
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        const struct plain_columns<T> f = {(const T *)g->a, g->m};
        column_sums("linear_back", f, &sums, 1, g->k, g->m);
    });
}

/* The column sums of dy come with dy^T x, or from a pass of their own. */
static void weight_back(float *dw, float *db, const void *dy, const void *x, int m, int k, int n)
{
    if (!dw)
        return;
    struct gemm g = dense(dw, true, 1, NULL, dy, true, x, false, n, k, m);
    if (db && gemm_sums())
        g.row_sums = (float *)device_scratch(SCRATCH_BIAS, sizeof(float) * (size_t)n);
    const bool summed = gemm_run("linear_back", &g) && g.row_sums;
    if (db)
        (summed ? gemm_sums_come : gemm_sums_apart)(&g, db);
}

static void cuda_linear_back(void *dx, float *dw, float *db, const void *dy, const void *x,
                             const void *w, int m, int k, int n)
{
    if (dx)
        product("linear_back", dense(dx, false, 0, NULL, dy, false, w, false, m, k, n));
    weight_back(dw, db, dy, x, m, k, n);
}

static void cuda_linear_back_wide(float *dx, int keep, float *dw, float *db, const void *dy,
                                  const void *x, const void *w, int m, int k, int n)
{
    if (dx)
        product("linear_back",
                dense(dx, true, keep ? 1.0f : 0.0f, NULL, dy, false, w, false, m, k, n));
    weight_back(dw, db, dy, x, m, k, n);
}

static void cuda_linear_add(void *y, int ldy, const void *x, const void *w, int m, int k, int n)
{
    struct gemm g = dense(y, false, 1, NULL, x, false, w, true, m, n, k);
    g.ldc = ldy;
    product("linear_add", g);
}

static void cuda_linear_back_add(void *dx, const void *dy, const void *w, int m, int k, int n)
{
    product("linear_back_add", dense(dx, false, 1, NULL, dy, false, w, false, m, k, n));
}

static void fill_matmul(struct kern_ops *ops)
{
    ops->linear = cuda_linear;
    ops->linear_wide = cuda_linear_wide;
    ops->linear_back = cuda_linear_back;
    ops->linear_back_wide = cuda_linear_back_wide;
    ops->linear_add = cuda_linear_add;
    ops->linear_back_add = cuda_linear_back_add;
}
