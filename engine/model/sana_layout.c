/* SPDX-License-Identifier: Apache-2.0 */
/* sana_layout.c - every tensor of SanaMS: name, shape, initialization
 *
 * The order is that of the authors' state_dict, with the untrained null caption last,
 * so that all trained numbers are contiguous.
 */
#include <math.h>
#include <string.h>

#include "engine/model/layout.h"
#include "engine/model/layout_builder.h"
#include "engine/model/model_internal.h"
#include "engine/model/timestep_freqs.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void declare_block(struct layout_builder *d, struct sana_block_weights *w, const struct model_config *c)
{
    const int C = c->hidden, F = c->mlp_hidden;
    w->table = layout_builder_param(d, "scale_shift_table", 6, C);
    w->qkv = layout_builder_param(d, "attn.qkv.weight", 3 * C, C);
    w->proj = layout_builder_param(d, "attn.proj.weight", C, C);
    w->proj_b = layout_builder_param(d, "attn.proj.bias", C, 0);
    w->q_norm = c->qk_norm ? layout_builder_param(d, "attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->k_norm = c->qk_norm ? layout_builder_param(d, "attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_q = layout_builder_param(d, "cross_attn.q_linear.weight", C, C);
    w->cross_q_b = layout_builder_param(d, "cross_attn.q_linear.bias", C, 0);
    w->cross_kv = layout_builder_param(d, "cross_attn.kv_linear.weight", 2 * C, C);
    w->cross_kv_b = layout_builder_param(d, "cross_attn.kv_linear.bias", 2 * C, 0);
    w->cross_proj = layout_builder_param(d, "cross_attn.proj.weight", C, C);
    w->cross_proj_b = layout_builder_param(d, "cross_attn.proj.bias", C, 0);
    w->cross_q_norm = c->cross_norm ? layout_builder_param(d, "cross_attn.q_norm.weight", C, 0) : NO_WEIGHT;
    w->cross_k_norm = c->cross_norm ? layout_builder_param(d, "cross_attn.k_norm.weight", C, 0) : NO_WEIGHT;
    w->inv = layout_builder_conv(d, "mlp.inverted_conv.conv.weight", 2 * F, C, 1);
    w->inv_b = layout_builder_param(d, "mlp.inverted_conv.conv.bias", 2 * F, 0);
    w->depth = layout_builder_conv(d, "mlp.depth_conv.conv.weight", 2 * F, 1, 3);
    w->depth_b = layout_builder_param(d, "mlp.depth_conv.conv.bias", 2 * F, 0);
    w->point = layout_builder_conv(d, "mlp.point_conv.conv.weight", C, F, 1);
}

int sana_declare(struct model *m, struct err *err)
{
    const struct model_config *c = &m->cfg;
    const int C = c->hidden, patch = c->latent_channels * c->patch * c->patch;
    struct layout_builder d = {.layout = m->layout, .err = err};
    struct sana_top_weights *w = &m->sana.w;
    w->x = layout_builder_conv(&d, "x_embedder.proj.weight", C, c->latent_channels, c->patch);
    w->x_b = layout_builder_param(&d, "x_embedder.proj.bias", C, 0);
    w->t0 = layout_builder_param(&d, "t_embedder.mlp.0.weight", C, 2 * TIMESTEP_FREQS);
    w->t0_b = layout_builder_param(&d, "t_embedder.mlp.0.bias", C, 0);
    w->t2 = layout_builder_param(&d, "t_embedder.mlp.2.weight", C, C);
    w->t2_b = layout_builder_param(&d, "t_embedder.mlp.2.bias", C, 0);
    w->tb = layout_builder_param(&d, "t_block.1.weight", 6 * C, C);
    w->tb_b = layout_builder_param(&d, "t_block.1.bias", 6 * C, 0);
    w->y1 = layout_builder_param(&d, "y_embedder.y_proj.fc1.weight", C, c->caption_channels);
    w->y1_b = layout_builder_param(&d, "y_embedder.y_proj.fc1.bias", C, 0);
    w->y2 = layout_builder_param(&d, "y_embedder.y_proj.fc2.weight", C, C);
    w->y2_b = layout_builder_param(&d, "y_embedder.y_proj.fc2.bias", C, 0);
    w->y_norm = c->y_norm ? layout_builder_param(&d, "attention_y_norm.weight", C, 0) : NO_WEIGHT;
    for (int i = 0; i < c->depth; i++) {
        layout_builder_unit(&d, "blocks", i);
        declare_block(&d, &m->sana.bw[i], c);
    }
    layout_builder_unit(&d, NULL, 0);
    w->table = layout_builder_param(&d, "final_layer.scale_shift_table", 2, C);
    w->out = layout_builder_param(&d, "final_layer.linear.weight", patch, C);
    w->out_b = layout_builder_param(&d, "final_layer.linear.bias", patch, 0);
    w->null_caption = layout_builder_buffer(&d, "y_embedder.y_embedding", c->caption_len, c->caption_channels);
    return d.failed ? -1 : 0;
}

/* Initialization of tensors: the first row whose text is in the name. */
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

/* Fan-in of the layer that `t` belongs to. */
static double fan_in(const struct model_config *c, const struct tensor *t)
{
    if (strstr(t->name, "x_embedder"))
        return (double)c->latent_channels * c->patch * c->patch;
    if (strstr(t->name, "inverted_conv"))
        return c->hidden;
    if (strstr(t->name, "depth_conv"))
        return 9;
    if (strstr(t->name, "point_conv"))
        return c->mlp_hidden;
    return (double)(t->count / (size_t)t->dim[0]);
}

struct model_start sana_start(const struct model_config *c, const struct tensor *t)
{
    switch (start_of(t->name)) {
    case ONE:
        return (struct model_start){DRAW_CONSTANT, 1};
    case Y_SCALE:
        return (struct model_start){DRAW_CONSTANT, (double)c->y_norm_scale};
    case NORMAL_002:
        return (struct model_start){DRAW_NORMAL, 0.02};
    case NORMAL_WIDTH:
        return (struct model_start){DRAW_NORMAL, 1.0 / sqrt((double)t->dim[1])};
    case XAVIER:
        return (struct model_start){DRAW_UNIFORM, sqrt(6.0 / ((double)t->dim[0] + fan_in(c, t)))};
    case FAN_IN:
        return (struct model_start){DRAW_UNIFORM, 1.0 / sqrt(fan_in(c, t))};
    default:
        return (struct model_start){DRAW_CONSTANT, 0};
    }
}
