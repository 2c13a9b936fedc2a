/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.cu - products with frozen bf16 weights, by gemm.cuh
 *
 * Both factors of a product have one type: if narrow numbers are bf16, the activations are rounded; else the weights
 * become floats, some rows at a time.
 */
#include "kernels/gemm.cuh"

enum { BF16_PANEL = KERN_BF16_THREADS * KERN_BF16_ROWS /* rows of k floats in `work` */ };

__global__ void bf16_widen_kernel(float *y, const bf16 *x, size_t n)
{
    for EACH(i, n)
        y[i] = widen(x[i]);
}

/* A row of bf16 is half as long as one of floats. */
static void bf16_rounded(float *y, const float *x, const void *w, float *work, int m, int k, int n)
{
    for (int at = 0; at < m; at += 2 * BF16_PANEL) {
        const int rows = m - at < 2 * BF16_PANEL ? m - at : 2 * BF16_PANEL;
        const size_t count = (size_t)rows * (size_t)k;
        launch("linear_bf16", round_kernel<bf16>, grid_for(count), dim3(BLOCK), 0, (bf16 *)work,
               x + (size_t)at * (size_t)k, count);
        product("linear_bf16", dense(y + (size_t)at * (size_t)n, true, 0, NULL, work, false, w, true, rows, n, k));
    }
}

static void bf16_widened(float *y, const float *x, const void *w, float *work, int m, int k, int n)
{
    for (int at = 0; at < n; at += BF16_PANEL) {
        const int rows = n - at < BF16_PANEL ? n - at : BF16_PANEL;
        const size_t count = (size_t)rows * (size_t)k;
        launch("linear_bf16", bf16_widen_kernel, grid_for(count), dim3(BLOCK), 0, work,
               (const bf16 *)w + (size_t)at * (size_t)k, count);
        struct gemm g = dense(y + at, true, 0, NULL, x, false, work, true, m, rows, k);
        g.ldc = n;
        product("linear_bf16", g);
    }
}

static void cuda_linear_bf16(float *y, const float *x, const void *w, float *work, int m, int k, int n)
{
    (device.precision == KERN_BF16 ? bf16_rounded : bf16_widened)(y, x, w, work, m, k, n);
}

static void fill_bf16(struct kern_ops *ops)
{
    ops->linear_bf16 = cuda_linear_bf16;
}
