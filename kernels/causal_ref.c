/* SPDX-License-Identifier: Apache-2.0 */
/* causal_ref.c - causal softmax attention of grouped heads, with a soft cap and a window
 *
 * Like attend_ref.c: a block of queries processes the keys block by block, with a running sum that is rescaled when a
 * larger score appears; the size of a product does not depend on the number of threads.
 */
#include <float.h>
#include <stdbool.h>

#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/online_softmax.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

/* A block of scores is 132 KiB: it stays in the L2 cache. Its rows are a multiple of a tile's. */
enum { QUERIES = 132, KEYS = 256 };

#define UNSEEN   (-FLT_MAX) /* a score whose exponential is 0 beside any other, */
#define NONE_YET (-1e30f)   /* and beside this largest score */

struct causal_args {
    float             *out;
    const float       *q, *k, *v, *mask;
    struct kern_causal s;
};

/* Queries [first, first + rows) of one head of one sample. */
struct queries {
    const float *q, *k, *v, *mask;
    float       *out;
    int          ld, ldk, rows, position; /* of the first query among the keys */
};

static struct queries queries_of(const struct causal_args *a, int sample, int head, int first)
{
    const struct kern_causal *s = &a->s;
    const size_t dim = (size_t)s->dim, ld = (size_t)s->heads * dim, ldk = (size_t)s->kv_heads * dim;
    const size_t at = ((size_t)sample * (size_t)s->queries + (size_t)first) * ld + (size_t)head * dim;
    const size_t key = (size_t)sample * (size_t)s->keys * ldk + (size_t)(head / (s->heads / s->kv_heads)) * dim;
    const float *mask = a->mask ? a->mask + (size_t)sample * (size_t)s->keys : NULL;
    const int left = s->queries - first;
    return (struct queries){a->q + at, a->k + key, a->v + key, mask, a->out + at,
                            (int)ld, (int)ldk, left < QUERIES ? left : QUERIES, s->keys - s->queries + first};
}

/* Scores of keys [key, key + n) for the query at `position`. */
static void hide(float *p, const struct queries *b, int position, int key, int n, int window)
{
    for (int i = 0; i < n; i++) {
        const int back = position - key - i;
        const bool seen = back >= 0 && (window == 0 || back < window) && b->mask[key + i] > 0;
        p[i] = seen ? p[i] : UNSEEN;
    }
}

static void soften(float *p, int n, float cap)
{
    for (int i = 0; i < n; i += LANES)
        simd_store_at(p, i, n, simd_tanh(simd_load_at(p, i, n) * (1.0f / cap)) * cap);
}

static void attend_keys(const struct causal_args *a, const struct queries *b, struct online_softmax *row, int key,
                        int n, bool first)
{
    const struct kern_causal *s = &a->s;
    float p[QUERIES * KEYS];
    const size_t ld = (size_t)b->ld, ldk = (size_t)b->ldk, at = (size_t)key * ldk;
    gemm_multiply(&(struct gemm_product){
        .y = p, .a = b->q, .b = b->k + at, .ldy = KEYS, .lda = ld, .ldb = ldk, .rows = b->rows, .cols = n,
        .depth = s->dim, .b_across = true, .near = true, .scale = s->scale,
    });
    for (int r = 0; r < b->rows; r++) {
        if (s->cap > 0)
            soften(p + r * KEYS, n, s->cap);
        if (!s->whole)
            hide(p + r * KEYS, b, b->position + r, key, n, s->window);
        const float shrink = online_softmax_meet(&row[r], p + r * KEYS, n);
        if (!first && shrink != 1.0f)
            simd_scale(b->out + (size_t)r * (size_t)b->ld, shrink, s->dim);
    }
    gemm_multiply(&(struct gemm_product){
        .y = b->out, .a = p, .b = b->v + at, .ldy = ld, .lda = KEYS, .ldb = ldk, .rows = b->rows, .cols = s->dim,
        .depth = n, .add = !first, .near = true,
    });
}

static void average(float *out, const struct queries *b, int keys, int dim)
{
    memset(out, 0, (size_t)dim * sizeof(*out));
    for (int j = 0; j < keys; j++)
        for (int i = 0; i < dim; i++)
            out[i] += b->v[(size_t)j * (size_t)b->ldk + (size_t)i];
    simd_scale(out, 1.0f / (float)keys, dim);
}

static void attend_block(const struct causal_args *a, const struct queries *b)
{
    const struct kern_causal *s = &a->s;
    struct online_softmax row[QUERIES];
    const int end = s->whole ? s->keys : b->position + b->rows;
    const int begin = !s->whole && s->window && b->position > s->window ? b->position - s->window : 0;
    for (int r = 0; r < b->rows; r++)
        row[r] = (struct online_softmax){NONE_YET, 0.0f};
    for (int key = begin, n; key < end; key += n) {
        n = end - key < KEYS ? end - key : KEYS;
        attend_keys(a, b, row, key, n, key == begin);
    }
    for (int r = 0; r < b->rows; r++) {
        float *out = b->out + (size_t)r * (size_t)b->ld;
        if (row[r].sum > 0)
            simd_scale(out, 1.0f / row[r].sum, s->dim);
        else
            average(out, b, s->keys, s->dim);
    }
}

/* Item i is a sample, a head, and a block of its queries. */
static void attend_blocks(const void *arg, size_t from, size_t to)
{
    const struct causal_args *a = arg;
    const int blocks = (a->s.queries + QUERIES - 1) / QUERIES;
    for (size_t i = from; i < to; i++) {
        const int head = (int)i / blocks;
        const struct queries b = queries_of(a, head / a->s.heads, head % a->s.heads, (int)i % blocks * QUERIES);
        attend_block(a, &b);
    }
}

static void attend_causal(float *out, const float *q, const float *k, const float *v, const float *mask,
                          const struct kern_causal *s)
{
    const struct causal_args a = {out, q, k, v, mask, *s};
    const int blocks = (s->queries + QUERIES - 1) / QUERIES, rows = s->queries < QUERIES ? s->queries : QUERIES;
    thread_pool_range((size_t)s->batch * (size_t)(s->heads * blocks), 1,
                      (size_t)rows * (size_t)s->keys * (size_t)s->dim, attend_blocks, &a);
}

/* --- positions --------------------------------------------------------------------------- */

struct turn_args {
    float       *x;
    const float *cosine, *sine;
    int          length, from, heads, dim;
};

static void turn_rows(const void *arg, size_t first, size_t last)
{
    const struct turn_args *a = arg;
    const size_t half = (size_t)a->dim / 2, heads = (size_t)a->heads;
    for (size_t row = first; row < last; row++) {
        const size_t at = ((size_t)a->from + row % (size_t)a->length) * half;
        const float *c = a->cosine + at, *s = a->sine + at;
        for (size_t head = 0; head < heads; head++) {
            float *x = a->x + (row * heads + head) * 2 * half, *y = x + half;
            for (size_t i = 0; i < half; i++) {
                const float u = x[i], v = y[i];
                x[i] = u * c[i] - v * s[i];
                y[i] = v * c[i] + u * s[i];
            }
        }
    }
}

static void turn_halves(float *x, const float *cosine, const float *sine, int batch, int length, int from, int heads,
                        int dim)
{
    const struct turn_args a = {x, cosine, sine, length, from, heads, dim};
    thread_pool_range((size_t)batch * (size_t)length, 1, (size_t)heads * (size_t)dim * 2, turn_rows, &a);
}

void KERN_FILL(causal)(struct kern_ops *ops)
{
    ops->attend_causal = attend_causal;
    ops->turn_halves = turn_halves;
}
