/* SPDX-License-Identifier: Apache-2.0 */
/* gemma.c - see gemma.h */
#include "engine/text/gemma.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/text/gemma_attention.h"
#include "kernels/kernels.h"

/* --- configuration ----------------------------------------------------------------------- */

static int positive(int *out, const json_t *config, const char *key, struct err *err)
{
    const json_int_t v = json_integer_value(json_object_get(config, key));
    if (v < 1 || v > 1 << 24)
        return err_set(err, ERR_DATA, "the configuration of the text encoder has no %s above 0", key);
    *out = (int)v;
    return 0;
}

static double number(const json_t *config, const char *key, double otherwise)
{
    const json_t *v = json_object_get(config, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

int gemma_config_parse(struct gemma_config *out, int version, const json_t *config, struct err *err)
{
    struct gemma_config c = {.version = version};
    if (positive(&c.vocab, config, "vocab_size", err) < 0 || positive(&c.hidden, config, "hidden_size", err) < 0 ||
        positive(&c.intermediate, config, "intermediate_size", err) < 0 ||
        positive(&c.layers, config, "num_hidden_layers", err) < 0 ||
        positive(&c.heads, config, "num_attention_heads", err) < 0 ||
        positive(&c.kv_heads, config, "num_key_value_heads", err) < 0 ||
        positive(&c.head_dim, config, "head_dim", err) < 0)
        return -1;
    if (c.heads % c.kv_heads || c.head_dim % 2)
        return err_set(err, ERR_DATA, "num_attention_heads %d is no multiple of num_key_value_heads %d, or head_dim %d "
                       "is odd", c.heads, c.kv_heads, c.head_dim);
    c.eps = number(config, "rms_norm_eps", 1e-6);
    c.theta = number(config, "rope_theta", 10000);
    const double scalar = version == 2 ? number(config, "query_pre_attn_scalar", c.head_dim) : c.head_dim;
    c.scale = 1 / sqrt(scalar);
    c.cap = version == 2 ? number(config, "attn_logit_softcapping", 0) : 0;
    c.window = version == 2 ? (int)number(config, "sliding_window", 0) : 0;
    *out = c;
    return 0;
}

/* --- one run ----------------------------------------------------------------------------- */

struct run {
    const struct gemma_config  *cfg;
    const struct gemma_weights *weights;
    const struct gemma_input   *in;
    struct err                 *err;
    size_t                      rows;
    float *h, *x, *q, *k, *v, *a, *gate, *up, *cosine, *sine, *scratch;
};

static size_t max_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* One block for all arrays; the caller frees r->h. */
static int reserve(struct run *r)
{
    const struct gemma_config *c = r->cfg;
    const size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    const size_t hidden = (size_t)c->hidden, wide = (size_t)c->intermediate;
    const size_t table = (size_t)r->in->length * (size_t)c->head_dim / 2;
    const size_t matrix = hidden * max_of(max_of(wide, q), 1);
    const size_t n = r->rows * (2 * hidden + 2 * q + 2 * kv + 2 * wide) + 2 * table + matrix;
    if (!(r->h = malloc(n * sizeof(float))))
        return err_set(r->err, ERR_MEMORY, "no memory for a text encoder: %zu bytes", n * sizeof(float));
    r->x = r->h + r->rows * hidden;
    r->q = r->x + r->rows * hidden;
    r->a = r->q + r->rows * q;
    r->k = r->a + r->rows * q;
    r->v = r->k + r->rows * kv;
    r->gate = r->v + r->rows * kv;
    r->up = r->gate + r->rows * wide;
    r->cosine = r->up + r->rows * wide;
    r->sine = r->cosine + table;
    r->scratch = r->sine + table;
    return 0;
}

/* Angles in floats, as the authors have them. */
static void make_tables(struct run *r)
{
    const int half = r->cfg->head_dim / 2;
    for (int i = 0; i < half; i++) {
        const float step = (float)(1 / pow(r->cfg->theta, 2.0 * i / r->cfg->head_dim));
        for (int at = 0; at < r->in->length; at++) {
            r->cosine[at * half + i] = cosf((float)at * step);
            r->sine[at * half + i] = sinf((float)at * step);
        }
    }
}

static const float *weight(struct run *r, int layer, const char *name, size_t count)
{
    char full[96];
    if (layer < 0)
        snprintf(full, sizeof(full), "%s.weight", name);
    else
        snprintf(full, sizeof(full), "layers.%d.%s.weight", layer, name);
    return r->weights->tensor(r->weights->arg, full, count, r->scratch, r->err);
}

/* y = x W^T */
static int product(struct run *r, int layer, const char *name, float *y, const float *x, int k, int n)
{
    const float *w = weight(r, layer, name, (size_t)k * (size_t)n);
    if (!w)
        return -1;
    kern_cpu()->linear(y, x, w, NULL, (int)r->rows, k, n);
    return 0;
}

/* y = x / sqrt(mean(x^2) + eps) * (1 + w), of rows of `hidden`; y may be x. */
static int norm(struct run *r, int layer, const char *name, float *y, const float *x)
{
    const int n = r->cfg->hidden;
    const float *w = weight(r, layer, name, (size_t)n);
    if (!w)
        return -1;
    for (size_t row = 0; row < r->rows; row++, x += n, y += n) {
        double squares = 0;
        for (int i = 0; i < n; i++)
            squares += (double)x[i] * x[i];
        const float scale = (float)(1 / sqrt(squares / n + r->cfg->eps));
        for (int i = 0; i < n; i++)
            y[i] = x[i] * scale * (1 + w[i]);
    }
    return 0;
}

static void add(struct run *r, const float *x)
{
    for (size_t i = 0; i < r->rows * (size_t)r->cfg->hidden; i++)
        r->h[i] += x[i];
}

static int attention(struct run *r, int layer)
{
    const struct gemma_config *c = r->cfg;
    const int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    if (norm(r, layer, "input_layernorm", r->x, r->h) < 0 ||
        product(r, layer, "self_attn.q_proj", r->q, r->x, c->hidden, q) < 0 ||
        product(r, layer, "self_attn.k_proj", r->k, r->x, c->hidden, kv) < 0 ||
        product(r, layer, "self_attn.v_proj", r->v, r->x, c->hidden, kv) < 0)
        return -1;
    gemma_attention_rotate(r->q, r->in->batch, r->in->length, c->heads, c->head_dim, r->cosine, r->sine);
    gemma_attention_rotate(r->k, r->in->batch, r->in->length, c->kv_heads, c->head_dim, r->cosine, r->sine);
    gemma_attention_run(&(struct gemma_attention){
        .out = r->a, .q = r->q, .k = r->k, .v = r->v, .mask = r->in->mask, .batch = r->in->batch,
        .length = r->in->length, .heads = c->heads, .kv_heads = c->kv_heads, .dim = c->head_dim,
        .window = layer % 2 == 0 ? c->window : 0, .scale = (float)c->scale, .cap = (float)c->cap});
    if (product(r, layer, "self_attn.o_proj", r->x, r->a, q, c->hidden) < 0 ||
        (c->version == 2 && norm(r, layer, "post_attention_layernorm", r->x, r->x) < 0))
        return -1;
    add(r, r->x);
    return 0;
}

/* gelu(gate) * up */
static void multiply(struct run *r)
{
    const size_t n = r->rows * (size_t)r->cfg->intermediate;
    kern_cpu()->gelu(r->gate, r->gate, n);
    for (size_t i = 0; i < n; i++)
        r->gate[i] *= r->up[i];
}

static int feed_forward(struct run *r, int layer)
{
    const struct gemma_config *c = r->cfg;
    const char *before = c->version == 2 ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    if (norm(r, layer, before, r->x, r->h) < 0 ||
        product(r, layer, "mlp.gate_proj", r->gate, r->x, c->hidden, c->intermediate) < 0 ||
        product(r, layer, "mlp.up_proj", r->up, r->x, c->hidden, c->intermediate) < 0)
        return -1;
    multiply(r);
    if (product(r, layer, "mlp.down_proj", r->x, r->gate, c->intermediate, c->hidden) < 0 ||
        (c->version == 2 && norm(r, layer, "post_feedforward_layernorm", r->x, r->x) < 0))
        return -1;
    add(r, r->x);
    return 0;
}

static int embed(struct run *r)
{
    const size_t hidden = (size_t)r->cfg->hidden;
    const float scale = (float)sqrt((double)hidden);
    for (size_t row = 0; row < r->rows; row++) {
        float *h = r->h + row * hidden;
        if (r->weights->row(r->weights->arg, "embed_tokens.weight", (size_t)r->cfg->vocab, hidden,
                            (size_t)r->in->id[row], h, r->err) < 0)
            return -1;
        for (size_t i = 0; i < hidden; i++)
            h[i] *= scale;
    }
    return 0;
}

static int check_ids(const struct run *r)
{
    for (size_t i = 0; i < r->rows; i++)
        if (r->in->id[i] < 0 || r->in->id[i] >= r->cfg->vocab)
            return err_set(r->err, ERR_USAGE, "token %d is not in the text encoder's vocabulary of %d", r->in->id[i],
                           r->cfg->vocab);
    return 0;
}

static int run_layers(struct run *r, const struct gemma_output *out)
{
    const size_t bytes = r->rows * (size_t)r->cfg->hidden * sizeof(float);
    for (int i = 0; i < r->cfg->layers; i++) {
        const bool last = i == r->cfg->layers - 1;
        if (out->hidden)
            out->hidden(out->arg, i, r->h);
        if (last && out->before_last)
            memcpy(out->before_last, r->h, bytes);
        if (last && !out->last)
            return 0;
        if (attention(r, i) < 0 || feed_forward(r, i) < 0)
            return -1;
    }
    return norm(r, -1, "norm", out->last, r->h);
}

int gemma_run(const struct gemma_config *cfg, const struct gemma_weights *weights, const struct gemma_input *in,
              const struct gemma_output *out, struct err *err)
{
    struct run r = {.cfg = cfg, .weights = weights, .in = in, .err = err,
                    .rows = (size_t)in->batch * (size_t)in->length};
    if (check_ids(&r) < 0 || reserve(&r) < 0)
        return -1;
    make_tables(&r);
    const int rc = embed(&r) < 0 ? -1 : run_layers(&r, out);
    free(r.h);
    return rc;
}
