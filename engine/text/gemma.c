/* SPDX-License-Identifier: Apache-2.0 */
/* gemma.c - see gemma.h */
#include "engine/text/gemma.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/text/gemma_place.h"
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
    struct gemma_place                *place;
    const struct kern_ops             *ops;
    const float                       *cosine, *sine;
    float *h, *x, *q, *k, *v, *a, *gate, *up, *mask, *all_k, *all_v, *scratch, *work;
    float *host; /* of a device: h in host memory */
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

/* Matrices of floats from elsewhere need room for one on the CPU; those of bf16 none. */
static size_t scratch_floats(const struct run *r)
{
    const struct gemma_config *c = r->cfg;
    const size_t hidden = (size_t)c->hidden, q = (size_t)c->heads * (size_t)c->head_dim;
    return r->weights->in_place || !r->ops->host ? 0 : hidden * max_of((size_t)c->intermediate, q);
}

/* One block for all arrays, and the host's. */
static int reserve(struct run *r)
{
    const struct gemma_config *c = r->cfg;
    const size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    const size_t all = (size_t)r->in->batch * (size_t)r->keys, hidden = r->rows * (size_t)c->hidden;
    const struct {
        float **array;
        size_t  n;
    } parts[] = {{&r->h, r->rows * (size_t)c->hidden}, {&r->x, r->rows * (size_t)c->hidden}, {&r->q, r->rows * q},
                 {&r->a, r->rows * q}, {&r->k, r->rows * kv}, {&r->v, r->rows * kv},
                 {&r->gate, r->rows * (size_t)c->intermediate}, {&r->up, r->rows * (size_t)c->intermediate},
                 {&r->mask, all}, {&r->all_k, r->before ? all * kv : 0},
                 {&r->all_v, r->before ? all * kv : 0}, {&r->scratch, scratch_floats(r)}, {&r->work, work_floats(c)}};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        n += parts[i].n;
    float *block = gemma_place_room(r->place, n, r->err);
    if (!block)
        return -1;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        *parts[i].array = block + at;
        at += parts[i].n;
    }
    r->host = malloc(max_of(hidden, all) * sizeof(float));
    return r->host ? 0 : err_set(r->err, ERR_MEMORY, "no memory for the vectors of %zu tokens", r->rows);
}

/* Of all keys: those of the prefix are not padding. */
static void make_mask(struct run *r)
{
    for (int b = 0; b < r->in->batch; b++)
        for (int i = 0; i < r->keys; i++)
            r->host[b * r->keys + i] = i < r->before ? 1 : r->in->mask[b * r->in->length + i - r->before];
    r->ops->upload(r->mask, r->host, (size_t)r->in->batch * (size_t)r->keys * sizeof(float));
}

static void name_weight(char full[96], int layer, const char *name)
{
    if (layer < 0)
        snprintf(full, 96, "%s.weight", name);
    else
        snprintf(full, 96, "layers.%d.%s.weight", layer, name);
}

/* y = x W^T */
static int product(struct run *r, int layer, const char *name, float *y, const float *x, int k, int n)
{
    char full[96];
    struct gemma_matrix w;
    name_weight(full, layer, name);
    if (gemma_place_matrix(r->place, r->weights, full, (size_t)k * (size_t)n, r->scratch, &w, r->err) < 0)
        return -1;
    if (w.bf16)
        r->ops->linear_bf16(y, x, w.bf16, r->work, (int)r->rows, k, n);
    else
        r->ops->linear(y, x, w.floats, NULL, (int)r->rows, k, n);
    return 0;
}

/* y = x / sqrt(mean(x^2) + eps) * (1 + w) + add, of rows of `hidden`; y may be x or add. add NULL: 0 */
static int norm(struct run *r, int layer, const char *name, float *y, const float *x, const float *add)
{
    const int n = r->cfg->hidden;
    char full[96];
    name_weight(full, layer, name);
    const float *w = gemma_place_norm(r->place, r->weights, full, (size_t)n, r->err);
    if (w)
        r->ops->rms_rows(y, x, add, w, NULL, r->rows, n, (float)r->cfg->eps, false);
    return w ? 0 : -1;
}

/* h += x, which Gemma 2 normalises before */
static int add_branch(struct run *r, int layer, const char *name)
{
    if (r->cfg->version == 2)
        return norm(r, layer, name, r->h, r->x, r->h);
    r->ops->add_rows(r->h, r->h, r->x, r->rows * (size_t)r->cfg->hidden);
    return 0;
}

/* `own` of each sample behind the prefix's; NULL: there is no prefix. */
static const float *join(const struct run *r, float *all, const float *prefix, const float *own, size_t kv)
{
    const size_t before = (size_t)r->before * kv, length = (size_t)r->in->length * kv;
    if (!prefix)
        return own;
    for (int b = 0; b < r->in->batch; b++) {
        float *to = all + (size_t)b * (before + length);
        r->ops->copy(to, prefix, before);
        r->ops->copy(to + before, own + (size_t)b * length, length);
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
    r->ops->attend_causal(r->a, r->q, join(r, r->all_k, p ? p->k + of_layer : NULL, r->k, kv),
                          join(r, r->all_v, p ? p->v + of_layer : NULL, r->v, kv), r->mask, &s);
    if (keep) {
        const size_t n = (size_t)keep->length * kv;
        r->ops->copy(keep->k + (size_t)layer * n, r->k, n);
        r->ops->copy(keep->v + (size_t)layer * n, r->v, n);
    }
}

static int attention(struct run *r, int layer)
{
    const struct gemma_config *c = r->cfg;
    const int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    if (norm(r, layer, "input_layernorm", r->x, r->h, NULL) < 0 ||
        product(r, layer, "self_attn.q_proj", r->q, r->x, c->hidden, q) < 0 ||
        product(r, layer, "self_attn.k_proj", r->k, r->x, c->hidden, kv) < 0 ||
        product(r, layer, "self_attn.v_proj", r->v, r->x, c->hidden, kv) < 0)
        return -1;
    r->ops->turn_halves(r->q, r->cosine, r->sine, r->in->batch, r->in->length, r->before, c->heads, c->head_dim);
    r->ops->turn_halves(r->k, r->cosine, r->sine, r->in->batch, r->in->length, r->before, c->kv_heads, c->head_dim);
    attend(r, layer);
    if (product(r, layer, "self_attn.o_proj", r->x, r->a, q, c->hidden) < 0)
        return -1;
    return add_branch(r, layer, "post_attention_layernorm");
}

static int feed_forward(struct run *r, int layer)
{
    const struct gemma_config *c = r->cfg;
    const char *before = c->version == 2 ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    if (norm(r, layer, before, r->x, r->h, NULL) < 0 ||
        product(r, layer, "mlp.gate_proj", r->gate, r->x, c->hidden, c->intermediate) < 0 ||
        product(r, layer, "mlp.up_proj", r->up, r->x, c->hidden, c->intermediate) < 0)
        return -1;
    r->ops->geglu(r->gate, r->gate, r->up, r->rows * (size_t)c->intermediate);
    if (product(r, layer, "mlp.down_proj", r->x, r->gate, c->intermediate, c->hidden) < 0)
        return -1;
    return add_branch(r, layer, "post_feedforward_layernorm");
}

static int embed(struct run *r)
{
    const size_t hidden = (size_t)r->cfg->hidden;
    const float scale = (float)sqrt((double)hidden);
    for (size_t row = 0; row < r->rows; row++) {
        float *h = r->host + row * hidden;
        if (r->weights->row(r->weights->arg, "embed_tokens.weight", (size_t)r->cfg->vocab, hidden,
                            (size_t)r->in->id[row], h, r->err) < 0)
            return -1;
        for (size_t i = 0; i < hidden; i++)
            h[i] *= scale;
    }
    r->ops->upload(r->h, r->host, r->rows * hidden * sizeof(float));
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
        if (out->hidden) {
            r->ops->download(r->host, r->h, bytes);
            out->hidden(out->arg, i, r->host);
        }
        if (last && out->before_last)
            r->ops->download(out->before_last, r->h, bytes);
        if (last && !out->last)
            return 0;
        if (attention(r, i) < 0 || feed_forward(r, i) < 0)
            return -1;
    }
    if (norm(r, -1, "norm", r->x, r->h, NULL) < 0)
        return -1;
    r->ops->download(out->last, r->x, bytes);
    return 0;
}

/* Everything before the first layer. */
static int prepare(struct run *r)
{
    if (check_ids(r) < 0 || reserve(r) < 0 ||
        gemma_place_angles(r->place, r->cfg, r->keys, &r->cosine, &r->sine, r->err) < 0)
        return -1;
    make_mask(r);
    return embed(r);
}

int gemma_run(const struct gemma_config *cfg, const struct gemma_weights *weights, const struct gemma_input *in,
              const struct gemma_output *out, struct err *err)
{
    struct run r = {.cfg = cfg, .weights = weights, .in = in, .err = err,
                    .rows = (size_t)in->batch * (size_t)in->length, .before = in->behind ? in->behind->length : 0};
    r.keys = r.before + in->length;
    if (in->keep && (in->batch != 1 || in->behind || in->keep->length > in->length))
        return err_set(err, ERR_BUG, "a prefix of %d positions is kept of %d", in->keep->length, in->length);
    r.place = weights->place ? weights->place : gemma_place_open();
    if (!r.place)
        return err_set(err, ERR_MEMORY, "no memory for a text encoder");
    r.ops = gemma_place_ops(r.place);
    int rc = prepare(&r);
    if (rc == 0 && (rc = run_layers(&r, out)) == 0)
        rc = backend_check(r.ops, err);
    free(r.host);
    if (!weights->place)
        gemma_place_close(r.place);
    return rc;
}
