/* SPDX-License-Identifier: Apache-2.0 */
/* model_layout.c - every tensor of SanaMS by name, and how it starts
 *
 * The order is that of the authors' state_dict, the untrained null caption last,
 * so that all trained numbers lie in one range.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/err.h"
#include "engine/layout.h"
#include "engine/model_parts.h"
#include "engine/timestep_freqs.h"
#include "kernels/rng.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Declares tensors until one fails; then does nothing more. */
struct declare {
    struct layout *layout;
    struct err    *err;
    bool           failed;
    char           prefix[32];
};

static weight_at add(struct declare *d, const char *name, enum tensor_kind kind, int64_t d0,
                     int64_t d1, int64_t d2, int64_t d3)
{
    char full[TENSOR_NAME];
    const int64_t dim[] = {d0, d1, d2, d3};
    int ndim = 0;
    while (ndim < 4 && dim[ndim] > 0)
        ndim++;
    snprintf(full, sizeof(full), "%s%s", d->prefix, name);
    int i = d->failed ? -1 : layout_add(d->layout, full, kind, ndim, dim, d->err);
    if (i < 0) {
        d->failed = true;
        return NO_WEIGHT;
    }
    return (weight_at)layout_at(d->layout, i)->offset;
}

static weight_at param(struct declare *d, const char *name, int64_t d0, int64_t d1)
{
    return add(d, name, TENSOR_PARAM, d0, d1, 0, 0);
}

static weight_at conv(struct declare *d, const char *name, int64_t d0, int64_t d1, int64_t k)
{
    return add(d, name, TENSOR_PARAM, d0, d1, k, k);
}

static void declare_block(struct declare *d, struct block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, F = c->mlp_hidden;
    w->table = param(d, "scale_shift_table", 6, C);
    w->qkv = param(d, "attn.qkv.weight", 3 * C, C);
    w->proj = param(d, "attn.proj.weight", C, C);
    w->proj_b = param(d, "attn.proj.bias", C, 0);
    w->q_norm = c->qk_norm ? param(d, "attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->k_norm = c->qk_norm ? param(d, "attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_q = param(d, "cross_attn.q_linear.weight", C, C);
    w->cross_q_b = param(d, "cross_attn.q_linear.bias", C, 0);
    w->cross_kv = param(d, "cross_attn.kv_linear.weight", 2 * C, C);
    w->cross_kv_b = param(d, "cross_attn.kv_linear.bias", 2 * C, 0);
    w->cross_proj = param(d, "cross_attn.proj.weight", C, C);
    w->cross_proj_b = param(d, "cross_attn.proj.bias", C, 0);
    w->cross_q_norm = c->cross_norm ? param(d, "cross_attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_k_norm = c->cross_norm ? param(d, "cross_attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->inv = conv(d, "mlp.inverted_conv.conv.weight", 2 * F, C, 1);
    w->inv_b = param(d, "mlp.inverted_conv.conv.bias", 2 * F, 0);
    w->depth = conv(d, "mlp.depth_conv.conv.weight", 2 * F, 1, 3);
    w->depth_b = param(d, "mlp.depth_conv.conv.bias", 2 * F, 0);
    w->point = conv(d, "mlp.point_conv.conv.weight", C, F, 1);
}

int model_declare(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const int C = c->hidden, patch = c->latent_channels * c->patch * c->patch;
    struct declare d = {.layout = m->layout, .err = err};
    struct top_weights *w = &m->w;
    w->x = conv(&d, "x_embedder.proj.weight", C, c->latent_channels, c->patch);
    w->x_b = param(&d, "x_embedder.proj.bias", C, 0);
    w->t0 = param(&d, "t_embedder.mlp.0.weight", C, 2 * TIMESTEP_FREQS);
    w->t0_b = param(&d, "t_embedder.mlp.0.bias", C, 0);
    w->t2 = param(&d, "t_embedder.mlp.2.weight", C, C);
    w->t2_b = param(&d, "t_embedder.mlp.2.bias", C, 0);
    w->tb = param(&d, "t_block.1.weight", 6 * C, C);
    w->tb_b = param(&d, "t_block.1.bias", 6 * C, 0);
    w->y1 = param(&d, "y_embedder.y_proj.fc1.weight", C, c->caption_channels);
    w->y1_b = param(&d, "y_embedder.y_proj.fc1.bias", C, 0);
    w->y2 = param(&d, "y_embedder.y_proj.fc2.weight", C, C);
    w->y2_b = param(&d, "y_embedder.y_proj.fc2.bias", C, 0);
    w->y_norm = c->y_norm ? param(&d, "attention_y_norm.weight", C, 0) : NO_WEIGHT;
    for (int i = 0; i < c->depth; i++) {
        layout_next_unit(m->layout);
        snprintf(d.prefix, sizeof(d.prefix), "blocks.%d.", i);
        declare_block(&d, &m->bw[i], c);
    }
    layout_next_unit(m->layout);
    d.prefix[0] = 0;
    w->table = param(&d, "final_layer.scale_shift_table", 2, C);
    w->out = param(&d, "final_layer.linear.weight", patch, C);
    w->out_b = param(&d, "final_layer.linear.bias", patch, 0);
    w->null_caption = add(&d, "y_embedder.y_embedding", TENSOR_BUFFER, c->caption_len,
                          c->caption_channels, 0, 0);
    return d.failed ? -1 : 0;
}

/* How tensors start: the first row whose text is in the name. */
enum start { ZERO, ONE, Y_SCALE, NORMAL_002, XAVIER, FAN_IN, NORMAL_WIDTH };

static const struct {
    const char *part;
    enum start  start;
} starts[] = {
    {"attention_y_norm", Y_SCALE},        {"_norm.weight", ONE},
    {"scale_shift_table", NORMAL_WIDTH},  {"y_embedder.y_embedding", NORMAL_WIDTH},
    {"x_embedder.proj.bias", FAN_IN},     {"_conv.conv.", FAN_IN},
    {".bias", ZERO},                      {"t_embedder.mlp.", NORMAL_002},
    {"t_block.1.weight", NORMAL_002},     {"y_embedder.y_proj.", NORMAL_002},
    {".weight", XAVIER},
};

static enum start start_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (strstr(name, starts[i].part))
            return starts[i].start;
    return ZERO;
}

static uint64_t name_id(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

/* Numbers that enter one output of the layer `t` belongs to. */
static double fan_in(const struct model *m, const struct tensor *t)
{
    if (strstr(t->name, "x_embedder"))
        return (double)m->cfg.latent_channels * m->cfg.patch * m->cfg.patch;
    if (strstr(t->name, "inverted_conv"))
        return m->cfg.hidden;
    if (strstr(t->name, "depth_conv"))
        return 9;
    if (strstr(t->name, "point_conv"))
        return m->cfg.mlp_hidden;
    return (double)(t->count / (size_t)t->dim[0]);
}

static void fill(float *p, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        p[i] = value;
}

static void fill_uniform(float *p, uint64_t first, size_t n, const struct rng *r, double limit)
{
    rng_uniform(r, p, first, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(limit * (2 * (double)p[i] - 1));
}

static void fill_normal(float *p, uint64_t first, size_t n, const struct rng *r, double std)
{
    rng_normal(r, p, first, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(std * (double)p[i]);
}

/* Numbers first, first + 1, ... of a tensor. */
static void init_range(const struct model *m, const struct tensor *t, uint64_t first, size_t n,
                       uint64_t seed, float *p)
{
    const struct rng r = rng_make(seed, 0, name_id(t->name), RNG_WEIGHTS);
    switch (start_of(t->name)) {
    case ZERO:
        fill(p, n, 0.0f);
        break;
    case ONE:
        fill(p, n, 1.0f);
        break;
    case Y_SCALE:
        fill(p, n, m->cfg.y_norm_scale);
        break;
    case NORMAL_002:
        fill_normal(p, first, n, &r, 0.02);
        break;
    case NORMAL_WIDTH:
        fill_normal(p, first, n, &r, 1.0 / sqrt((double)t->dim[1]));
        break;
    case XAVIER:
        fill_uniform(p, first, n, &r, sqrt(6.0 / ((double)t->dim[0] + fan_in(m, t))));
        break;
    case FAN_IN:
        fill_uniform(p, first, n, &r, 1.0 / sqrt(fan_in(m, t)));
        break;
    }
}

void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed,
                      float *out)
{
    init_range(m, layout_at(m->layout, tensor), from, to - from, seed, out);
}

void model_init_weights(struct model *m, uint64_t seed)
{
    for (int i = 0; i < layout_len(m->layout); i++) {
        const struct tensor *t = layout_at(m->layout, i);
        init_range(m, t, 0, t->count, seed, m->here_weights + t->offset);
    }
}
