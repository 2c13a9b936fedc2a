/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_layout.c - every tensor of a Next-DiT: name, shape, initialization */
#include <math.h>
#include <string.h>

#include "engine/model/layout.h"
#include "engine/model/layout_builder.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

int nextdit_second(const struct model_config *c)
{
    return (int)layout_pair_rows(c->mlp_hidden, c->hidden);
}

static void declare_norm(struct layout_builder *d, const char *weight, const char *bias, weight_at *w, weight_at *b,
                         int n)
{
    *w = layout_builder_param(d, weight, n, 0);
    *b = layout_builder_param(d, bias, n, 0);
}

static void declare_attention(struct layout_builder *d, struct nextdit_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, G = nextdit_groups(c), E = c->caption_channels;
    w->gate = layout_builder_param(d, "attention.gate", c->heads, 0);
    w->wq = layout_builder_param(d, "attention.wq.weight", C, C);
    w->wk = layout_builder_param(d, "attention.wk.weight", G, C);
    w->wv = layout_builder_param(d, "attention.wv.weight", G, C);
    w->wk_y = layout_builder_param(d, "attention.wk_y.weight", G, E);
    w->wv_y = layout_builder_param(d, "attention.wv_y.weight", G, E);
    w->wo = layout_builder_param(d, "attention.wo.weight", C, C);
    w->q_norm = w->q_norm_b = w->k_norm = w->k_norm_b = w->ky_norm = w->ky_norm_b = NO_WEIGHT;
    if (!c->qk_norm)
        return;
    declare_norm(d, "attention.q_norm.weight", "attention.q_norm.bias", &w->q_norm, &w->q_norm_b, C);
    declare_norm(d, "attention.k_norm.weight", "attention.k_norm.bias", &w->k_norm, &w->k_norm_b, G);
    declare_norm(d, "attention.ky_norm.weight", "attention.ky_norm.bias", &w->ky_norm, &w->ky_norm_b, G);
}

static void declare_block(struct layout_builder *d, struct nextdit_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, F = c->mlp_hidden;
    declare_attention(d, w, c);
    w->w1 = layout_builder_first(d, "feed_forward.w1.weight", F, C);
    w->w2 = layout_builder_param(d, "feed_forward.w2.weight", C, F);
    layout_builder_second(d, "feed_forward.w3.weight", w->w1);
    w->norm1 = layout_builder_param(d, "attention_norm1.weight", C, 0);
    w->ffn1 = layout_builder_param(d, "ffn_norm1.weight", C, 0);
    w->norm2 = layout_builder_param(d, "attention_norm2.weight", C, 0);
    w->ffn2 = layout_builder_param(d, "ffn_norm2.weight", C, 0);
    w->ada = layout_builder_param(d, "adaLN_modulation.1.weight", 4 * C, nextdit_cond(c));
    w->ada_b = layout_builder_param(d, "adaLN_modulation.1.bias", 4 * C, 0);
    w->y_norm = layout_builder_param(d, "attention_y_norm.weight", c->caption_channels, 0);
}

int nextdit_declare(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const int C = c->hidden, A = nextdit_cond(c), E = c->caption_channels;
    struct layout_builder d = {.layout = m->layout, .err = err};
    struct nextdit_top_weights *w = &m->next.w;
    w->pad = layout_builder_param(&d, "pad_token", C, 0);
    w->x = layout_builder_param(&d, "x_embedder.weight", C, model_patch_width(m));
    w->x_b = layout_builder_param(&d, "x_embedder.bias", C, 0);
    w->t0 = layout_builder_param(&d, "t_embedder.mlp.0.weight", A, 2 * TIMESTEP_FREQS);
    w->t0_b = layout_builder_param(&d, "t_embedder.mlp.0.bias", A, 0);
    w->t2 = layout_builder_param(&d, "t_embedder.mlp.2.weight", A, A);
    w->t2_b = layout_builder_param(&d, "t_embedder.mlp.2.bias", A, 0);
    w->cap_norm = layout_builder_param(&d, "cap_embedder.0.weight", E, 0);
    w->cap_norm_b = layout_builder_param(&d, "cap_embedder.0.bias", E, 0);
    w->cap = layout_builder_param(&d, "cap_embedder.1.weight", A, E);
    w->cap_b = layout_builder_param(&d, "cap_embedder.1.bias", A, 0);
    for (int i = 0; i < c->depth; i++) {
        layout_builder_unit(&d, "layers", i);
        declare_block(&d, &m->next.bw[i], c);
    }
    layout_builder_unit(&d, NULL, 0);
    w->out = layout_builder_param(&d, "final_layer.linear.weight", nextdit_out_width(c), C);
    w->out_b = layout_builder_param(&d, "final_layer.linear.bias", nextdit_out_width(c), 0);
    w->ada = layout_builder_param(&d, "final_layer.adaLN_modulation.1.weight", C, A);
    w->ada_b = layout_builder_param(&d, "final_layer.adaLN_modulation.1.bias", C, 0);
    return d.failed ? -1 : 0;
}

/* Initialization of tensors: the first row whose text is in the name. */
enum start { ZERO, ONE, NORMAL_002, XAVIER };

static const struct {
    const char *part;
    enum start  start;
} starts[] = {
    {".bias", ZERO},          {"adaLN_modulation", ZERO}, {"final_layer.linear", ZERO},
    {"attention.gate", ZERO}, {"cap_embedder.1", ZERO},   {"cap_embedder.0.weight", ONE},
    {"norm", ONE},            {"t_embedder.mlp.", NORMAL_002}, {"pad_token", NORMAL_002},
    {".weight", XAVIER},
};

struct model_start nextdit_start(const struct model_config *c, const struct tensor *t)
{
    (void)c;
    size_t i = 0;
    while (i + 1 < sizeof(starts) / sizeof(starts[0]) && !strstr(t->name, starts[i].part))
        i++;
    switch (starts[i].start) {
    case ONE:
        return (struct model_start){DRAW_CONSTANT, 1};
    case NORMAL_002:
        return (struct model_start){DRAW_NORMAL, 0.02};
    case XAVIER:
        return (struct model_start){DRAW_UNIFORM, sqrt(6.0 / (double)(t->dim[0] + t->dim[1]))};
    default:
        return (struct model_start){DRAW_CONSTANT, 0};
    }
}
