/* SPDX-License-Identifier: Apache-2.0 */
/* crossattn_ref.c - softmax attention of image tokens to caption tokens
 *
 * The mask is added, (mask - 1) * 10000, as the authors do: exp() of a masked
 * score is exactly 0 as long as one token of the sample is valid, and a sample
 * without any attends to its padding.
 */
#include <cblas.h>
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

#define MASKED 10000.0f

LANE_FN v16 load_at(const float *p, int c, int cols)
{
    return cols - c >= LANES ? lane_load(p + c) : lane_load_n(p + c, (size_t)(cols - c));
}

LANE_FN void store_at(float *p, int c, int cols, v16 x)
{
    if (cols - c >= LANES)
        lane_store(p + c, x);
    else
        lane_store_n(p + c, x, (size_t)(cols - c));
}

/* p = softmax(p * scale + mask), in place. */
static void softmax_row(float *p, const float *mask, float scale, int n)
{
    float top = -INFINITY;
    for (int i = 0; i < n; i++) {
        p[i] = p[i] * scale + (mask[i] - 1.0f) * MASKED;
        top = p[i] > top ? p[i] : top;
    }
    v16 sum = {0};
    for (int i = 0; i < n; i += LANES) {
        v16 e = lane_exp(load_at(p, i, n) - top);
        store_at(p, i, n, e);
        if (n - i < LANES)
            for (int j = n - i; j < LANES; j++)
                e[j] = 0.0f;
        sum += e;
    }
    float total = lane_sum(sum);
    for (int i = 0; i < n; i += LANES)
        store_at(p, i, n, load_at(p, i, n) / total);
}

/* ds = p (dp - sum(dp p)) * scale, in place of dp. */
static void softmax_back_row(float *dp, const float *p, float scale, int n)
{
    v16 sum = {0};
    for (int i = 0; i < n; i += LANES)
        sum += load_at(dp, i, n) * load_at(p, i, n);
    float total = lane_sum(sum);
    for (int i = 0; i < n; i += LANES)
        store_at(dp, i, n, load_at(p, i, n) * (load_at(dp, i, n) - total) * scale);
}

struct head {
    size_t q, k, v, prob; /* where sample and head begin */
    int    ld;
};

LANE_FN struct head head_at(struct kern_heads s, int b, int h, int ldk, int ldv, int text)
{
    const size_t ld = (size_t)s.heads * (size_t)s.dim, col = (size_t)h * (size_t)s.dim;
    return (struct head){
        .q = (size_t)b * (size_t)s.tokens * ld + col,
        .k = (size_t)b * (size_t)text * (size_t)ldk + col,
        .v = (size_t)b * (size_t)text * (size_t)ldv + col,
        .prob = ((size_t)b * (size_t)s.heads + (size_t)h) * (size_t)s.tokens * (size_t)text,
        .ld = (int)ld,
    };
}

static void cross_attn(float *out, float *prob, const float *q, const float *k, int ldk,
                       const float *v, int ldv, const float *mask, int text, struct kern_heads s)
{
    const float scale = 1.0f / sqrtf((float)s.dim);
#pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) {
            const struct head at = head_at(s, b, h, ldk, ldv, text);
            float *p = prob + at.prob;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.tokens, text, s.dim, 1.0f,
                        q + at.q, at.ld, k + at.k, ldk, 0.0f, p, text);
            for (int t = 0; t < s.tokens; t++)
                softmax_row(p + (size_t)t * (size_t)text, mask + (size_t)b * (size_t)text, scale,
                            text);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.tokens, s.dim, text, 1.0f, p,
                        text, v + at.v, ldv, 0.0f, out + at.q, at.ld);
        }
}

static void cross_attn_back(float *dq, float *dk, float *dv, int lddkv, float *work,
                            const float *dout, const float *prob, const float *q, const float *k,
                            int ldk, const float *v, int ldv, int text, struct kern_heads s)
{
    const float scale = 1.0f / sqrtf((float)s.dim);
#pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) {
            const struct head at = head_at(s, b, h, ldk, ldv, text);
            const size_t to = head_at(s, b, h, lddkv, lddkv, text).k;
            const float *p = prob + at.prob;
            float *ds = work + at.prob;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.tokens, text, s.dim, 1.0f,
                        dout + at.q, at.ld, v + at.v, ldv, 0.0f, ds, text);
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, text, s.dim, s.tokens, 1.0f, p,
                        text, dout + at.q, at.ld, 0.0f, dv + to, lddkv);
            for (int t = 0; t < s.tokens; t++)
                softmax_back_row(ds + (size_t)t * (size_t)text, p + (size_t)t * (size_t)text,
                                 scale, text);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.tokens, s.dim, text, 1.0f, ds,
                        text, k + at.k, ldk, 0.0f, dq + at.q, at.ld);
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, text, s.dim, s.tokens, 1.0f, ds,
                        text, q + at.q, at.ld, 0.0f, dk + to, lddkv);
        }
}

void KERN_FILL(crossattn)(struct kern_ops *ops)
{
    ops->cross_attn = cross_attn;
    ops->cross_attn_back = cross_attn_back;
}
