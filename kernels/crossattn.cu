/* SPDX-License-Identifier: Apache-2.0 */
/* crossattn.cu - softmax attention of image tokens to caption tokens
 *
 * Two products per sample for all heads at once, a softmax between them: a warp
 * per row.  In bf16 the products' inputs are rounded once for the whole batch;
 * the softmax and the probabilities that are kept stay fp32.
 */
#include <float.h>

#include "kernels/device.cuh"

enum { ROW_WARPS = BLOCK / WARP };

/* p = softmax(p * scale + (mask - 1) * 10000), rows of `text`; row / rows_each is the sample. */
__global__ void softmax_kernel(float *p, const float *mask, float scale, size_t rows,
                               size_t rows_each, int text)
{
    const size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows)
        return;
    float *x = p + row * text, top = -FLT_MAX, sum = 0;
    const float *m = mask + row / rows_each * text;
    for (int l = lane; l < text; l += WARP)
        top = fmaxf(top, x[l] * scale + (m[l] - 1.0f) * 10000.0f);
    top = warp_max(top);
    for (int l = lane; l < text; l += WARP) {
        const float e = expf(x[l] * scale + (m[l] - 1.0f) * 10000.0f - top);
        x[l] = e;
        sum += e;
    }
    const float share = 1.0f / warp_sum(sum);
    for (int l = lane; l < text; l += WARP)
        x[l] *= share;
}

/* ds = p (dp - sum(dp p)) * scale, in place of dp. */
__global__ void softmax_back_kernel(float *dp, const float *p, float scale, size_t rows, int text)
{
    const size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows)
        return;
    float *d = dp + row * text, sum = 0;
    const float *x = p + row * text;
    for (int l = lane; l < text; l += WARP)
        sum += d[l] * x[l];
    sum = warp_sum(sum);
    for (int l = lane; l < text; l += WARP)
        d[l] = x[l] * (d[l] - sum) * scale;
}

static unsigned row_blocks(size_t rows)
{
    return tiles(rows, ROW_WARPS);
}

/* Arrays as products want them: fp32 as they are, or rounded. */
struct cross_shape {
    int    N, L, D, C;
    size_t B, heads, prob; /* numbers of one sample's probabilities */
};

static struct cross_shape cross_shape(struct kern_heads s, int text)
{
    return (struct cross_shape){s.tokens, text, s.dim, s.heads * s.dim, (size_t)s.batch,
                                (size_t)s.heads,
                                (size_t)s.heads * (size_t)s.tokens * (size_t)text};
}

/* For each sample, all heads: c[m, n] = op(a) op(b). Strides from sample to sample come with the
 * operands, from head to head here. */
static void cross_products(const struct gemm *head, struct cross_shape z, size_t a_sample,
                           size_t b_sample, size_t c_sample)
{
    for (size_t b = 0; b < z.B; b++) {
        struct gemm g = *head;
        g.a.at = operand_at(head->a, b * a_sample);
        g.b.at = operand_at(head->b, b * b_sample);
        g.c = head->c + b * c_sample;
        gemm_run("cross_attn", &g);
    }
}

static void cuda_cross_attn(float *out, float *prob, const float *q, const float *k, int ldk,
                            const float *v, int ldv, const float *mask, int text,
                            struct kern_heads s)
{
    const struct cross_shape z = cross_shape(s, text);
    const size_t rows = z.B * z.heads * (size_t)z.N, M = z.B * (size_t)z.N, T = z.B * (size_t)text;
    struct operand a = operand_take(SCRATCH_A, q, M, z.C, z.C);
    struct operand b = operand_take(SCRATCH_B, k, T, z.C, ldk);
    struct gemm g = {.m = z.N, .n = text, .k = z.D, .ta = false, .tb = true, .a = a, .b = b,
                     .c = prob, .ldc = text, .beta = 0, .bias = NULL, .batch = s.heads,
                     .stride_a = z.D, .stride_b = z.D,
                     .stride_c = (int64_t)z.N * text};
    cross_products(&g, z, (size_t)z.N * (size_t)a.ld, (size_t)text * (size_t)b.ld, z.prob);
    launch("softmax", softmax_kernel, dim3(row_blocks(rows)), dim3(BLOCK), 0, prob, mask,
           1.0f / sqrtf((float)z.D), rows, z.heads * (size_t)z.N, text);
    a = operand_take(SCRATCH_A, prob, rows, text, text);
    b = operand_take(SCRATCH_B, v, T, z.C, ldv);
    g = (struct gemm){.m = z.N, .n = z.D, .k = text, .ta = false, .tb = false, .a = a, .b = b,
                      .c = out, .ldc = z.C, .beta = 0, .bias = NULL, .batch = s.heads,
                      .stride_a = (int64_t)z.N * a.ld, .stride_b = z.D, .stride_c = z.D};
    cross_products(&g, z, z.heads * (size_t)z.N * (size_t)a.ld, (size_t)text * (size_t)b.ld,
                   (size_t)z.N * (size_t)z.C);
}

/* dp = dout v^T, then ds of it in `work`; meanwhile dv = p^T dout. */
static void cross_back_values(float *dv, int lddkv, float *work, const float *dout,
                              const float *prob, const float *v, int ldv, struct kern_heads s,
                              struct cross_shape z)
{
    const size_t rows = z.B * z.heads * (size_t)z.N, M = z.B * (size_t)z.N;
    const struct operand d = operand_take(SCRATCH_A, dout, M, z.C, z.C);
    struct operand b = operand_take(SCRATCH_B, v, z.B * (size_t)z.L, z.C, ldv);
    struct gemm g = {.m = z.N, .n = z.L, .k = z.D, .ta = false, .tb = true, .a = d, .b = b,
                     .c = work, .ldc = z.L, .beta = 0, .bias = NULL, .batch = s.heads,
                     .stride_a = z.D, .stride_b = z.D, .stride_c = (int64_t)z.N * z.L};
    cross_products(&g, z, (size_t)z.N * (size_t)d.ld, (size_t)z.L * (size_t)b.ld, z.prob);
    b = operand_take(SCRATCH_B, prob, rows, z.L, z.L);
    g = (struct gemm){.m = z.L, .n = z.D, .k = z.N, .ta = true, .tb = false, .a = b, .b = d,
                      .c = dv, .ldc = lddkv, .beta = 0, .bias = NULL, .batch = s.heads,
                      .stride_a = (int64_t)z.N * b.ld, .stride_b = z.D, .stride_c = z.D};
    cross_products(&g, z, z.heads * (size_t)z.N * (size_t)b.ld, (size_t)z.N * (size_t)d.ld,
                   (size_t)z.L * (size_t)lddkv);
    launch("softmax_back", softmax_back_kernel, dim3(row_blocks(rows)), dim3(BLOCK), 0, work, prob,
           1.0f / sqrtf((float)z.D), rows, z.L);
}

static void cuda_cross_attn_back(float *dq, float *dk, float *dv, int lddkv, float *work,
                                 const float *dout, const float *prob, const float *q,
                                 const float *k, int ldk, const float *v, int ldv, int text,
                                 struct kern_heads s)
{
    const struct cross_shape z = cross_shape(s, text);
    const size_t rows = z.B * z.heads * (size_t)z.N, M = z.B * (size_t)z.N, T = z.B * (size_t)text;
    cross_back_values(dv, lddkv, work, dout, prob, v, ldv, s, z);
    const struct operand ds = operand_take(SCRATCH_A, work, rows, text, text);
    struct operand b = operand_take(SCRATCH_B, k, T, z.C, ldk);
    struct gemm g = {.m = z.N, .n = z.D, .k = text, .ta = false, .tb = false, .a = ds, .b = b,
                     .c = dq, .ldc = z.C, .beta = 0, .bias = NULL, .batch = s.heads,
                     .stride_a = (int64_t)z.N * ds.ld, .stride_b = z.D, .stride_c = z.D};
    cross_products(&g, z, z.heads * (size_t)z.N * (size_t)ds.ld, (size_t)text * (size_t)b.ld,
                   (size_t)z.N * (size_t)z.C);
    b = operand_take(SCRATCH_B, q, M, z.C, z.C);
    g = (struct gemm){.m = text, .n = z.D, .k = z.N, .ta = true, .tb = false, .a = ds, .b = b,
                      .c = dk, .ldc = lddkv, .beta = 0, .bias = NULL, .batch = s.heads,
                      .stride_a = (int64_t)z.N * ds.ld, .stride_b = z.D, .stride_c = z.D};
    cross_products(&g, z, z.heads * (size_t)z.N * (size_t)ds.ld, (size_t)z.N * (size_t)b.ld,
                   (size_t)text * (size_t)lddkv);
}

static void fill_crossattn(struct kern_ops *ops)
{
    ops->cross_attn = cuda_cross_attn;
    ops->cross_attn_back = cuda_cross_attn_back;
}
