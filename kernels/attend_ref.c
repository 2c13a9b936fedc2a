/* SPDX-License-Identifier: Apache-2.0 */
/* attend_ref.c - softmax self-attention without a full array of probabilities
 *
 * A block of queries is multiplied with the keys block by block; the output is a
 * running sum that is rescaled when a larger score appears (online softmax).
 * The log of each row's sum is kept, so that the backward pass
 * recomputes any block of probabilities from q and k.
 *
 * Forward, threads share queries; backward, they share key heads, so that
 * only one thread adds to a head's gradients.  The size of a product does not depend
 * on the number of threads, so neither do its bits.
 */
#include <float.h>
#include <math.h>

#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/online_softmax.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"
#include "kernels/tile.h"

/* A block of scores is 132 KiB: it stays in the L2 cache. Its rows are a multiple of a tile's. */
enum { QUERIES = 132, KEYS = 256 };

struct attend_args {
    float            *out, *kept, *dq, *dk, *dv;
    const float      *q, *k, *v, *dout, *out_was, *kept_was;
    int               ldk, ldv, lddkv;
    float             scale;
    struct kern_keys  t;
    struct kern_heads s;
};

/* Queries of one head, and all keys that they attend to. */
struct block {
    size_t q, kept;   /* offset of the queries in q, in out and in what is kept */
    size_t k, v, dkv; /* offset of the keys */
    int    ld, rows, keys;
};

static struct block block_at(const struct attend_args *a, int b, int h, int first)
{
    const struct kern_heads s = a->s;
    const size_t head = (size_t)h, dim = (size_t)s.dim, heads = (size_t)s.heads;
    const size_t col = (size_t)(h / (s.heads / a->t.heads)) * dim;
    const int row = text_first(a->t.first, a->t.most, b);
    const int left = s.tokens - first;
    return (struct block){
        .q = (((size_t)b * (size_t)s.tokens + (size_t)first) * heads + head) * dim,
        .kept = ((size_t)b * heads + head) * (size_t)s.tokens + (size_t)first,
        .k = (size_t)row * (size_t)a->ldk + col,
        .v = (size_t)row * (size_t)a->ldv + col,
        .dkv = (size_t)row * (size_t)a->lddkv + col,
        .ld = s.heads * s.dim,
        .rows = left < QUERIES ? left : QUERIES,
        .keys = text_first(a->t.first, a->t.most, b + 1) - row,
    };
}

static int keys_from(const struct block *b, int key)
{
    return b->keys - key < KEYS ? b->keys - key : KEYS;
}

/* c[m,n] = scale a b^T, scale a b, or scale a^T b; the last two are added to c if `add` */
static void times_turned(float *c, const float *a, int lda, const float *b, int ldb, float scale, int m, int n, int k)
{
    gemm_multiply(&(struct gemm_product){
        .y = c, .a = a, .b = b, .ldy = KEYS, .lda = (size_t)lda, .ldb = (size_t)ldb, .rows = m, .cols = n,
        .depth = k, .b_across = true, .near = true, .scale = scale,
    });
}

static void times(float *c, int ldc, bool add, const float *a, const float *b, int ldb, float scale, int m, int n,
                  int k)
{
    gemm_multiply(&(struct gemm_product){
        .y = c, .a = a, .b = b, .ldy = (size_t)ldc, .lda = KEYS, .ldb = (size_t)ldb, .rows = m, .cols = n,
        .depth = k, .add = add, .near = true, .scale = scale,
    });
}

static void turned_times(float *c, int ldc, bool add, const float *a, const float *b, int ldb, float scale, int m,
                         int n, int k)
{
    gemm_multiply(&(struct gemm_product){
        .y = c, .a = a, .b = b, .ldy = (size_t)ldc, .lda = KEYS, .ldb = (size_t)ldb, .rows = m, .cols = n,
        .depth = k, .a_across = true, .add = add, .scale = scale,
    });
}

static void attend_block(const struct attend_args *a, struct block b)
{
    const int D = a->s.dim;
    struct online_softmax row[QUERIES];
    float p[QUERIES * KEYS], *out = a->out + b.q;
    for (int r = 0; r < b.rows; r++)
        row[r] = (struct online_softmax){-FLT_MAX, 0.0f};
    for (int l = 0; l < b.keys; l += KEYS) {
        const int n = keys_from(&b, l);
        times_turned(p, a->q + b.q, b.ld, a->k + b.k + (size_t)l * (size_t)a->ldk, a->ldk, a->scale, b.rows, n, D);
        for (int r = 0; r < b.rows; r++) {
            const float shrink = online_softmax_meet(&row[r], p + r * KEYS, n);
            if (l > 0 && shrink != 1.0f)
                simd_scale(out + (size_t)r * (size_t)b.ld, shrink, D);
        }
        times(out, b.ld, l > 0, p, a->v + b.v + (size_t)l * (size_t)a->ldv, a->ldv, 1.0f, b.rows, D, n);
    }
    for (int r = 0; r < b.rows; r++) {
        simd_scale(out + (size_t)r * (size_t)b.ld, 1.0f / row[r].sum, D);
        a->kept[b.kept + (size_t)r] = row[r].top + logf(row[r].sum);
    }
}

/* Item i is a sample, a head, and a block of its queries. */
static void attend_blocks(const void *arg, size_t from, size_t to)
{
    const struct attend_args *a = arg;
    const int blocks = (a->s.tokens + QUERIES - 1) / QUERIES;
    for (size_t i = from; i < to; i++) {
        const int head = (int)i / blocks;
        attend_block(a, block_at(a, head / a->s.heads, head % a->s.heads, (int)i % blocks * QUERIES));
    }
}

static void attend(void *out, float *kept, const void *q, const void *k, int ldk, const void *v,
                   int ldv, struct kern_keys t, struct kern_heads s)
{
    const struct attend_args a = {
        .out = out, .kept = kept, .q = q, .k = k, .v = v, .ldk = ldk, .ldv = ldv,
        .scale = 1.0f / sqrtf((float)s.dim), .t = t, .s = s,
    };
    const int blocks = (s.tokens + QUERIES - 1) / QUERIES;
    thread_pool_range((size_t)(s.batch * s.heads * blocks), 1, 2 * QUERIES * (size_t)t.most, attend_blocks, &a);
}

/* delta[r] = dout . out of a row, the term that softmax subtracts from the gradient of
 * each score. */
static void output_sums(float *delta, const struct attend_args *a, const struct block *b)
{
    const int D = a->s.dim;
    for (int r = 0; r < b->rows; r++) {
        const size_t at = b->q + (size_t)r * (size_t)b->ld;
        v16 sum = {0};
        for (int i = 0; i < D; i += LANES)
            sum += simd_load_at(a->dout + at, i, D) * simd_load_at(a->out_was + at, i, D);
        delta[r] = simd_sum(sum);
    }
}

/* add: to dk and dv, but for the first block of queries of these keys */
static void back_block(const struct attend_args *a, struct block b, bool add)
{
    const int D = a->s.dim;
    const float *q = a->q + b.q, *dout = a->dout + b.q;
    float p[QUERIES * KEYS], ds[QUERIES * KEYS], delta[QUERIES];
    output_sums(delta, a, &b);
    for (int l = 0; l < b.keys; l += KEYS) {
        const int n = keys_from(&b, l);
        const float *k = a->k + b.k + (size_t)l * (size_t)a->ldk;
        const float *v = a->v + b.v + (size_t)l * (size_t)a->ldv;
        const size_t dkv = b.dkv + (size_t)l * (size_t)a->lddkv;
        times_turned(p, q, b.ld, k, a->ldk, a->scale, b.rows, n, D);
        times_turned(ds, dout, b.ld, v, a->ldv, 1.0f, b.rows, n, D);
        for (int r = 0; r < b.rows; r++) {
            const float kept = a->kept_was[b.kept + (size_t)r];
            float *pr = p + r * KEYS, *dr = ds + r * KEYS;
            for (int i = 0; i < n; i += LANES) {
                const v16 e = simd_exp(simd_load_at(pr, i, n) - kept);
                simd_store_at(pr, i, n, e);
                simd_store_at(dr, i, n, e * (simd_load_at(dr, i, n) - delta[r]));
            }
        }
        turned_times(a->dv + dkv, a->lddkv, add, p, dout, b.ld, 1.0f, n, D, b.rows);
        times(a->dq + b.q, b.ld, true, ds, k, a->ldk, a->scale, b.rows, D, n);
        turned_times(a->dk + dkv, a->lddkv, add, ds, q, b.ld, a->scale, n, D, b.rows);
    }
}

/* Item i is a sample and a key head, with all query heads that share it. */
static void attend_back_heads(const void *arg, size_t from, size_t to)
{
    const struct attend_args *a = arg;
    const int serves = a->s.heads / a->t.heads;
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->t.heads, h0 = (int)i % a->t.heads * serves;
        for (int h = h0; h < h0 + serves; h++)
            for (int n = 0; n < a->s.tokens; n += QUERIES)
                back_block(a, block_at(a, b, h, n), h > h0 || n > 0);
    }
}

static void attend_back(void *dq, void *dk, void *dv, int lddkv, const void *dout, const void *out,
                        const float *kept, const void *q, const void *k, int ldk, const void *v,
                        int ldv, struct kern_keys t, struct kern_heads s)
{
    const struct attend_args a = {
        .dq = dq, .dk = dk, .dv = dv, .lddkv = lddkv, .dout = dout, .out_was = out,
        .kept_was = kept, .q = q, .k = k, .v = v, .ldk = ldk, .ldv = ldv,
        .scale = 1.0f / sqrtf((float)s.dim), .t = t, .s = s,
    };
    thread_pool_range((size_t)(s.batch * t.heads), 1, 4 * (size_t)s.tokens * (size_t)t.most, attend_back_heads, &a);
}

void KERN_FILL(attend)(struct kern_ops *ops)
{
    ops->attend = attend;
    ops->attend_back = attend_back;
}
