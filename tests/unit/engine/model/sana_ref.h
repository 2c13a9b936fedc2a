/* SPDX-License-Identifier: Apache-2.0 */
/* sana_ref.h - reference implementation of SanaMS forward: naive, in double
 *
 * Written from the description of the model, not from the engine: loops over
 * tokens and channels, one array per value, no blocking, no sharing.  Weights
 * are found by the authors' names.
 */
#ifndef TESTS_SANA_REF_H
#define TESTS_SANA_REF_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/model/timestep_freqs.h"

struct ref {
    const struct model_config *c;
    const struct layout       *l;
    const double              *w; /* block of the layout, in double */
};

static inline double *ref_zeros(int rows, int cols)
{
    return calloc((size_t)rows * (size_t)cols, sizeof(double));
}

static inline const double *ref_w(const struct ref *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline const double *ref_w(const struct ref *r, const char *fmt, ...)
{
    char name[TENSOR_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    int i = layout_find(r->l, name);
    return i < 0 ? NULL : r->w + layout_at(r->l, i)->offset;
}

/* A new [m, n] = x [m, k] w[n, k]^T + b */
static inline double *ref_linear(const double *x, const double *w, const double *b, int m, int k, int n)
{
    double *y = ref_zeros(m, n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double s = b ? b[j] : 0;
            for (int l = 0; l < k; l++)
                s += x[i * k + l] * w[j * k + l];
            y[i * n + j] = s;
        }
    return y;
}

static inline double ref_silu(double x)
{
    return x / (1 + exp(-x));
}

static inline void ref_rms(double *x, const double *w, int rows, int cols, int ld, double eps)
{
    for (int r = 0; r < rows; r++) {
        double s = 0;
        for (int c = 0; c < cols; c++)
            s += x[r * ld + c] * x[r * ld + c];
        s = 1 / sqrt(s / cols + eps);
        for (int c = 0; c < cols; c++)
            x[r * ld + c] *= s * w[c];
    }
}

/* A new LN(x) (1 + scale) + shift; shift and scale by sample, [tokens] rows each. */
static inline double *ref_norm_mod(const double *x, const double *shift, const double *scale,
                                   int ld, int batch, int tokens, int C)
{
    double *h = ref_zeros(batch * tokens, C);
    for (int r = 0; r < batch * tokens; r++) {
        double mean = 0, var = 0;
        const int at = r / tokens * ld;
        for (int c = 0; c < C; c++)
            mean += x[r * C + c] / C;
        for (int c = 0; c < C; c++)
            var += (x[r * C + c] - mean) * (x[r * C + c] - mean) / C;
        for (int c = 0; c < C; c++)
            h[r * C + c] = (x[r * C + c] - mean) / sqrt(var + 1e-6) * (1 + scale[at + c]) +
                           shift[at + c];
    }
    return h;
}

static inline double *ref_linear_attention(const struct ref *r, const double *qkv, int batch, int tokens)
{
    const int C = r->c->hidden, hd = r->c->linear_head_dim;
    double *out = ref_zeros(batch * tokens, C);
    for (int b = 0; b < batch; b++)
        for (int n = 0; n < tokens; n++)
            for (int h = 0; h < C; h += hd) {
                const double *q = qkv + (b * tokens + n) * 3 * C + h;
                double den = 1e-8, *o = out + (b * tokens + n) * C + h;
                for (int m = 0; m < tokens; m++) {
                    const double *k = qkv + (b * tokens + m) * 3 * C + C + h, *v = k + C;
                    double s = 0;
                    for (int d = 0; d < hd; d++)
                        s += fmax(q[d], 0) * fmax(k[d], 0);
                    den += s;
                    for (int d = 0; d < hd; d++)
                        o[d] += s * v[d];
                }
                for (int d = 0; d < hd; d++)
                    o[d] /= den;
            }
    return out;
}

static inline double *ref_cross_attention(const struct ref *r, const double *q, const double *kv,
                                          const float *mask, int batch, int tokens, int text)
{
    const int C = r->c->hidden, dim = C / r->c->heads;
    double *out = ref_zeros(batch * tokens, C), *p = ref_zeros(1, text);
    for (int b = 0; b < batch; b++)
        for (int n = 0; n < tokens; n++)
            for (int h = 0; h < C; h += dim) {
                double sum = 0;
                for (int l = 0; l < text; l++) {
                    double s = 0;
                    for (int d = 0; d < dim; d++)
                        s += q[(b * tokens + n) * C + h + d] * kv[(b * text + l) * 2 * C + h + d];
                    p[l] = mask[b * text + l] != 0 ? exp(s / sqrt(dim)) : 0;
                    sum += p[l];
                }
                for (int l = 0; l < text; l++)
                    for (int d = 0; d < dim; d++)
                        out[(b * tokens + n) * C + h + d] +=
                            p[l] / sum * kv[(b * text + l) * 2 * C + C + h + d];
            }
    free(p);
    return out;
}

static inline double *ref_mlp(const struct ref *r, int i, const double *h, int batch, int rows, int cols)
{
    const int C = r->c->hidden, F = r->c->mlp_hidden, M = batch * rows * cols;
    const double *w = ref_w(r, "blocks.%d.mlp.depth_conv.conv.weight", i);
    const double *bias = ref_w(r, "blocks.%d.mlp.depth_conv.conv.bias", i);
    double *u = ref_linear(h, ref_w(r, "blocks.%d.mlp.inverted_conv.conv.weight", i),
                           ref_w(r, "blocks.%d.mlp.inverted_conv.conv.bias", i), M, C, 2 * F);
    double *d = ref_zeros(M, 2 * F), *g = ref_zeros(M, F);
    for (int k = 0; k < M * 2 * F; k++)
        u[k] = ref_silu(u[k]);
    for (int m = 0; m < M; m++)
        for (int c = 0; c < 2 * F; c++) {
            const int row = m / cols % rows, col = m % cols;
            double s = bias[c];
            for (int t = 0; t < 9; t++) {
                const int y = row + t / 3 - 1, x = col + t % 3 - 1;
                if (y >= 0 && y < rows && x >= 0 && x < cols)
                    s += w[c * 9 + t] *
                         u[((m / (rows * cols) * rows + y) * cols + x) * 2 * F + c];
            }
            d[m * 2 * F + c] = s;
        }
    for (int m = 0; m < M; m++)
        for (int c = 0; c < F; c++)
            g[m * F + c] = d[m * 2 * F + c] * ref_silu(d[m * 2 * F + F + c]);
    double *out = ref_linear(g, ref_w(r, "blocks.%d.mlp.point_conv.conv.weight", i), NULL, M, F, C);
    free(u);
    free(d);
    free(g);
    return out;
}

/* x += gate * a */
static inline void ref_residual(double *x, const double *gate, int ld, double *a, int batch, int tokens, int C)
{
    for (int r = 0; r < batch * tokens; r++)
        for (int c = 0; c < C; c++)
            x[r * C + c] += (gate ? gate[r / tokens * ld + c] : 1) * a[r * C + c];
    free(a);
}

static inline void ref_block(const struct ref *r, int i, double *x, const double *t0, const double *y,
                             const float *mask, int batch, int rows, int cols, int text)
{
    const int C = r->c->hidden, N = rows * cols, M = batch * N, ld = 6 * C;
    const double *table = ref_w(r, "blocks.%d.scale_shift_table", i);
    double *mod = ref_zeros(batch, ld);
    for (int k = 0; k < batch * ld; k++)
        mod[k] = table[k % ld] + t0[k];
    double *h = ref_norm_mod(x, mod, mod + C, ld, batch, N, C);
    double *qkv = ref_linear(h, ref_w(r, "blocks.%d.attn.qkv.weight", i), NULL, M, C, 3 * C);
    if (r->c->qk_norm) {
        ref_rms(qkv, ref_w(r, "blocks.%d.attn.q_norm.weight", i), M, C, 3 * C, 1e-5);
        ref_rms(qkv + C, ref_w(r, "blocks.%d.attn.k_norm.weight", i), M, C, 3 * C, 1e-5);
    }
    double *o = ref_linear_attention(r, qkv, batch, N);
    ref_residual(x, mod + 2 * C, ld,
                 ref_linear(o, ref_w(r, "blocks.%d.attn.proj.weight", i),
                            ref_w(r, "blocks.%d.attn.proj.bias", i), M, C, C), batch, N, C);
    free(h);
    free(qkv);
    free(o);
    double *q = ref_linear(x, ref_w(r, "blocks.%d.cross_attn.q_linear.weight", i),
                           ref_w(r, "blocks.%d.cross_attn.q_linear.bias", i), M, C, C);
    double *kv = ref_linear(y, ref_w(r, "blocks.%d.cross_attn.kv_linear.weight", i),
                            ref_w(r, "blocks.%d.cross_attn.kv_linear.bias", i), batch * text, C, 2 * C);
    if (r->c->cross_norm) {
        ref_rms(q, ref_w(r, "blocks.%d.cross_attn.q_norm.weight", i), M, C, C, 1e-6);
        ref_rms(kv, ref_w(r, "blocks.%d.cross_attn.k_norm.weight", i), batch * text, C, 2 * C, 1e-6);
    }
    o = ref_cross_attention(r, q, kv, mask, batch, N, text);
    ref_residual(x, NULL, 0,
                 ref_linear(o, ref_w(r, "blocks.%d.cross_attn.proj.weight", i),
                            ref_w(r, "blocks.%d.cross_attn.proj.bias", i), M, C, C), batch, N, C);
    free(q);
    free(kv);
    free(o);
    h = ref_norm_mod(x, mod + 3 * C, mod + 4 * C, ld, batch, N, C);
    ref_residual(x, mod + 5 * C, ld, ref_mlp(r, i, h, batch, rows, cols), batch, N, C);
    free(h);
    free(mod);
}

/* t [B, C]; the caller frees. */
static inline double *ref_timestep(const struct ref *r, const float *timestep, int batch)
{
    const int C = r->c->hidden;
    double *emb = ref_zeros(batch, 256);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < 128; i++) {
            const float angle = (float)(int)timestep[b] * timestep_freqs[i];
            emb[b * 256 + i] = cos((double)angle);
            emb[b * 256 + 128 + i] = sin((double)angle);
        }
    double *e = ref_linear(emb, ref_w(r, "t_embedder.mlp.0.weight"), ref_w(r, "t_embedder.mlp.0.bias"), batch, 256, C);
    for (int i = 0; i < batch * C; i++)
        e[i] = ref_silu(e[i]);
    double *t = ref_linear(e, ref_w(r, "t_embedder.mlp.2.weight"), ref_w(r, "t_embedder.mlp.2.bias"), batch, C, C);
    free(emb);
    free(e);
    return t;
}

/* y [B*L, C]; the caller frees. */
static inline double *ref_caption(const struct ref *r, const float *y, int rows)
{
    const int C = r->c->hidden, D = r->c->caption_channels;
    double *in = ref_zeros(rows, D);
    for (int i = 0; i < rows * D; i++)
        in[i] = (double)y[i];
    double *a = ref_linear(in, ref_w(r, "y_embedder.y_proj.fc1.weight"),
                           ref_w(r, "y_embedder.y_proj.fc1.bias"), rows, D, C);
    for (int i = 0; i < rows * C; i++)
        a[i] = 0.5 * a[i] * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (a[i] + 0.044715 * a[i] * a[i] * a[i])));
    double *out = ref_linear(a, ref_w(r, "y_embedder.y_proj.fc2.weight"),
                             ref_w(r, "y_embedder.y_proj.fc2.bias"), rows, C, C);
    if (r->c->y_norm)
        ref_rms(out, ref_w(r, "attention_y_norm.weight"), rows, C, C, (double)r->c->y_norm_eps);
    free(in);
    free(a);
    return out;
}

/* Tokens of an image, or an image of tokens: `channel_first` is the order in a token. */
static inline size_t ref_pixel(const struct model_config *c, const struct model_input *in, int b,
                               int k, int h, int w, int channel_first)
{
    const int p = c->patch, cols = in->width / p, N = in->height / p * cols;
    const int at = channel_first ? k * p * p + h % p * p + w % p
                                 : (h % p * p + w % p) * c->latent_channels + k;
    return (size_t)((b * N + h / p * cols + w / p) * c->latent_channels * p * p + at);
}

/* The final layer: tokens [B*N, P] from the residual stream. */
static inline double *ref_final(const struct ref *r, const double *x, const double *t, int batch, int N, int P)
{
    const int C = r->c->hidden;
    const double *table = ref_w(r, "final_layer.scale_shift_table");
    double *mod = ref_zeros(batch, 2 * C);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < 2 * C; i++)
            mod[b * 2 * C + i] = table[i] + t[b * C + i % C];
    double *h = ref_norm_mod(x, mod, mod + C, 2 * C, batch, N, C);
    double *o = ref_linear(h, ref_w(r, "final_layer.linear.weight"),
                           ref_w(r, "final_layer.linear.bias"), batch * N, C, P);
    free(mod);
    free(h);
    return o;
}

/* The output [B, channels, H, W]; the caller frees. */
static inline double *ref_forward(const struct ref *r, const struct model_input *in)
{
    const struct model_config *c = r->c;
    const int p = c->patch, C = c->hidden, P = c->latent_channels * p * p, B = in->batch;
    const int rows = in->height / p, cols = in->width / p, N = rows * cols;
    const int pixels = B * c->latent_channels * in->height * in->width;
    double *tok = ref_zeros(B * N, P), *out = ref_zeros(pixels, 1);
    for (int i = 0; i < pixels; i++)
        tok[ref_pixel(c, in, i / in->width / in->height / c->latent_channels,
                      i / in->width / in->height % c->latent_channels,
                      i / in->width % in->height, i % in->width, 1)] = (double)in->x[i];
    double *x = ref_linear(tok, ref_w(r, "x_embedder.proj.weight"), ref_w(r, "x_embedder.proj.bias"), B * N, P, C);
    double *t = ref_timestep(r, in->timestep, B), *ts = ref_zeros(B, C);
    for (int i = 0; i < B * C; i++)
        ts[i] = ref_silu(t[i]);
    double *t0 = ref_linear(ts, ref_w(r, "t_block.1.weight"), ref_w(r, "t_block.1.bias"), B, C, 6 * C);
    double *y = ref_caption(r, in->y, B * in->text);
    for (int i = 0; i < c->depth; i++)
        ref_block(r, i, x, t0, y, in->mask, B, rows, cols, in->text);
    double *o = ref_final(r, x, t, B, N, P);
    for (int i = 0; i < pixels; i++)
        out[i] = o[ref_pixel(c, in, i / in->width / in->height / c->latent_channels,
                             i / in->width / in->height % c->latent_channels,
                             i / in->width % in->height, i % in->width, 0)];
    free(tok);
    free(x);
    free(t);
    free(ts);
    free(t0);
    free(y);
    free(o);
    return out;
}

#endif
