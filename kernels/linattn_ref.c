/* SPDX-License-Identifier: Apache-2.0 */
/* linattn_ref.c - ReLU linear attention, forward and backward
 *
 * Per sample and head, with q, k >= 0 and v as [tokens, dim]:
 *   vk = v^T k [dim, dim],  ksum = column sums of k,
 *   den = q ksum + 1e-8,  out = q vk^T / den.
 * ksum is stored as one more row of vk, as in the authors' code.
 */
#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

#define EPS 1e-8f

/* Offsets of the numbers of sample b and head h. */
SIMD_FN size_t head_at(struct kern_heads s, int b, int h, int ld)
{
    return (size_t)b * (size_t)s.tokens * (size_t)ld + (size_t)h * (size_t)s.dim;
}

SIMD_FN float *vk_at(struct kern_lin_attn keep, struct kern_heads s, int b, int h)
{
    return keep.vk + ((size_t)b * (size_t)s.heads + (size_t)h) *
                         (size_t)((s.dim + 1) * s.dim);
}

SIMD_FN float *den_at(struct kern_lin_attn keep, struct kern_heads s, int b, int h)
{
    return keep.den + (size_t)b * (size_t)s.tokens * (size_t)s.heads + h;
}

/* c[m,n] = a b, each of which may be stored transposed */
static void gemm(bool a_across, bool b_across, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                 float *c, int ldc)
{
    gemm_multiply(&(struct gemm_product){
        .y = c, .a = a, .b = b, .ldy = (size_t)ldc, .lda = (size_t)lda, .ldb = (size_t)ldb, .rows = m, .cols = n,
        .depth = k, .a_across = a_across, .b_across = b_across,
    });
}

SIMD_FN float dot(const float *a, const float *b, int n)
{
    simd_reg sum[SIMD_REGS] = {{0}};
    for (int c = 0; c < n; c += LANES)
        SIMD_EACH(i)
            sum[i] += simd_reg_load(a, SIMD_AT(c, i), n) * simd_reg_load(b, SIMD_AT(c, i), n);
    return simd_reg_sum(sum);
}

/* x *= by; returns x . y of the new x. */
SIMD_FN float scale_dot(float *x, float by, const float *y, int n)
{
    simd_reg sum[SIMD_REGS] = {{0}};
    for (int c = 0; c < n; c += LANES)
        SIMD_EACH(i) {
            const simd_reg a = simd_reg_load(x, SIMD_AT(c, i), n) * by;
            simd_reg_store(x, SIMD_AT(c, i), n, a);
            sum[i] += a * simd_reg_load(y, SIMD_AT(c, i), n);
        }
    return simd_reg_sum(sum);
}

/* d + w * add where x > 0, else 0: the gradient through relu(x). */
SIMD_FN void relu_back_row(float *d, float w, const float *add, const float *x, int n)
{
    const simd_reg zero = {0};
    for (int at = 0; at < n; at += SIMD_WIDTH) {
        const simd_reg g = simd_reg_load(d, at, n) + w * simd_reg_load(add, at, n);
        simd_reg_store(d, at, n, simd_reg_above(simd_reg_load(x, at, n), zero, g, zero));
    }
}

/* ksum[j] = sum over tokens of weight[n * ldw] * k[n][j]; weight NULL = 1 */
static void weighted_sum(float *ksum, const float *k, int ld, const float *weight, int ldw, int tokens, int dim)
{
    for (int at = 0; at < dim; at += SIMD_WIDTH) {
        simd_reg sum = {0};
        for (int t = 0; t < tokens; t++) {
            const simd_reg x = simd_reg_load(k + (size_t)t * (size_t)ld, at, dim);
            sum += weight ? weight[(size_t)t * (size_t)ldw] * x : x;
        }
        simd_reg_store(ksum, at, dim, sum);
    }
}

static void lin_attn_head(float *out, int ldo, float *vk, float *den, int ldden, const float *q,
                          const float *k, int ld, const float *v, int ldv, int tokens, int dim)
{
    float *ksum = vk + dim * dim;
    gemm(true, false, dim, dim, tokens, v, ldv, k, ld, vk, dim);
    weighted_sum(ksum, k, ld, NULL, 0, tokens, dim);
    gemm(false, true, tokens, dim, dim, q, ld, vk, dim, out, ldo);
    for (int t = 0; t < tokens; t++) {
        float d = dot(q + (size_t)t * (size_t)ld, ksum, dim) + EPS;
        float *o = out + (size_t)t * (size_t)ldo;
        den[(size_t)t * (size_t)ldden] = d;
        simd_scale(o, 1.0f / d, dim);
    }
}

struct lin_args {
    float               *out, *q_io, *k_io, *dq, *dk, *dv, *dout;
    const float         *q, *k, *v, *out_in;
    int                  ldo, ldqk, ldv, ldd;
    struct kern_lin_attn keep;
    struct kern_heads    s;
};

/* In place. A NaN stays NaN. */
static void relu_rows(float *x, int ld, int tokens, int dim)
{
    for (int t = 0; t < tokens; t++, x += ld)
        for (int at = 0; at < dim; at += SIMD_WIDTH)
            simd_reg_store(x, at, dim, simd_reg_max(simd_reg_load(x, at, dim), (simd_reg){0}));
}

/* Item i is a sample and a head. */
static void lin_heads(const void *arg, size_t from, size_t to)
{
    const struct lin_args *a = arg;
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->s.heads, h = (int)i % a->s.heads;
        const size_t at = head_at(a->s, b, h, a->ldqk);
        relu_rows(a->q_io + at, a->ldqk, a->s.tokens, a->s.dim);
        relu_rows(a->k_io + at, a->ldqk, a->s.tokens, a->s.dim);
        lin_attn_head(a->out + head_at(a->s, b, h, a->ldo), a->ldo, vk_at(a->keep, a->s, b, h),
                      den_at(a->keep, a->s, b, h), a->s.heads, a->q + at, a->k + at, a->ldqk,
                      a->v + head_at(a->s, b, h, a->ldv), a->ldv, a->s.tokens, a->s.dim);
    }
}

static void lin_attn(void *out, int ldo, struct kern_lin_attn keep, void *q, void *k, int ldqk,
                     const void *v, int ldv, struct kern_heads s)
{
    const struct lin_args a = {
        .out = out, .q_io = q, .k_io = k, .q = q, .k = k, .v = v, .ldo = ldo, .ldqk = ldqk, .ldv = ldv, .keep = keep,
        .s = s,
    };
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * s.dim * 4), lin_heads, &a);
}

/* dq[t] = dnum[t] vk + dden[t] ksum where q > 0. Replaces dout by
 * dnum = dout / den, and den by dden = - dnum . out. */
static void query_back(float *dq, int ldd, float *dout, const float *out, int ldo, const float *vk,
                       float *den, int ldden, const float *q, int ld, int tokens, int dim)
{
    const float *ksum = vk + dim * dim;
    for (int t = 0; t < tokens; t++) {
        float *d = dout + (size_t)t * (size_t)ldo, *w = den + (size_t)t * (size_t)ldden;
        *w = -scale_dot(d, 1.0f / *w, out + (size_t)t * (size_t)ldo, dim);
    }
    gemm(false, false, tokens, dim, dim, dout, ldo, vk, dim, dq, ldd);
    for (int t = 0; t < tokens; t++) {
        float *d = dq + (size_t)t * (size_t)ldd;
        relu_back_row(d, den[(size_t)t * (size_t)ldden], ksum, q + (size_t)t * (size_t)ld, dim);
    }
}

/* With dvk = dnum^T q and dksum = sum dden q in place of vk:
 * dk[t] = v[t] dvk + dksum where k > 0, dv[t] = k[t] dvk^T. */
static void key_value_back(float *dk, float *dv, int ldd, const float *dvk, const float *k,
                           int ld, const float *v, int ldv, int tokens, int dim)
{
    const float *dksum = dvk + dim * dim;
    gemm(false, true, tokens, dim, dim, k, ld, dvk, dim, dv, ldd);
    gemm(false, false, tokens, dim, dim, v, ldv, dvk, dim, dk, ldd);
    for (int t = 0; t < tokens; t++) {
        float *d = dk + (size_t)t * (size_t)ldd;
        relu_back_row(d, 1.0f, dksum, k + (size_t)t * (size_t)ld, dim);
    }
}

static void lin_heads_back(const void *arg, size_t from, size_t to)
{
    const struct lin_args *a = arg;
    const int N = a->s.tokens, D = a->s.dim;
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->s.heads, h = (int)i % a->s.heads;
        const size_t at = head_at(a->s, b, h, a->ldqk), at_d = head_at(a->s, b, h, a->ldd);
        const size_t at_o = head_at(a->s, b, h, a->ldo), at_v = head_at(a->s, b, h, a->ldv);
        float *vk = vk_at(a->keep, a->s, b, h), *den = den_at(a->keep, a->s, b, h);
        query_back(a->dq + at_d, a->ldd, a->dout + at_o, a->out_in + at_o, a->ldo, vk, den,
                   a->s.heads, a->q + at, a->ldqk, N, D);
        gemm(true, false, D, D, N, a->dout + at_o, a->ldo, a->q + at, a->ldqk, vk, D);
        weighted_sum(vk + D * D, a->q + at, a->ldqk, den, a->s.heads, N, D);
        key_value_back(a->dk + at_d, a->dv + at_d, a->ldd, vk, a->k + at, a->ldqk, a->v + at_v, a->ldv, N, D);
    }
}

static void lin_attn_back(void *dq, void *dk, void *dv, int ldd, void *dout, int ldo,
                          const void *out, struct kern_lin_attn keep, const void *q, const void *k,
                          int ldqk, const void *v, int ldv, struct kern_heads s)
{
    const struct lin_args a = {
        .dq = dq, .dk = dk, .dv = dv, .dout = dout, .q = q, .k = k, .v = v, .out_in = out,
        .ldo = ldo, .ldqk = ldqk, .ldv = ldv, .ldd = ldd, .keep = keep, .s = s,
    };
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * s.dim * 8), lin_heads_back, &a);
}

void KERN_FILL(linattn)(struct kern_ops *ops)
{
    ops->lin_attn_dim = 1 << 12;
    ops->lin_attn = lin_attn;
    ops->lin_attn_back = lin_attn_back;
}
