/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.cu - linear layers, forward and backward, as products of gemm.cuh */
#include "kernels/gemm.cuh"

static struct gemm one_product(int m, int n, int k, bool ta, struct operand a, bool tb,
                               struct operand b, float *c, float beta, const float *bias)
{
    struct gemm g;
    memset(&g, 0, sizeof(g));
    g.m = m, g.n = n, g.k = k;
    g.ta = ta, g.tb = tb;
    g.a = a, g.b = b;
    g.c = c, g.ldc = n;
    g.beta = beta;
    g.bias = bias;
    g.batch = 1;
    return g;
}

static void cuda_linear(float *y, const float *x, const float *w, const float *b, int m, int k,
                        int n)
{
    const struct operand in = operand_take(SCRATCH_A, x, (size_t)m, k, k);
    const struct operand by = operand_take(SCRATCH_B, w, (size_t)n, k, k);
    const struct gemm g = one_product(m, n, k, false, in, true, by, y, 0, b);
    gemm_run("linear", &g);
}

struct plain_columns {
    enum { SUMS = 1 };
    const float *x;
    int          cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        out[0] = x[row * cols + col];
    }
};

static void cuda_linear_back(float *dx, int keep, float *dw, float *db, const float *dy,
                             const float *x, const float *w, int m, int k, int n)
{
    const struct operand d = operand_take(SCRATCH_A, dy, (size_t)m, n, n);
    if (dx) {
        const struct operand by = operand_take(SCRATCH_B, w, (size_t)n, k, k);
        const struct gemm g = one_product(m, k, n, false, d, false, by, dx, keep ? 1.0f : 0.0f,
                                          NULL);
        gemm_run("linear_back", &g);
    }
    const struct operand in = operand_take(SCRATCH_B, x, (size_t)m, k, k);
    const struct gemm g = one_product(n, k, m, true, d, false, in, dw, 1, NULL);
    gemm_run("linear_back", &g);
    if (db) {
        const struct plain_columns f = {dy, n};
        const struct column_to to = {db, 0, 1, 1, 0};
        column_sums("linear_back", f, &to, 1, m, n);
    }
}

static void fill_matmul(struct kern_ops *ops)
{
    ops->linear = cuda_linear;
    ops->linear_back = cuda_linear_back;
}
