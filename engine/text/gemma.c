/* SPDX-License-Identifier: Apache-2.0 */
/* gemma.c - see gemma.h */
#include "engine/text/gemma.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/text/gemma_rotary.h"
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
        return err_set(err, ERR_DATA, "num_attention_heads %d is not a multiple of num_key_value_heads %d, or head_dim "
                       "%d is odd", c.heads, c.kv_heads, c.head_dim);
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
    int                         before, keys; /* positions of the prefix; with those behind */
    float *h, *x, *q, *k, *v, *a, *gate, *up, *cosine, *sine, *mask, *all_k, *all_v, *scratch, *work;
};

static size_t max_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t gemma_prefix_floats(const struct gemma_config *cfg, int length)
{
    return (size_t)cfg->layers * (size_t)length * (size_t)cfg->kv_heads * (size_t)cfg->head_dim;
}

/* For products of each of the three widths. */
static size_t work_floats(const struct gemma_config *c)
{
    return max_of(max_of(KERN_BF16_WORK(c->hidden), KERN_BF16_WORK(c->intermediate)),
                  KERN_BF16_WORK(c->heads * c->head_dim));
}

/* Matrices of floats from elsewhere need room for one; those of bf16 none. */
static size_t scratch_floats(const struct run *r)
{
    const struct gemma_config *c = r->cfg;
    const size_t hidden = (size_t)c->hidden, q = (size_t)c->heads * (size_t)c->head_dim;
    return r->weights->in_place ? hidden : hidden * max_of((size_t)c->intermediate, q);
}

/* One block for all arrays; the caller frees r->h. */
static int reserve(struct run *r)
{
    const struct gemma_config *c = r->cfg;
    const size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    const size_t table = (size_t)r->keys * (size_t)c->head_dim / 2, all = (size_t)r->in->batch * (size_t)r->keys;
    const struct {
        float **array;
        size_t  n;
    } parts[] = {{&r->h, r->rows * (size_t)c->hidden}, {&r->x, r->rows * (size_t)c->hidden}, {&r->q, r->rows * q},
                 {&r->a, r->rows * q}, {&r->k, r->rows * kv}, {&r->v, r->rows * kv},
                 {&r->gate, r->rows * (size_t)c->intermediate}, {&r->up, r->rows * (size_t)c->intermediate},
                 {&r->cosine, table}, {&r->sine, table}, {&r->mask, all}, {&r->all_k, r->before ? all * kv : 0},
                 {&r->all_v, r->before ? all * kv : 0}, {&r->scratch, scratch_floats(r)}, {&r->work, work_floats(c)}};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        n += parts[i].n;
    float *block = malloc(n * sizeof(float));
    if (!block)
        return err_set(r->err, ERR_MEMORY, "no memory for a text encoder: %zu bytes", n * sizeof(float));
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        *parts[i].array = block + at;
        at += parts[i].n;
    }
    return 0;
}

/* Of all keys: those of the prefix are not padding. */
static void make_mask(struct run *r)
{
    for (int b = 0; b < r->in->batch; b++)
        for (int i = 0; i < r->keys; i++)
            r->mask[b * r->keys + i] = i < r->before ? 1 : r->in->mask[b * r->in->length + i - r->before];
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

static int matrix(struct run *r, int layer, const char *name, size_t count, struct gemma_matrix *out)
{
    char full[96];
    *out = (struct gemma_matrix){0};
    if (!r->weights->matrix)
        return (out->floats = weight(r, layer, name, count)) ? 0 : -1;
    snprintf(full, sizeof(full), "layers.%d.%s.weight", layer, name);
    return r->weights->matrix(r->weights->arg, full, count, r->scratch, out, r->err);
}

/* y = x W^T */
static int product(struct run *r, int layer, const char *name, float *y, const float *x, int k, int n)
{
    struct gemma_matrix w;
    if (matrix(r, layer, name, (size_t)k * (size_t)n, &w) < 0)
        return -1;
    if (w.bf16)
        kern_cpu()->linear_bf16(y, x, w.bf16, r->work, (int)r->rows, k, n);
    else
        kern_cpu()->linear(y, x, w.floats, NULL, (int)r->rows, k, n);
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

/* `own` of each sample behind the prefix's; NULL: there is no prefix. */
static const float *join(const struct run *r, float *all, const float *prefix, const float *own, size_t kv)
{
    const size_t before = (size_t)r->before * kv, length = (size_t)r->in->length * kv;
    if (!prefix)
        return own;
    for (int b = 0; b < r->in->batch; b++) {
        float *to = all + (size_t)b * (before + length);
        memcpy(to, prefix, before * sizeof(*to));
        memcpy(to + before, own + (size_t)b * length, length * sizeof(*to));
    }
    return all;
}

static void attend(struct run *r, int layer)
{
    const struct gemma_config *c = r->cfg;
    const struct gemma_prefix *p = r->in->behind, *keep = r->in->keep;
    const size_t kv = (size_t)c->kv_heads * (size_t)c->head_dim, of_layer = (size_t)layer * (size_t)r->before * kv;
    const struct kern_causal s = {
        .batch = r->in->batch, .queries = r->in->length, .keys = r->keys, .heads = c->heads, .kv_heads = c->kv_heads,
        .dim = c->head_dim, .window = layer % 2 == 0 ? c->window : 0, .scale = (float)c->scale, .cap = (float)c->cap};
    kern_cpu()->attend_causal(r->a, r->q, join(r, r->all_k, p ? p->k + of_layer : NULL, r->k, kv),
                              join(r, r->all_v, p ? p->v + of_layer : NULL, r->v, kv), r->mask, &s);
    if (keep) {
        const size_t n = (size_t)keep->length * kv;
        memcpy(keep->k + (size_t)layer * n, r->k, n * sizeof(float));
        memcpy(keep->v + (size_t)layer * n, r->v, n * sizeof(float));
    }
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
    gemma_rotary_turn(r->q, r->in->batch, r->in->length, r->before, c->heads, c->head_dim, r->cosine, r->sine);
    gemma_rotary_turn(r->k, r->in->batch, r->in->length, r->before, c->kv_heads, c->head_dim, r->cosine, r->sine);
    attend(r, layer);
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
                    .rows = (size_t)in->batch * (size_t)in->length, .before = in->behind ? in->behind->length : 0};
    r.keys = r.before + in->length;
    if (in->keep && (in->batch != 1 || in->behind || in->keep->length > in->length))
        return err_set(err, ERR_BUG, "a prefix of %d positions is kept of %d", in->keep->length, in->length);
    if (check_ids(&r) < 0 || reserve(&r) < 0)
        return -1;
    gemma_rotary_tables(r.cosine, r.sine, r.keys, cfg->head_dim, cfg->theta);
    make_mask(&r);
    const int rc = embed(&r) < 0 ? -1 : run_layers(&r, out);
    free(r.h);
    return rc;
}
