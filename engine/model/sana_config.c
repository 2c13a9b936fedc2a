/* SPDX-License-Identifier: Apache-2.0 */
/* sana_config.c - settings of a SanaMS from JSON in the authors' keys */
#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_internal.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The authors' names for whole architectures. */
static const struct {
    const char *name;
    int         depth, hidden, heads;
} presets[] = {
    {"SanaMS_600M_P1_D28", 28, 1152, 16},   {"SanaMS_1600M_P1_D20", 20, 2240, 20},
    {"SanaMS_2400M_P1_D30", 30, 2240, 20},  {"SanaMS_3200M_P1_D40", 40, 2240, 20},
    {"SanaMS_4800M_P1_D60", 60, 2240, 20},
};

static int parse_name(struct model_config *c, struct config_reader *s)
{
    const char *name = json_string_value(config_reader_get(s, "model"));
    if (!name)
        return err_set(s->err, ERR_USAGE, "model.model is missing; supported: \"SanaMS\"");
    if (strcmp(name, "SanaMS") == 0 || strcmp(name, "Sana") == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        if (strcmp(name, presets[i].name) == 0) {
            c->depth = presets[i].depth;
            c->hidden = presets[i].hidden;
            c->heads = presets[i].heads;
            return 0;
        }
    return err_set(s->err, ERR_USAGE,
                   "model.model is \"%.60s\"; supported: SanaMS with depth, hidden_size and num_heads, or "
                   "SanaMS_600M_P1_D28, 1600M_P1_D20, 2400M_P1_D30, 3200M_P1_D40, 4800M_P1_D60", name);
}

/* The activations of the gated Mix-FFN: only the published choice. */
static void check_acts(struct config_reader *s)
{
    const json_t *v = config_reader_get(s, "mlp_acts");
    if (!v)
        return;
    const char *a = json_string_value(json_array_get(v, 0));
    const char *b = json_string_value(json_array_get(v, 1));
    if (json_array_size(v) == 3 && a && b && strcmp(a, "silu") == 0 && strcmp(b, "silu") == 0 &&
        json_is_null(json_array_get(v, 2)))
        return;
    err_set(s->err, ERR_USAGE, "model.mlp_acts must be [\"silu\", \"silu\", null]");
    s->failed = true;
}

static int parse_model(struct model_config *c, const json_t *config, struct err *err)
{
    struct config_reader s = config_reader_open(config, "model", err);
    double ratio = 2.5, dropout = 0.1;
    bool use_pe = false;
    if (!s.json)
        return err_set(err, ERR_USAGE, "the configuration has no \"model\" section");
    if (s.failed || parse_name(c, &s) < 0)
        return -1;
    config_reader_int(&s, "depth", &c->depth);
    config_reader_int(&s, "hidden_size", &c->hidden);
    config_reader_int(&s, "num_heads", &c->heads);
    config_reader_int(&s, "patch_size", &c->patch);
    config_reader_int(&s, "linear_head_dim", &c->linear_head_dim);
    config_reader_number(&s, "mlp_ratio", &ratio);
    config_reader_number(&s, "class_dropout_prob", &dropout);
    config_reader_bool(&s, "qk_norm", &c->qk_norm);
    config_reader_bool(&s, "cross_norm", &c->cross_norm);
    config_reader_bool(&s, "use_pe", &use_pe);
    config_reader_must_be(&s, "attn_type", "linear");
    config_reader_must_be(&s, "cross_attn_type", "flash|vanilla");
    config_reader_must_be(&s, "ffn_type", "glumbconv");
    check_acts(&s);
    config_reader_only(&s, "model depth hidden_size num_heads patch_size linear_head_dim mlp_ratio class_dropout_prob "
                           "qk_norm cross_norm use_pe attn_type cross_attn_type ffn_type mlp_acts "
                           "fp32_attention mixed_precision"); /* the last two: precision is the run's */
    if (s.failed)
        return -1;
    if (use_pe)
        return err_set(err, ERR_USAGE, "model.use_pe is true; position embeddings are unsupported");
    if (!(ratio > 0 && ratio < 1024))
        return err_set(err, ERR_USAGE, "model.mlp_ratio is %g; it must be above 0", ratio);
    c->mlp_hidden = (int)(c->hidden * ratio);
    c->caption_dropout = (float)dropout;
    return 0;
}

int sana_config_parse(struct model_config *cfg, const json_t *config, struct err *err)
{
    struct model_config c = {
        .linear_head_dim = 32, .patch = 1, .latent_channels = 32, .caption_channels = 2304,
        .caption_len = 300,
    };
    double scale = 1.0, eps = 1e-5;
    if (parse_model(&c, config, err) < 0)
        return -1;
    struct config_reader vae = config_reader_open(config, "vae", err);
    config_reader_int(&vae, "vae_latent_dim", &c.latent_channels);
    struct config_reader text = config_reader_open(config, "text_encoder", err);
    config_reader_int(&text, "caption_channels", &c.caption_channels);
    config_reader_int(&text, "model_max_length", &c.caption_len);
    config_reader_bool(&text, "y_norm", &c.y_norm);
    config_reader_number(&text, "y_norm_scale_factor", &scale);
    config_reader_number(&text, "norm_eps", &eps);
    if (vae.failed || text.failed)
        return -1;
    c.y_norm_scale = (float)scale;
    c.y_norm_eps = (float)eps;
    *cfg = c;
    return 0;
}

int sana_config_check(const struct model_config *c, struct err *err)
{
    const struct {
        const char *name;
        int         value, least, most;
    } rows[] = {
        {"depth", c->depth, 1, 1000},
        {"hidden_size", c->hidden, 1, 1 << 16},
        {"num_heads", c->heads, 1, 1 << 12},
        {"linear_head_dim", c->linear_head_dim, 1, 1 << 12},
        {"patch_size", c->patch, 1, 64},
        {"int(hidden_size * mlp_ratio)", c->mlp_hidden, 1, 1 << 20},
        {"vae_latent_dim", c->latent_channels, 1, 1 << 16},
        {"caption_channels", c->caption_channels, 1, 1 << 20},
        {"model_max_length", c->caption_len, 1, 1 << 16},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return err_set(err, ERR_USAGE, "%s is %d; it must be from %d to %d", rows[i].name,
                           rows[i].value, rows[i].least, rows[i].most);
    if (c->hidden % c->heads)
        return err_set(err, ERR_USAGE, "hidden_size %d is not a multiple of num_heads %d", c->hidden, c->heads);
    if (c->hidden % c->linear_head_dim)
        return err_set(err, ERR_USAGE, "hidden_size %d is not a multiple of linear_head_dim %d",
                       c->hidden, c->linear_head_dim);
    if (!(c->y_norm_eps >= 0) || !isfinite(c->y_norm_scale))
        return err_set(err, ERR_USAGE, "norm_eps must be 0 or more, y_norm_scale_factor finite");
    if (!(c->caption_dropout >= 0 && c->caption_dropout <= 1))
        return err_set(err, ERR_USAGE, "class_dropout_prob is %g; it must be from 0 to 1", (double)c->caption_dropout);
    return 0;
}
