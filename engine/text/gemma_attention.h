/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_attention.h - causal attention of grouped heads with a soft cap and a window (gemma.h) */
#ifndef ENGINE_TEXT_GEMMA_ATTENTION_H
#define ENGINE_TEXT_GEMMA_ATTENTION_H

struct gemma_attention {
    float       *out;        /* batch x length x heads * dim */
    const float *q, *k, *v;  /* rows of heads * dim, and of kv_heads * dim */
    const float *mask;       /* batch x length */
    int          batch, length, heads, kv_heads, dim, window;
    float        scale, cap; /* cap 0, window 0: none */
};

/* On all cores. */
void gemma_attention_run(const struct gemma_attention *a);
/* Rotates `heads` heads of each row by its position; the tables have length x dim / 2 numbers. */
void gemma_attention_rotate(float *x, int batch, int length, int heads, int dim, const float *cosine,
                            const float *sine);

#endif
