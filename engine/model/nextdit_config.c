/* SPDX-License-Identifier: Apache-2.0 */
/* nextdit_config.c - settings of a Next-DiT from JSON in the authors' keys; its FLOPs */
#include <math.h>

#include "engine/base/err.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_internal.h"

enum { CONDITION_MOST = 1024, CAPTION_LEN = 256 };

int nextdit_cond(const struct model_config *c)
{
    return c->hidden < CONDITION_MOST ? c->hidden : CONDITION_MOST;
}

int nextdit_groups(const struct model_config *c)
{
    return c->hidden / c->heads * c->kv_heads;
}

int nextdit_out_width(const struct model_config *c)
{
    return c->patch * c->patch * c->latent_channels * (c->learn_sigma ? 2 : 1);
}

/* 2/3 of four times the width, times the authors' multiplier, rounded up. */
static int ffn_width(int hidden, double multiplier, int multiple)
{
    int width = (int)(2.0 * 4 * hidden / 3);
    if (multiplier > 0)
        width = (int)(multiplier * width);
    return (width + multiple - 1) / multiple * multiple;
}

int nextdit_config_parse(struct model_config *cfg, const json_t *config, struct err *err)
{
    struct model_config c = {.patch = 2, .latent_channels = 4, .caption_channels = 2048,
                             .caption_len = CAPTION_LEN, .learn_sigma = true};
    struct config_reader s = config_reader_open(config, "model", err);
    double multiplier = 0, eps = 1e-5;
    int multiple = 256;
    if (s.failed)
        return -1;
    config_reader_int(&s, "patch_size", &c.patch);
    config_reader_int(&s, "in_channels", &c.latent_channels);
    config_reader_int(&s, "dim", &c.hidden);
    config_reader_int(&s, "n_layers", &c.depth);
    config_reader_int(&s, "n_heads", &c.heads);
    config_reader_int(&s, "multiple_of", &multiple);
    config_reader_int(&s, "cap_feat_dim", &c.caption_channels);
    config_reader_number(&s, "ffn_dim_multiplier", &multiplier);
    config_reader_number(&s, "norm_eps", &eps);
    config_reader_bool(&s, "learn_sigma", &c.learn_sigma);
    config_reader_bool(&s, "qk_norm", &c.qk_norm);
    c.kv_heads = c.heads;
    config_reader_int(&s, "n_kv_heads", &c.kv_heads);
    config_reader_only(&s, "patch_size in_channels dim n_layers n_heads multiple_of cap_feat_dim ffn_dim_multiplier "
                           "norm_eps learn_sigma qk_norm n_kv_heads");
    if (s.failed)
        return -1;
    if (multiple < 1 || !(multiplier >= 0 && multiplier < 1024))
        return err_set(err, ERR_USAGE, "model.multiple_of must be 1 or more, ffn_dim_multiplier 0 to 1024");
    c.mlp_hidden = ffn_width(c.hidden, multiplier, multiple);
    c.norm_eps = (float)eps;
    *cfg = c;
    return 0;
}

int nextdit_config_check(const struct model_config *c, struct err *err)
{
    const struct {
        const char *name;
        int         value, least, most;
    } rows[] = {
        {"n_layers", c->depth, 1, 1000},
        {"dim", c->hidden, 4, 1 << 16},
        {"n_heads", c->heads, 1, 1 << 12},
        {"n_kv_heads", c->kv_heads, 1, 1 << 12},
        {"patch_size", c->patch, 1, 64},
        {"the width of feed_forward", c->mlp_hidden, 1, 1 << 20},
        {"in_channels", c->latent_channels, 1, 1 << 16},
        {"cap_feat_dim", c->caption_channels, 1, 1 << 20},
        {"the length of captions", c->caption_len, 1, 1 << 16},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return err_set(err, ERR_USAGE, "%s is %d; it must be from %d to %d", rows[i].name,
                           rows[i].value, rows[i].least, rows[i].most);
    if (c->hidden % c->heads || c->hidden / c->heads % 4)
        return err_set(err, ERR_USAGE, "dim %d over n_heads %d must be heads of a multiple of 4 channels",
                       c->hidden, c->heads);
    if (c->heads % c->kv_heads)
        return err_set(err, ERR_USAGE, "n_heads %d is not a multiple of n_kv_heads %d", c->heads, c->kv_heads);
    if (!(c->norm_eps > 0))
        return err_set(err, ERR_USAGE, "norm_eps is %g; it must be above 0", (double)c->norm_eps);
    if (!(c->caption_dropout >= 0 && c->caption_dropout <= 1))
        return err_set(err, ERR_USAGE, "the share of dropped captions is %g; it must be from 0 "
                       "to 1", (double)c->caption_dropout);
    return 0;
}

double nextdit_flops(const struct model_config *c, int batch, int height, int width, int text)
{
    const double C = c->hidden, G = nextdit_groups(c), F = c->mlp_hidden, E = c->caption_channels;
    const double A = nextdit_cond(c), S = text;
    const double n = (double)(height / c->patch) * (width / c->patch);
    const double patch = (double)c->latent_channels * c->patch * c->patch;
    const double block = 2 * n * C * (2 * C + 2 * G)      /* q, k, v, out */
                         + 2 * S * E * 2 * G              /* k and v of captions */
                         + 4 * n * (n + S) * C            /* scores, weighted sum of values */
                         + 2 * 3 * n * C * F              /* feed_forward */
                         + 2 * A * 4 * C;                 /* adaLN */
    const double rest = 2 * n * C * (patch + nextdit_out_width(c)) /* patch in, patch out */
                        + 2 * A * (256 + A + E + C);            /* time, caption, adaLN */
    return batch * (c->depth * block + rest);
}
