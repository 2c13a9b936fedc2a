/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - every operation of the engine once: formula, shapes, what may alias
 *
 * Numbers in, numbers out: no file, no log, no failure.  The model calls only
 * through a table, so that another device is another table.  Arrays come from
 * the table's own alloc() and live where its functions run; only upload() and
 * download() know this process's memory.  Calls run in order, but one may
 * return before it has run: download() and sum_squares() wait.  What failed on
 * the way is told by state(), and from then on results mean nothing.
 *
 * All arrays are fp32 and row-major; sizes are at least 1 unless said; outputs may not overlap
 * inputs unless said; "+=" adds to what is there, "=" overwrites it.
 *
 * Rows: an activation is [rows, cols] with a leading dimension `ld` where it can
 * be part of a wider one.  Tokens of a batch are rows b * tokens + n.
 *
 * Sums run in a fixed order: the same call with the same number of threads gives
 * the same bits, always.  The CPU functions are compiled once per instruction
 * set from the same source (kern_cpu_isa()).
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An image batch [batch, height, width, channels] in depthwise(), and the same
 * sizes of [batch, channels, height, width] in the patch functions. */
struct kern_image {
    int batch, height, width, channels;
};

/* Heads of an attention: `heads` of `dim` channels, next to each other in a row. */
struct kern_heads {
    int batch, tokens, heads, dim;
};

/* What linear attention keeps for its backward pass. */
struct kern_lin_attn {
    float *vk;   /* [batch, heads, dim + 1, dim]: sum over tokens of (v, 1)^T k */
    float *den;  /* [batch, tokens, heads]: the divisor, eps included */
};

/* rest = 1 - beta, computed in double: in float it would be off by 5e-5 for 0.999. */
struct kern_adamw {
    float beta1, rest1, beta2, rest2, eps;
    float decay;   /* 1 - lr * weight_decay */
    float step;    /* lr / (1 - beta1^k) */
    float root;    /* 1 / sqrt(1 - beta2^k) */
    float clip;    /* multiplies the gradient first */
};

struct kern_came {
    float beta1, rest1, beta2, rest2, beta3, rest3, eps1, eps2;
    float lr, decay, threshold;
    float clip;    /* multiplies the gradient first */
};

/* CAME's state of one tensor. Factored: rows and cols > 0, and all but `v` used;
 * else only m and v. `work` holds as many floats as the tensor. */
struct kern_came_state {
    int    rows, cols;
    float *m, *v, *row, *col, *res_row, *res_col, *work;
};

/* What a table has met since it was opened. */
enum kern_state { KERN_OK, KERN_NO_MEMORY, KERN_FAULT };

struct kern_ops {
    const char *name; /* "cpu-avx512", "cuda-bf16", ... */

    /* --- memory ------------------------------------------------------------------- */
    bool host; /* arrays are this process's memory: it may read and write them in place */
    void *(*alloc)(size_t bytes);   /* zeroed, 64-byte aligned; NULL: no room */
    void (*release)(void *p);       /* NULL too */
    void (*upload)(void *to, const void *from, size_t bytes);   /* `from` is free at once */
    void (*download)(void *to, const void *from, size_t bytes); /* waits for all calls before */
    /* Waits as well. `why` gets a sentence (without full stop) unless KERN_OK. */
    enum kern_state (*state)(char *why, size_t size);
    /* Bytes free and in all; false: not known. NULL where arrays are this process's memory. */
    bool (*room)(size_t *free_bytes, size_t *all);
    void (*zero)(float *y, size_t n);
    void (*copy)(float *y, const float *x, size_t n);

    /* --- matrix products ---------------------------------------------------------- */
    /* y[m,n] = x[m,k] w[n,k]^T + b[n]; b may be NULL. */
    void (*linear)(float *y, const float *x, const float *w, const float *b, int m, int k, int n);
    /* dx[m,k] = keep * dx + dy[m,n] w[n,k] (dx may be NULL; keep is 0 or 1);
     * dw[n,k] += dy^T x;  db[n] += column sums of dy (db may be NULL). */
    void (*linear_back)(float *dx, int keep, float *dw, float *db, const float *dy,
                        const float *x, const float *w, int m, int k, int n);

    /* --- patches: p x p pixels are one token; token h * (W/p) + w ------------------- */
    /* tok[b*N + n][c*p*p + i*p + j] = img[b][c][h*p + i][w*p + j] */
    void (*patch_embed)(float *tok, const float *img, struct kern_image s, int p);
    /* img[b][c][h*p + i][w*p + j] = tok[b*N + n][(i*p + j)*channels + c], and back */
    void (*unpatchify)(float *img, const float *tok, struct kern_image s, int p);
    void (*patchify)(float *tok, const float *img, struct kern_image s, int p);

    /* --- pointwise; y may be x, dx may be dy -------------------------------------- */
    void (*silu)(float *y, const float *x, size_t n);                    /* x * sigmoid(x) */
    void (*silu_back)(float *dx, const float *dy, const float *x, size_t n);
    void (*gelu)(float *y, const float *x, size_t n);                    /* tanh form */
    void (*gelu_back)(float *dx, const float *dy, const float *x, size_t n);
    void (*add)(float *y, const float *a, const float *b, size_t n);     /* y may be a or b */
    /* y[i,j] = max(x[i,j], 0) */
    void (*relu)(float *y, int ldy, const float *x, int ldx, int rows, int cols);
    /* y[m,h] = a * silu(g), a = x[m, 0..h), g = x[m, h..2h);  dx[m,2h] from dy[m,h] */
    void (*glu)(float *y, const float *x, int rows, int half);
    void (*glu_back)(float *dx, const float *dy, const float *x, int rows, int half);
    /* emb[b] = cos(t f_0..f_k-1), sin(t f_0..f_k-1) with t truncated to an integer */
    void (*time_embed)(float *emb, const float *t, const float *freqs, int batch, int half);

    /* --- modulation: one row of `cols` per sample ----------------------------------- */
    /* mod[b][r][c] = table[r][c] + t[b*ldt + r*row + c];  row is cols, or 0 to share one row */
    void (*mod_add)(float *mod, const float *table, const float *t, int ldt, int row, int batch,
                    int rows, int cols);
    /* dtable[r][c] += sum over b of dmod;  dt[b*ldt + r*row + c] += dmod[b][r][c] */
    void (*mod_add_back)(float *dtable, float *dt, int ldt, int row, const float *dmod, int batch,
                         int rows, int cols);
    /* y = x + gate[b*ldg + c] * a, tokens rows per sample; y may be x */
    void (*gate)(float *y, const float *x, const float *gate, int ldg, const float *a, int batch,
                 int tokens, int cols);
    /* da = gate * dy;  dgate[b*ldg + c] = sum over tokens of dy * a */
    void (*gate_back)(float *da, float *dgate, const float *dy, const float *gate, int ldg,
                      const float *a, int batch, int tokens, int cols);

    /* --- norms -------------------------------------------------------------------- */
    /* h = LN(x) * (1 + scale[b*ldm + c]) + shift[b*ldm + c]; stats[row] = mean, 1/std */
    void (*norm_mod)(float *h, float *stats, const float *x, const float *shift,
                     const float *scale, int ldm, int batch, int tokens, int cols, float eps);
    /* dx += through LN;  dshift[b*ldm + c] = sum of dh;  dscale = sum of dh * LN(x) */
    void (*norm_mod_back)(float *dx, float *dshift, float *dscale, const float *dh,
                          const float *x, const float *stats, const float *scale, int ldm,
                          int batch, int tokens, int cols);
    /* y = x * rstd * w, rstd = 1/sqrt(mean(x^2) + eps) of a row; y may be x */
    void (*rms_norm)(float *y, int ldy, float *rstd, const float *x, int ldx, const float *w,
                     int rows, int cols, float eps);
    /* dx = through the norm (dx may be dy);  dw += sum over rows of dy * x * rstd */
    void (*rms_norm_back)(float *dx, int lddx, float *dw, const float *dy, int lddy,
                          const float *x, int ldx, const float *rstd, const float *w, int rows,
                          int cols);

    /* --- attention ---------------------------------------------------------------- */
    int lin_attn_dim; /* the most channels that a head of lin_attn() may have */
    /* q and k are after ReLU (values >= 0). out = (v k^T q) / (1 k^T q + 1e-8). */
    void (*lin_attn)(float *out, int ldo, struct kern_lin_attn keep, const float *q,
                     const float *k, int ldqk, const float *v, int ldv, struct kern_heads s);
    /* dq, dk, dv with the ReLU's gradient applied to dq and dk (0 where q or k is 0).
     * Uses up dout and what lin_attn() kept. */
    void (*lin_attn_back)(float *dq, float *dk, float *dv, int ldd, float *dout, int ldo,
                          const float *out, struct kern_lin_attn keep, const float *q,
                          const float *k, int ldqk, const float *v, int ldv,
                          struct kern_heads s);
    /* prob[b,h,n,l] = softmax over l of (q k^T / sqrt(dim) + (mask[b,l] - 1) * 10000);
     * out = prob v.  q, out: [batch*tokens], ld heads*dim; k, v: [batch*text], ldk, ldv. */
    void (*cross_attn)(float *out, float *prob, const float *q, const float *k, int ldk,
                       const float *v, int ldv, const float *mask, int text,
                       struct kern_heads s);
    /* work: [batch, heads, tokens, text] */
    void (*cross_attn_back)(float *dq, float *dk, float *dv, int lddkv, float *work,
                            const float *dout, const float *prob, const float *q, const float *k,
                            int ldk, const float *v, int ldv, int text, struct kern_heads s);

    /* --- convolution -------------------------------------------------------------- */
    /* 3x3 per channel, zero padding 1, w[c][3][3], on channels-last images */
    void (*depthwise)(float *y, const float *x, const float *w, const float *b,
                      struct kern_image s);
    /* dx =;  dw +=, db += */
    void (*depthwise_back)(float *dx, float *dw, float *db, const float *dy, const float *x,
                           const float *w, struct kern_image s);

    /* --- rectified flow ------------------------------------------------------------- */
    /* x_t = alpha[b] * x0 + sigma[b] * noise, n numbers per sample */
    void (*flow_noise)(float *x_t, const float *x0, const float *noise, const float *alpha,
                       const float *sigma, int batch, size_t n);
    /* e = (noise - x0) - out; per_sample[b] = mean e^2; dout = -2 e * weight / (batch n).
     * per_sample is an array of the table, too. */
    void (*flow_loss)(double *per_sample, float *dout, const float *out, const float *x0,
                      const float *noise, double weight, int batch, size_t n);

    /* --- optimizer ------------------------------------------------------------------ */
    double (*sum_squares)(const float *x, size_t n); /* waits */
    void (*adamw)(float *p, float *m, float *v, const float *g, struct kern_adamw c, size_t n);
    void (*came)(float *p, struct kern_came_state s, const float *g, struct kern_came c,
                 size_t n);
    /* ema = rate * ema + rest * p, rest = 1 - rate computed in double */
    void (*ema)(float *ema, const float *p, float rate, float rest, size_t n);
};

enum kern_isa { KERN_BASE, KERN_AVX2, KERN_AVX512, KERN_ISAS };

/* The best table this processor can run; and that of one instruction set, NULL
 * where it was not built or cannot run. Both are constant and need no release. */
const struct kern_ops *kern_cpu(void);
const struct kern_ops *kern_cpu_isa(enum kern_isa isa);

#endif
