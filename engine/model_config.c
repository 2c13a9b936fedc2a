/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.c - what to build, from JSON in the authors' keys; its work in FLOPs */
#include <math.h>
#include <string.h>

#include "engine/err.h"
#include "engine/model.h"

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

/* One section of the configuration while it is read. */
struct section {
    const char   *name;
    const json_t *json;
    struct err   *err;
    bool          failed;
};

static const json_t *section_get(const struct section *s, const char *key)
{
    const json_t *v = json_object_get(s->json, key);
    return json_is_null(v) ? NULL : v;
}

static void get_int(struct section *s, const char *key, int *value)
{
    const json_t *v = section_get(s, key);
    if (!v)
        return;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1 << 24) {
        err_set(s->err, ERR_USAGE, "%s.%s is not a whole number from 0 to 16777216", s->name, key);
        s->failed = true;
        return;
    }
    *value = (int)json_integer_value(v);
}

static void get_number(struct section *s, const char *key, double *value)
{
    const json_t *v = section_get(s, key);
    if (!v)
        return;
    if (!json_is_number(v)) {
        err_set(s->err, ERR_USAGE, "%s.%s is not a number", s->name, key);
        s->failed = true;
        return;
    }
    *value = json_number_value(v);
}

static void get_bool(struct section *s, const char *key, bool *value)
{
    const json_t *v = section_get(s, key);
    if (!v)
        return;
    if (!json_is_boolean(v)) {
        err_set(s->err, ERR_USAGE, "%s.%s is neither true nor false", s->name, key);
        s->failed = true;
        return;
    }
    *value = json_is_true(v);
}

/* A choice of which we build only some; `built` is a list separated by '|'. */
static void must_be(struct section *s, const char *key, const char *built)
{
    const json_t *v = section_get(s, key);
    const char *text = json_string_value(v);
    if (!v)
        return;
    for (const char *p = built; text && p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (strncmp(p, text, strlen(text)) == 0 && strchr("|", p[strlen(text)]))
            return;
    err_set(s->err, ERR_USAGE, "%s.%s is %s%.40s%s; this engine builds %s", s->name, key,
            text ? "\"" : "", text ? text : "not a string", text ? "\"" : "", built);
    s->failed = true;
}

static struct section section_open(const json_t *config, const char *name, struct err *err)
{
    struct section s = {name, json_object_get(config, name), err, false};
    if (s.json && !json_is_object(s.json)) {
        err_set(err, ERR_USAGE, "\"%s\" in the configuration is not an object", name);
        s.failed = true;
    }
    return s;
}

static int parse_name(struct model_config *c, struct section *s)
{
    const char *name = json_string_value(section_get(s, "model"));
    if (!name)
        return err_set(s->err, ERR_USAGE, "model.model is missing; \"SanaMS\" can be built");
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
                   "model.model is \"%.60s\"; SanaMS with depth, hidden_size and num_heads, or "
                   "SanaMS_600M_P1_D28, 1600M_P1_D20, 2400M_P1_D30, 3200M_P1_D40, 4800M_P1_D60 "
                   "can be built", name);
}

/* The gated activations of the mix-FFN: only the published choice. */
static void check_acts(struct section *s)
{
    const json_t *v = section_get(s, "mlp_acts");
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
    struct section s = section_open(config, "model", err);
    double ratio = 2.5, dropout = 0.1;
    bool use_pe = false;
    if (!s.json)
        return err_set(err, ERR_USAGE, "the configuration has no \"model\" section");
    if (s.failed || parse_name(c, &s) < 0)
        return -1;
    get_int(&s, "depth", &c->depth);
    get_int(&s, "hidden_size", &c->hidden);
    get_int(&s, "num_heads", &c->heads);
    get_int(&s, "patch_size", &c->patch);
    get_int(&s, "linear_head_dim", &c->linear_head_dim);
    get_number(&s, "mlp_ratio", &ratio);
    get_number(&s, "class_dropout_prob", &dropout);
    get_bool(&s, "qk_norm", &c->qk_norm);
    get_bool(&s, "cross_norm", &c->cross_norm);
    get_bool(&s, "use_pe", &use_pe);
    must_be(&s, "attn_type", "linear");
    must_be(&s, "cross_attn_type", "flash|vanilla");
    must_be(&s, "ffn_type", "glumbconv");
    check_acts(&s);
    if (s.failed)
        return -1;
    if (use_pe)
        return err_set(err, ERR_USAGE, "model.use_pe is true; position embeddings are not built");
    if (!(ratio > 0 && ratio < 1024))
        return err_set(err, ERR_USAGE, "model.mlp_ratio is %g; it must be above 0", ratio);
    c->mlp_hidden = (int)(c->hidden * ratio);
    c->caption_dropout = (float)dropout;
    return 0;
}

int model_config_parse(struct model_config *cfg, const json_t *config, struct err *err)
{
    struct model_config c = {
        .linear_head_dim = 32, .patch = 1, .latent_channels = 32, .caption_channels = 2304,
        .caption_len = 300,
    };
    double scale = 1.0, eps = 1e-5;
    if (!json_is_object(config))
        return err_set(err, ERR_USAGE, "the configuration is not a JSON object");
    if (parse_model(&c, config, err) < 0)
        return -1;
    struct section vae = section_open(config, "vae", err);
    get_int(&vae, "vae_latent_dim", &c.latent_channels);
    struct section text = section_open(config, "text_encoder", err);
    get_int(&text, "caption_channels", &c.caption_channels);
    get_int(&text, "model_max_length", &c.caption_len);
    get_bool(&text, "y_norm", &c.y_norm);
    get_number(&text, "y_norm_scale_factor", &scale);
    get_number(&text, "norm_eps", &eps);
    if (vae.failed || text.failed)
        return -1;
    c.y_norm_scale = (float)scale;
    c.y_norm_eps = (float)eps;
    if (model_config_check(&c, err) < 0)
        return -1;
    *cfg = c;
    return 0;
}

int model_config_check(const struct model_config *c, struct err *err)
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
        return err_set(err, ERR_USAGE, "hidden_size %d is not a multiple of num_heads %d",
                       c->hidden, c->heads);
    if (c->hidden % c->linear_head_dim)
        return err_set(err, ERR_USAGE, "hidden_size %d is not a multiple of linear_head_dim %d",
                       c->hidden, c->linear_head_dim);
    if (!(c->y_norm_eps >= 0) || !isfinite(c->y_norm_scale))
        return err_set(err, ERR_USAGE, "norm_eps must be 0 or more, y_norm_scale_factor finite");
    if (!(c->caption_dropout >= 0 && c->caption_dropout <= 1))
        return err_set(err, ERR_USAGE, "class_dropout_prob is %g; it must be from 0 to 1",
                       (double)c->caption_dropout);
    return 0;
}

double model_forward_flops(const struct model_config *c, int batch, int height, int width,
                           int text)
{
    const double C = c->hidden, h = c->mlp_hidden, L = text, D = c->caption_channels;
    const double n = (double)(height / c->patch) * (width / c->patch);
    const double patch = (double)c->latent_channels * c->patch * c->patch;
    double block = 2 * n * C * (3 * C + C)                        /* qkv, proj */
                   + 4 * n * C * (c->linear_head_dim + 1)         /* linear attention */
                   + 2 * n * C * (C + C) + 2 * L * C * 2 * C      /* cross q, proj, kv */
                   + 4 * n * L * C                                /* its two products */
                   + 2 * n * C * 2 * h + 18 * n * 2 * h + 2 * n * h * C;
    double rest = 2 * 2 * n * patch * C                           /* patch in, patch out */
                  + 2 * 256 * C + 2 * C * C + 12 * C * C          /* timestep */
                  + 2 * L * D * C + 2 * L * C * C;                /* caption */
    return batch * (c->depth * block + rest);
}

int64_t model_limits_pixels(const struct model_limits *max)
{
    const int64_t all = (int64_t)max->batch * max->height * max->width;
    return max->pixels > 0 && max->pixels < all ? max->pixels : all;
}
