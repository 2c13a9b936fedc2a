/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise.cu - activations, gates, modulation: each number on its own */
#include "kernels/device.cuh"

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline float silu_slope(float x)
{
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

/* 0.5 (1 + tanh u) = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
__device__ static inline float gelu_gate(float x)
{
    return sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

__global__ void silu_kernel(float *y, const float *x, size_t n)
{
    for EACH(i, n)
        y[i] = x[i] * sigmoid(x[i]);
}

__global__ void silu_back_kernel(float *dx, const float *dy, const float *x, size_t n)
{
    for EACH(i, n)
        dx[i] = dy[i] * silu_slope(x[i]);
}

__global__ void gelu_kernel(float *y, const float *x, size_t n)
{
    for EACH(i, n)
        y[i] = x[i] * gelu_gate(x[i]);
}

__global__ void gelu_back_kernel(float *dx, const float *dy, const float *x, size_t n)
{
    for EACH(i, n) {
        const float v = x[i], s = gelu_gate(v);
        const float slope = 1.5957691216f * (1.0f + 3.0f * 0.044715f * v * v);
        dx[i] = dy[i] * (s + v * s * (1.0f - s) * slope);
    }
}

__global__ void add_kernel(float *y, const float *a, const float *b, size_t n)
{
    for EACH(i, n)
        y[i] = a[i] + b[i];
}

__global__ void relu_kernel(float *y, int ldy, const float *x, int ldx, size_t n, int cols)
{
    for EACH(i, n) {
        const size_t r = i / cols, c = i % cols;
        const float v = x[r * ldx + c];
        y[r * ldy + c] = v < 0.0f ? 0.0f : v;
    }
}

__global__ void glu_kernel(float *y, const float *x, size_t n, int half)
{
    for EACH(i, n) {
        const float *a = x + i / half * 2 * half + i % half;
        y[i] = a[0] * (a[half] * sigmoid(a[half]));
    }
}

__global__ void glu_back_kernel(float *dx, const float *dy, const float *x, size_t n, int half)
{
    for EACH(i, n) {
        const size_t at = i / half * 2 * half + i % half;
        const float a = x[at], g = x[at + half], d = dy[i];
        dx[at] = d * (g * sigmoid(g));
        dx[at + half] = d * a * silu_slope(g);
    }
}

__global__ void time_embed_kernel(float *emb, const float *t, const float *freqs, int batch,
                                  int half)
{
    for EACH(i, (size_t)batch * half) {
        const size_t b = i / half, k = i % half;
        const float angle = truncf(t[b]) * freqs[k];
        emb[b * 2 * half + k] = cosf(angle);
        emb[b * 2 * half + half + k] = sinf(angle);
    }
}

__global__ void mod_add_kernel(float *mod, const float *table, const float *t, int ldt, int row,
                               size_t n, int rows, int cols)
{
    for EACH(i, n) {
        const size_t c = i % cols, r = i / cols % rows, b = i / cols / rows;
        mod[i] = table[r * cols + c] + t[b * ldt + r * row + c];
    }
}

/* A thread has a column of dt: all rows that share it, and all samples for dtable. */
__global__ void mod_add_back_kernel(float *dtable, float *dt, int ldt, int row, const float *dmod,
                                    int batch, int rows, int cols)
{
    for EACH(c, (size_t)cols)
        for (int b = 0; b < batch; b++)
            for (int r = 0; r < rows; r++) {
                const float d = dmod[((size_t)b * rows + r) * cols + c];
                dtable[(size_t)r * cols + c] += d;
                dt[(size_t)b * ldt + (size_t)r * row + c] += d;
            }
}

__global__ void gate_kernel(float *y, const float *x, const float *g, int ldg, const float *a,
                            size_t n, int tokens, int cols)
{
    for EACH(i, n) {
        const size_t r = i / cols, c = i % cols;
        y[i] = x[i] + g[r / tokens * ldg + c] * a[i];
    }
}

__global__ void gate_back_kernel(float *da, const float *dy, const float *g, int ldg, size_t n,
                                 int tokens, int cols)
{
    for EACH(i, n) {
        const size_t r = i / cols, c = i % cols;
        da[i] = g[r / tokens * ldg + c] * dy[i];
    }
}

struct product_columns {
    enum { SUMS = 1 };
    const float *x, *y;
    int          cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        out[0] = x[row * cols + col] * y[row * cols + col];
    }
};

static void cuda_silu(float *y, const float *x, size_t n)
{
    launch("silu", silu_kernel, grid_for(n), dim3(BLOCK), 0, y, x, n);
}

static void cuda_silu_back(float *dx, const float *dy, const float *x, size_t n)
{
    launch("silu_back", silu_back_kernel, grid_for(n), dim3(BLOCK), 0, dx, dy, x, n);
}

static void cuda_gelu(float *y, const float *x, size_t n)
{
    launch("gelu", gelu_kernel, grid_for(n), dim3(BLOCK), 0, y, x, n);
}

static void cuda_gelu_back(float *dx, const float *dy, const float *x, size_t n)
{
    launch("gelu_back", gelu_back_kernel, grid_for(n), dim3(BLOCK), 0, dx, dy, x, n);
}

static void cuda_add(float *y, const float *a, const float *b, size_t n)
{
    launch("add", add_kernel, grid_for(n), dim3(BLOCK), 0, y, a, b, n);
}

static void cuda_relu(float *y, int ldy, const float *x, int ldx, int rows, int cols)
{
    const size_t n = (size_t)rows * (size_t)cols;
    launch("relu", relu_kernel, grid_for(n), dim3(BLOCK), 0, y, ldy, x, ldx, n, cols);
}

static void cuda_glu(float *y, const float *x, int rows, int half)
{
    const size_t n = (size_t)rows * (size_t)half;
    launch("glu", glu_kernel, grid_for(n), dim3(BLOCK), 0, y, x, n, half);
}

static void cuda_glu_back(float *dx, const float *dy, const float *x, int rows, int half)
{
    const size_t n = (size_t)rows * (size_t)half;
    launch("glu_back", glu_back_kernel, grid_for(n), dim3(BLOCK), 0, dx, dy, x, n, half);
}

static void cuda_time_embed(float *emb, const float *t, const float *freqs, int batch, int half)
{
    launch("time_embed", time_embed_kernel, grid_for((size_t)batch * (size_t)half), dim3(BLOCK), 0,
           emb, t, freqs, batch, half);
}

static void cuda_mod_add(float *mod, const float *table, const float *t, int ldt, int row,
                         int batch, int rows, int cols)
{
    const size_t n = (size_t)batch * (size_t)rows * (size_t)cols;
    launch("mod_add", mod_add_kernel, grid_for(n), dim3(BLOCK), 0, mod, table, t, ldt, row, n, rows,
           cols);
}

static void cuda_mod_add_back(float *dtable, float *dt, int ldt, int row, const float *dmod,
                              int batch, int rows, int cols)
{
    launch("mod_add_back", mod_add_back_kernel, grid_for((size_t)cols), dim3(BLOCK), 0, dtable, dt,
           ldt, row, dmod, batch, rows, cols);
}

static void cuda_gate(float *y, const float *x, const float *g, int ldg, const float *a, int batch,
                      int tokens, int cols)
{
    const size_t n = (size_t)batch * (size_t)tokens * (size_t)cols;
    launch("gate", gate_kernel, grid_for(n), dim3(BLOCK), 0, y, x, g, ldg, a, n, tokens, cols);
}

static void cuda_gate_back(float *da, float *dgate, const float *dy, const float *g, int ldg,
                           const float *a, int batch, int tokens, int cols)
{
    const size_t n = (size_t)batch * (size_t)tokens * (size_t)cols;
    const struct product_columns f = {dy, a, cols};
    const struct column_to to = {dgate, ldg, 0, 1, 0};
    column_sums("gate_back", f, &to, batch, tokens, cols); /* first: da may be dy */
    launch("gate_back", gate_back_kernel, grid_for(n), dim3(BLOCK), 0, da, dy, g, ldg, n, tokens,
           cols);
}

static void fill_pointwise(struct kern_ops *ops)
{
    ops->silu = cuda_silu;
    ops->silu_back = cuda_silu_back;
    ops->gelu = cuda_gelu;
    ops->gelu_back = cuda_gelu_back;
    ops->add = cuda_add;
    ops->relu = cuda_relu;
    ops->glu = cuda_glu;
    ops->glu_back = cuda_glu_back;
    ops->time_embed = cuda_time_embed;
    ops->mod_add = cuda_mod_add;
    ops->mod_add_back = cuda_mod_add_back;
    ops->gate = cuda_gate;
    ops->gate_back = cuda_gate_back;
}
