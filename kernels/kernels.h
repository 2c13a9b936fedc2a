/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - table of the engine's operations: formula, shapes and aliasing of each
 *
 * Pure arithmetic: no file, no log, no error return.  The model calls only
 * through a table; each device has its own.  Arrays come from
 * the table's own alloc() and live where its functions run; only upload() and
 * download() access host memory.  Calls run in order, but a call may
 * return before it has run: download() and sum_squares() wait.  state() reports
 * a failure; results after a failure are undefined.
 *
 * Arrays are row-major and of two kinds.  `float *` is fp32: the residual stream
 * and its gradient, per-sample values, sums, statistics, weights and the state
 * of the optimizer.  `void *` is narrow: inputs and outputs of matrix
 * products, `narrow` bytes per number, fp32 or bf16 as the table defines; sums over
 * narrow numbers are fp32.  Sizes are at least 1 unless stated; outputs may not
 * overlap inputs unless stated; "+=" adds to the output, "=" overwrites it.
 *
 * Rows: an activation is [rows, cols] with a leading dimension `ld` where it can
 * be part of a wider array.  Tokens of a batch are rows b * tokens + n.
 *
 * Sums run in a fixed order: the same call with the same number of threads always
 * gives the same bits.  The CPU functions are compiled once per instruction
 * set from the same source (kern_cpu_isa()).
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng;

/* An image batch [batch, height, width, channels] in depthwise(); in the patch functions the same
 * sizes mean [batch, channels, height, width]. */
struct kern_image {
    int batch, height, width, channels;
};

/* Heads of an attention: `heads` of `dim` channels, next to each other in a row. */
struct kern_heads {
    int batch, tokens, heads, dim;
};

/* Rotary positions of heads, see rope(): `real` and `imag`, [tokens, dim/2] each, are cosine and sine. */
struct kern_rope {
    const float      *real, *imag;
    struct kern_heads heads; /* dim is even */
};

/* Rows first, first + 1, ... of one picture [height, width, channels]: `x` is where row `first` begins. Outside of the
 * picture all pixels are 0; the rows inside that a call touches must be there. */
struct kern_rows {
    const float *x;
    int          first, height, width, channels;
};

/* A convolution with groups (only for a kernel of 1) of `in` and `out` channels, `pad` rows and columns of zeros before
 * the picture and as many as needed after it, then SiLU if `silu`. up: each pixel of the picture is first repeated 2 x
 * 2 (stride 1). */
struct kern_conv {
    int  in, out, kernel, stride, pad, groups;
    bool up, silu;
};

/* Caption tokens of a batch: those of sample b are rows first[b] to first[b + 1] - 1, at least one
 * and at most `most`; first NULL: each sample has `most`. mask: per row, 1 = real token. */
struct kern_text {
    const float *mask;
    const int   *first; /* [batch + 1], an array of the table */
    int          most;
};

/* Keys of a batch, for `heads` heads: those of sample b are rows first[b] to first[b + 1] - 1, at
 * least one and at most `most`; first NULL: each sample has `most`. */
struct kern_keys {
    const int *first; /* [batch + 1], an array of the table */
    int        most, heads;
};

/* Causal attention of grouped heads: the last `queries` of `keys` positions of each sample attend. */
struct kern_causal {
    int   batch, queries, keys, heads, kv_heads, dim;
    int   window;     /* keys that a query sees, itself the last; 0: all */
    float scale, cap; /* of scores; cap 0: none */
    bool  whole;      /* not causal: each query sees every key; no window, and mask is NULL */
};

/* Kept for the backward pass of linear attention ... */
struct kern_lin_attn {
    float *vk;   /* [batch, heads, dim + 1, dim]: sum over tokens of (v, 1)^T k */
    float *den;  /* [batch, heads, tokens]: the divisor, eps included; if the table keeps */
};

/* ... and of glumbconv(), both [batch*tokens, 2F]; unused by a table that does not keep. */
struct kern_glumbconv {
    void *s, *d; /* after SiLU, after the convolution */
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

/* An AdamW update that writes its results to other arrays. */
struct kern_adamw_move {
    float       *p, *m, *v;                /* output */
    const float *old_p, *old_m, *old_v, *g;
};

/* Floats of linear_bf16()'s work: so many threads at most, each with so many rows of weights as floats. */
enum { KERN_BF16_THREADS = 16, KERN_BF16_ROWS = 256 };
#define KERN_BF16_WORK(k) ((size_t)KERN_BF16_THREADS * KERN_BF16_ROWS * (size_t)(k))

/* Failure state of a table since it was opened. KERN_BROKEN: the device reports that its hardware failed; KERN_FAULT: a
 * call failed, as by an illegal memory access, which the program may have caused. */
enum kern_state { KERN_OK, KERN_NO_MEMORY, KERN_FAULT, KERN_BROKEN };

struct kern_ops {
    const char *name; /* "cpu-avx512", "cuda-bf16", ... */

    /* --- memory ------------------------------------------------------------------- */
    bool host; /* arrays are host memory: the process may read and write them in place */
    size_t narrow; /* bytes per number of a narrow array: 4 (fp32) or 2 (bf16) */
    /* Whether fused operations keep intermediate results for the backward pass instead of
     * recomputing them. If not, arrays documented as kept may be NULL. */
    bool keeps;
    void *(*alloc)(size_t bytes);   /* zeroed, 64-byte aligned; NULL: out of memory */
    void (*release)(void *p);       /* accepts NULL */
    /* `from` may be reused on return; if it is pinned (cuda.h), only after the next call that waits. */
    void (*upload)(void *to, const void *from, size_t bytes);
    void (*download)(void *to, const void *from, size_t bytes); /* waits for all earlier calls */
    /* Waits too. `why` gets a sentence (without full stop) unless KERN_OK. */
    enum kern_state (*state)(char *why, size_t size);
    /* Free and total bytes; false: unknown. NULL if arrays are host memory. */
    bool (*free_memory)(size_t *free_bytes, size_t *all);
    void (*zero)(float *y, size_t n);
    void (*copy)(float *y, const float *x, size_t n);
    void (*round)(void *y, const float *x, size_t n); /* x as a narrow array; y may be x */

    /* --- matrix products ---------------------------------------------------------- */
    /* y[m,n] = x[m,k] w[n,k]^T + b[n]; b may be NULL. */
    void (*linear)(void *y, const void *x, const void *w, const void *b, int m, int k, int n);
    void (*linear_wide)(float *y, const void *x, const void *w, const float *b, int m, int k, int n);
    /* dx[m,k] = dy[m,n] w[n,k] (dx may be NULL; dw too: then db has no effect);
     * dw[n,k] += dy^T x;  db[n] += column sums of dy (db may be NULL). */
    void (*linear_back)(void *dx, float *dw, float *db, const void *dy, const void *x,
                        const void *w, int m, int k, int n);
    /* The same with dx = keep * dx + dy w, keep 0 or 1. */
    void (*linear_back_wide)(float *dx, int keep, float *dw, float *db, const void *dy,
                             const void *x, const void *w, int m, int k, int n);

    /* y = x w^T for frozen weights of bf16, as they are in a file: on the CPU at any address, elsewhere an array of
     * the table. With narrow numbers of bf16, x is rounded. work: KERN_BF16_WORK(k) floats. */
    void (*linear_bf16)(float *y, const float *x, const void *w, float *work, int m, int k, int n);

    /* --- low-rank adapters --------------------------------------------------------- */
    /* y[m,n] += x[m,k] w[n,k]^T, rows of y of ldy */
    void (*linear_add)(void *y, int ldy, const void *x, const void *w, int m, int k, int n);
    /* dx[m,k] += dy[m,n] w[n,k] */
    void (*linear_back_add)(void *dx, const void *dy, const void *w, int m, int k, int n);
    /* y[m,n] = the first n columns of x, rows of ldx */
    void (*columns)(void *y, const void *x, int ldx, int m, int n);
    /* y = by * x; y may be x */
    void (*scale)(void *y, const void *x, float by, size_t n);
    /* y = half, numbers of bf16 whatever is narrow */
    void (*widen_bf16)(float *y, const void *half, size_t n);

    /* --- patches: p x p pixels are one token; token h * (W/p) + w ------------------- */
    /* tok[b*N + n][c*p*p + i*p + j] = img[b][c][h*p + i][w*p + j] */
    void (*patch_embed)(void *tok, const float *img, struct kern_image s, int p);
    /* img[b][c][h*p + i][w*p + j] = tok[b*N + n][(i*p + j)*channels + c], and back */
    void (*unpatchify)(float *img, const float *tok, struct kern_image s, int p);
    void (*patchify)(void *tok, const float *img, struct kern_image s, int p);

    /* --- pointwise; y may be x, dx may be dy -------------------------------------- */
    void (*silu)(void *y, const float *x, size_t n);                     /* x * sigmoid(x) */
    void (*silu_back)(void *dx, const void *dy, const float *x, size_t n);
    void (*gelu)(void *y, const void *x, size_t n);                      /* tanh form */
    void (*gelu_back)(void *dx, const void *dy, const void *x, size_t n);
    void (*add)(float *y, const float *a, const void *b, size_t n);      /* y may be a or b */
    /* emb[b] = cos(t f_0..f_k-1), sin(t f_0..f_k-1) with t truncated to an integer */
    void (*time_embed)(void *emb, const float *t, const float *freqs, int batch, int half);

    /* --- modulation: one row of `cols` per sample ----------------------------------- */
    /* mod[b][r][c] = table[r][c] + t[b*ldt + r*row + c];  row is cols, or 0 to share one row */
    void (*mod_add)(float *mod, const float *table, const float *t, int ldt, int row, int batch, int rows, int cols);
    /* dtable[r][c] += sum over b of dmod (dtable may be NULL);  dt[b*ldt + r*row + c] += dmod[b][r][c] */
    void (*mod_add_back)(float *dtable, float *dt, int ldt, int row, const float *dmod, int batch, int rows, int cols);
    /* y = x + gate[b*ldg + c] * a, tokens rows per sample, and `also` = y, narrow; y may be x,
     * also may be y */
    void (*gate)(float *y, void *also, const float *x, const float *gate, int ldg, const void *a,
                 int batch, int tokens, int cols);
    /* da = gate * dy;  dgate[b*ldg + c] = sum over tokens of dy * a */
    void (*gate_back)(void *da, float *dgate, const float *dy, const float *gate, int ldg,
                      const void *a, int batch, int tokens, int cols);

    /* --- norms -------------------------------------------------------------------- */
    /* h = LN(x) * (1 + scale[b*ldm + c]) + shift[b*ldm + c]; stats[row] = mean, 1/std */
    void (*norm_mod)(void *h, float *stats, const float *x, const float *shift,
                     const float *scale, int ldm, int batch, int tokens, int cols, float eps);
    /* dx += through LN;  dshift[b*ldm + c] = sum of dh;  dscale = sum of dh * LN(x) */
    void (*norm_mod_back)(float *dx, float *dshift, float *dscale, const void *dh, const float *x, const float *stats,
                          const float *scale, int ldm, int batch, int tokens, int cols);
    /* y = x + gate[b*ldg + c] * a (gate NULL: x + a), then norm_mod() of y. y may be x. */
    void (*gate_norm)(float *y, void *h, float *stats, const float *x, const float *gate, int ldg, const void *a,
                      const float *shift, const float *scale, int ldm, int batch, int tokens, int cols, float eps);
    /* norm_mod_back() with x = y, then gate_back() of its dx; with gate NULL da = dx, narrow, without dgate and a. da
     * may be dh; with gate NULL it may be dx. */
    void (*gate_norm_back)(float *dx, void *da, float *dgate, float *dshift, float *dscale, const void *dh,
                           const float *y, const float *stats, const float *scale, int ldm, const float *gate, int ldg,
                           const void *a, int batch, int tokens, int cols);
    /* y = x * rstd * w, rstd = 1/sqrt(mean(x^2) + eps) of a row; y may be x */
    void (*rms_norm)(void *y, int ldy, float *rstd, const void *x, int ldx, const float *w,
                     int rows, int cols, float eps);
    /* dx = through the norm (dx may be dy);  dw += sum over rows of dy * x * rstd (dw may be NULL) */
    void (*rms_norm_back)(void *dx, int lddx, float *dw, const void *dy, int lddy, const void *x,
                          int ldx, const float *rstd, const float *w, int rows, int cols);

    /* --- attention ---------------------------------------------------------------- */
    int lin_attn_dim, cross_attn_dim; /* the most channels that a head may have */
    /* q = relu(q), k = relu(k);  out = (v k^T q) / (1 k^T q + 1e-8). The call may overwrite q and k
     * with relu(q) and relu(k). */
    void (*lin_attn)(void *out, int ldo, struct kern_lin_attn keep, void *q, void *k, int ldqk,
                     const void *v, int ldv, struct kern_heads s);
    /* dq, dk, dv, with 0 where relu made q or k 0. Overwrites dout and what lin_attn() kept. */
    void (*lin_attn_back)(void *dq, void *dk, void *dv, int ldd, void *dout, int ldo,
                          const void *out, struct kern_lin_attn keep, const void *q, const void *k,
                          int ldqk, const void *v, int ldv, struct kern_heads s);
    /* prob[b,h,n,l] = softmax over l of (q k^T / sqrt(dim) + (mask[b,l] - 1) * 10000);
     * out = prob v.  q, out: [batch*tokens], ld heads*dim; k, v: rows of t, ldk, ldv.
     * kept: prob [heads, tokens, caption tokens] of each sample if the table keeps, else as for attend() */
    void (*cross_attn)(void *out, float *kept, const void *q, const void *k, int ldk,
                       const void *v, int ldv, struct kern_text t, struct kern_heads s);
    /* work: the size of the kept array */
    void (*cross_attn_back)(void *dq, void *dk, void *dv, int lddkv, float *work, const void *dout,
                            const float *kept, const void *q, const void *k, int ldk,
                            const void *v, int ldv, struct kern_text t, struct kern_heads s);

    /* --- the depthwise convolution and gate of the Mix-FFN -------------------------- */
    /* s = silu(u), d = depthwise(s), g = glu(d);  u: an image of 2F channels, g: of F */
    void (*glumbconv)(void *g, struct kern_glumbconv kept, const void *u, const float *w, const float *b,
                      struct kern_image s);
    /* du =;  dw +=, db += (both may be NULL).  work: the size of u; used if the table keeps */
    void (*glumbconv_back)(void *du, float *dw, float *db, void *work, const void *dg, const void *u,
                           struct kern_glumbconv kept, const float *w, const float *b, struct kern_image s);

    /* --- building blocks of fused operations; on the CPU, NULL elsewhere --------------- */
    /* 3x3 per channel, zero padding 1, w[c][3][3], on channels-last images */
    void (*depthwise)(float *y, const float *x, const float *w, const float *b, struct kern_image s);
    /* dx =;  dw +=, db += */
    void (*depthwise_back)(float *dx, float *dw, float *db, const float *dy, const float *x,
                           const float *w, struct kern_image s);
    /* of glu(): dx[m,2h] from dy[m,h] */
    void (*glu_back)(float *dx, const float *dy, const float *x, int rows, int half);

    /* --- of Next-DiT: gradients of frozen weights (dw, db, dgate of a head) may be NULL ----- */
    /* y = LN(x) w + b, stats[row] = mean, 1/std; y may be x */
    void (*layer_norm)(void *y, int ldy, float *stats, const void *x, int ldx, const float *w,
                       const float *b, int rows, int cols, float eps);
    /* dx (may be dy) through the norm; dw += sum of dy * (x - mean) / std; db += sum of dy */
    void (*layer_norm_back)(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x, int ldx,
                            const float *stats, const float *w, int rows, int cols);
    /* h = x rstd w (1 + scale[b*ldm + c]), rstd = 1/sqrt(mean(x^2) + eps) of a row, `tokens` rows
     * per sample */
    void (*rms_mod)(void *h, float *rstd, const float *x, const float *w, const float *scale,
                    int ldm, int batch, int tokens, int cols, float eps);
    /* dx += ; dw += ; dscale[b*ldm + c] = */
    void (*rms_mod_back)(float *dx, float *dw, float *dscale, const void *dh, const float *x, const float *rstd,
                         const float *w, const float *scale, int ldm, int batch, int tokens, int cols);
    /* y = x + tanh(gate[b*ldg + c]) * (a rstd w), rstd of a's row; y may be x */
    void (*rms_gate)(float *y, float *rstd, const float *x, const void *a, const float *w,
                     const float *gate, int ldg, int batch, int tokens, int cols, float eps);
    /* from dy: da = ; dw += ; dgate[b*ldg + c] = (the gradient of x is dy itself). da may be the
     * narrow copy of dy, not a. */
    void (*rms_gate_back)(void *da, float *dw, float *dgate, const float *dy, const void *a, const float *rstd,
                          const float *w, const float *gate, int ldg, int batch, int tokens, int cols);
    /* Channels 2m and 2m + 1 of each head, as a complex number, times real[n*dim/2 + m] +
     * i imag[...], cosine and sine of token n; with `back` times its conjugate. In place, rows of
     * ld; dim is even. */
    void (*rope)(void *x, int ld, const float *real, const float *imag, bool back, struct kern_heads s);
    /* y = rope(LN(x) w + b), rounded once: layer_norm() of batch*tokens rows of heads*dim columns, and rope() of its
     * result. y may be x */
    void (*layer_norm_rope)(void *y, int ldy, float *stats, const void *x, int ldx, const float *w, const float *b,
                            struct kern_rope r, float eps);
    /* layer_norm_back() of g = rope(dy, back), which is not rounded: dx (may be dy, with its ld) through the norm;
     * dw += sum of g * (x - mean) / std; db += sum of g */
    void (*layer_norm_rope_back)(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x,
                                 int ldx, const float *stats, const float *w, struct kern_rope r);
    /* out = softmax(q k^T / sqrt(dim)) v;  query head j with key head j / (heads / t.heads).
     * q, out: [batch*tokens], ld heads*dim;  k, v: rows of t.
     * kept: [batch, heads, tokens], the log of the sum of exponentials of a row */
    void (*attend)(void *out, float *kept, const void *q, const void *k, int ldk, const void *v,
                   int ldv, struct kern_keys t, struct kern_heads s);
    /* dq +=;  dk =, dv = (rows of t, lddkv). The probabilities are not stored: they are recomputed
     * block by block. */
    void (*attend_back)(void *dq, void *dk, void *dv, int lddkv, const void *dout, const void *out,
                        const float *kept, const void *q, const void *k, int ldk, const void *v,
                        int ldv, struct kern_keys t, struct kern_heads s);
    /* y = a + tanh(gate[h]) * c, rows of heads * dim; y may be a */
    void (*head_gate)(void *y, const void *a, const void *c, const float *gate, int rows, int heads, int dim);
    /* dc = tanh(gate[h]) dy; dgate[h] += sum of dy c (1 - tanh^2) (the gradient of a is dy). dc may
     * be c */
    void (*head_gate_back)(void *dc, float *dgate, const void *dy, const void *c,
                           const float *gate, int rows, int heads, int dim);
    /* y[r][c] = silu(u[r][c]) u[r][second + c]: a product with two weights as one matrix, whose second one
     * begins at row `second`, not below `cols`.  y, dy: [rows, cols];  u, du: [rows, second + cols].
     * du (may be u) is 0 in the columns between. */
    void (*swiglu)(void *y, const void *u, int rows, int cols, int second);
    void (*swiglu_back)(void *du, const void *dy, const void *u, int rows, int cols, int second);
    /* y[b][c] = mean of rows first[b] to first[b+1] of x (first NULL: `most` each) */
    void (*pool)(float *y, const float *x, const int *first, int most, int batch, int cols);
    /* time_embed() without truncating t */
    void (*time_embed_exact)(void *emb, const float *t, const float *freqs, int batch, int half);

    /* --- of text encoders -------------------------------------------------------------------- */
    /* attend() of floats, for the decoder of a text encoder; no backward pass. With narrow numbers of bf16, q, k, v and
     * probabilities are multiplied as bf16. A score s becomes cap tanh(s / cap).
     * Position i sees j <= i with mask[j] > 0 and i - j < window; one that sees nothing averages all keys.
     * q, out: [batch*queries, heads*dim];  k, v: [batch*keys, kv_heads*dim];  mask: [batch, keys]; dim: at most 512 */
    void (*attend_causal)(float *out, const float *q, const float *k, const float *v, const float *mask,
                          const struct kern_causal *s);
    /* Pairs (i, i + dim/2) of each head turn: row b * length + n of x stands at position from + n, whose angles are
     * row from + n of cosine and sine, [positions, dim/2]. In place. */
    void (*turn_halves)(float *x, const float *cosine, const float *sine, int batch, int length, int from, int heads,
                        int dim);
    /* y = gelu(a) b of floats; y may be a */
    void (*geglu)(float *y, const float *a, const float *b, size_t n);

    /* --- of image autoencoders: rows of a channels-last picture, all of fp32 -------------------- */
    /* Floats of the weights as conv() takes them, and of its scratch memory. With narrow numbers of bf16, weights are
     * kept and pixels multiplied as bf16. */
    size_t (*conv_size)(struct kern_conv c);
    size_t (*conv_work)(struct kern_conv c);
    /* w[groups * out][in][kernel][kernel] */
    void (*conv_pack)(float *to, const float *w, struct kern_conv c);
    /* Rows [from, to) of the result, [to - from, width, groups * out]; its height and width are those of the picture,
     * twice those if c.up, divided by c.stride. bias may be NULL. */
    void (*conv)(float *y, struct kern_rows x, struct kern_conv c, const float *packed, const float *bias, int from,
                 int to, float *work);
    /* Each channel on its own, kernel 3 or 5, zeros around the picture; w[kernel * kernel][channels]; bias or NULL */
    void (*depthwise_rows)(float *y, struct kern_rows x, int kernel, const float *w, const float *bias, int from,
                           int to);
    /* y = x / sqrt(mean(x^2) + eps) * w + b + add, of rows of `cols`, then relu if `relu`; b or add NULL: 0; y may be
     * x or add */
    void (*rms_rows)(float *y, const float *x, const float *add, const float *w, const float *b, size_t rows, int cols,
                     float eps, bool relu);
    /* sum[2g] += x, sum[2g + 1] += x^2 over the channels of group g */
    void (*group_sums)(double *sum, const float *x, size_t rows, int cols, int groups);
    /* y = x * scale[c] + shift[c], then SiLU if `silu`; y may be x */
    void (*scale_rows)(float *y, const float *x, const float *scale, const float *shift, size_t rows, int cols,
                       bool silu);
    /* kv: rows of ld, for each head `dim` keys and then `dim` values, dim at most 32;
     * total[h] += (v, 1)^T relu(k), [dim + 1, dim] */
    void (*lin_sums)(double *total, const float *kv, int ld, size_t rows, int heads, int dim);
    /* out = (v k^T relu(q)) / (1 k^T relu(q) + eps) with the sums of all rows */
    void (*lin_apply)(float *out, int ldo, const float *q, int ldq, const float *sums, size_t rows, int heads, int dim,
                      float eps);
    /* y[rows / 2, width / 2, out] += the means of 4 in / out neighbouring channels of x, 2 x 2 pixels as channels
     * c * 4 + dy * 2 + dx */
    void (*down_add)(float *y, const float *x, int rows, int width, int in, int out);
    /* y[2 rows, 2 width, out] += the channels of x, each 4 out / in times, as 2 x 2 pixels */
    void (*up_add)(float *y, const float *x, int rows, int width, int in, int out);
    /* y[rows, out] += the channels of x, each out / in times; or the means of in / out neighbouring ones */
    void (*spread_add)(float *y, const float *x, size_t rows, int in, int out);
    /* y[m,h] = a * silu(g), a = x[m, 0..h), g = x[m, h..2h) */
    void (*glu)(float *y, const float *x, int rows, int half);
    /* y = a + b of floats; y may be a or b */
    void (*add_rows)(float *y, const float *a, const float *b, size_t n);
    /* y = x, rounded */
    void (*to_floats)(float *y, const double *x, size_t n);
    /* Rows [from, to) of a picture [channels, height, width], channels last; and back */
    void (*planes_to_rows)(float *y, const float *planes, struct kern_image s, int from, int to);
    void (*rows_to_planes)(float *planes, const float *x, struct kern_image s, int from, int to);

    /* --- random numbers --------------------------------------------------------------- */
    /* y[b][i] = number first + i of the standard normal numbers of stream[b] (rng.h), i < n; bit for bit the same on
     * all devices. stream: [batch], an array of the table; it is read when the call runs. batch is at most 65,535. */
    void (*draw_normal)(float *y, const struct rng *stream, uint64_t first, int batch, size_t n);

    /* --- rectified flow ------------------------------------------------------------- */
    /* x_t = alpha[b] * x0 + sigma[b] * noise, n numbers per sample */
    void (*flow_noise)(float *x_t, const float *x0, const float *noise, const float *alpha,
                       const float *sigma, int batch, size_t n);
    /* e = (noise - x0) - out; per_sample[b] = mean e^2; dout = -2 e * weight / (batch n).
     * per_sample is an array of the table too. */
    void (*flow_loss)(double *per_sample, float *dout, const float *out, const float *x0,
                      const float *noise, double weight, int batch, size_t n);

    /* --- fixed-point sums, independent of order (fixed.h) ------------------------------- */
    /* sum[i] += x[i] * scale, to the nearest integer; scale is a power of two. *most = max of *most
     * and all |x[i]|; NaN counts as larger than any. most and total are arrays of the table. */
    void (*fixed_add)(int64_t *sum, float *most, const float *x, double scale, size_t n);
    /* to[i] += from[i] */
    void (*fixed_join)(int64_t *to, const int64_t *from, size_t n);
    /* y[i] = sum[i] * unit */
    void (*fixed_result)(float *y, const int64_t *sum, double unit, size_t n);
    /* *total += (sum of x^2 over a group) * scale, to the nearest integer, for all groups */
    void (*fixed_squares)(int64_t *total, const float *x, double scale, size_t n);

    /* --- optimizer ------------------------------------------------------------------ */
    double (*sum_squares)(const float *x, size_t n); /* waits */
    /* `also` = p, narrow; it may be p */
    void (*adamw)(float *p, void *also, float *m, float *v, const float *g, struct kern_adamw c, size_t n);
    void (*came)(float *p, void *also, struct kern_came_state s, const float *g, struct kern_came c, size_t n);
    /* ema = rate * ema + rest * p, rest = 1 - rate computed in double */
    void (*ema)(float *ema, const float *p, float rate, float rest, size_t n);

    /* --- CPU only ------------------------------------------------------------------------ */
    void (*adamw_move)(struct kern_adamw_move a, struct kern_adamw c, size_t n);
    uint64_t (*digest)(const void *bytes, size_t n, uint64_t seed); /* XXH3, 64 bits */
};

enum kern_isa { KERN_BASE, KERN_AVX2, KERN_AVX512, KERN_ISAS };

/* The table that $JOBCTL_CPU names, by default the widest that this processor runs
 * (kernels/processor.h); and the table of one instruction set, NULL if it does not run here. Both
 * are constant and need no release. */
const struct kern_ops *kern_cpu(void);
const struct kern_ops *kern_cpu_isa(enum kern_isa isa);

#endif
