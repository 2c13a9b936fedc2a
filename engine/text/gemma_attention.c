/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_attention.c - see gemma_attention.h */
#include "engine/text/gemma_attention.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/thread_pool.h"

/* One query: the sums of a softmax that is computed as keys come (Milakov, Gimelshein 2018). */
struct row {
    float most, sum;
    float *out;
};

static bool visible(const struct gemma_attention *a, const float *mask, int query, int key)
{
    return mask[key] > 0 && (!a->window || query - key < a->window);
}

static bool sees_any(const struct gemma_attention *a, const float *mask, int query)
{
    for (int key = 0; key <= query; key++)
        if (visible(a, mask, query, key))
            return true;
    return false;
}

static float score(const struct gemma_attention *a, const float *q, const float *k)
{
    float s = 0;
    for (int i = 0; i < a->dim; i++)
        s += q[i] * k[i];
    s *= a->scale;
    return a->cap > 0 ? a->cap * tanhf(s / a->cap) : s;
}

static void add_value(struct row *r, const float *v, float weight, int dim)
{
    r->sum += weight;
    for (int i = 0; i < dim; i++)
        r->out[i] += weight * v[i];
}

/* A larger score than before makes what has been added smaller. */
static void add_key(struct row *r, const float *v, float s, int dim)
{
    if (s > r->most) {
        const float shrink = expf(r->most - s);
        r->sum *= shrink;
        for (int i = 0; i < dim; i++)
            r->out[i] *= shrink;
        r->most = s;
    }
    add_value(r, v, expf(s - r->most), dim);
}

static void attend(const struct gemma_attention *a, int sample, int head, int query)
{
    const int group = head / (a->heads / a->kv_heads), stride = a->kv_heads * a->dim;
    const size_t at = ((size_t)sample * (size_t)a->length + (size_t)query) * (size_t)(a->heads * a->dim) +
                      (size_t)(head * a->dim);
    const float *mask = a->mask + (size_t)sample * (size_t)a->length;
    const float *k = a->k + (size_t)sample * (size_t)a->length * (size_t)stride + group * a->dim;
    const float *v = a->v + (k - a->k);
    const bool any = sees_any(a, mask, query);
    struct row r = {-INFINITY, 0, a->out + at};
    for (int i = 0; i < a->dim; i++)
        r.out[i] = 0;
    for (int key = 0; key < a->length; key++)
        if (!any)
            add_value(&r, v + (size_t)key * (size_t)stride, 1, a->dim);
        else if (key <= query && visible(a, mask, query, key))
            add_key(&r, v + (size_t)key * (size_t)stride, score(a, a->q + at, k + (size_t)key * (size_t)stride),
                    a->dim);
    for (int i = 0; i < a->dim; i++)
        r.out[i] /= r.sum;
}

static void run_range(const void *arg, size_t from, size_t to)
{
    const struct gemma_attention *a = arg;
    for (size_t i = from; i < to; i++)
        attend(a, (int)(i / (size_t)(a->heads * a->length)), (int)(i / (size_t)a->length) % a->heads,
               (int)(i % (size_t)a->length));
}

void gemma_attention_run(const struct gemma_attention *a)
{
    thread_pool_range((size_t)a->batch * (size_t)(a->heads * a->length), 1, (size_t)(a->length * a->dim), run_range, a);
}

void gemma_attention_rotate(float *x, int batch, int length, int heads, int dim, const float *cosine,
                            const float *sine)
{
    const int half = dim / 2;
    for (int row = 0; row < batch * length; row++)
        for (int head = 0; head < heads; head++, x += dim)
            for (int i = 0; i < half; i++) {
                const float c = cosine[row % length * half + i], s = sine[row % length * half + i];
                const float a = x[i], b = x[i + half];
                x[i] = a * c - b * s;
                x[i + half] = b * c + a * s;
            }
}
