/* SPDX-License-Identifier: Apache-2.0 */
/* vae_config.c - see vae_config.h */
#include "engine/vae/vae_config.h"

#include <string.h>

#include "engine/contract/err.h"

enum { WIDTH_MAX = 1 << 14, DEPTH_MAX = 64 };

static int whole(int *out, const json_t *v, int most, const char *key, struct err *err)
{
    const json_int_t n = json_integer_value(v);
    if (n < 1 || n > most)
        return err_set(err, ERR_DATA, "the configuration of the autoencoder has no %s from 1 to %d", key, most);
    *out = (int)n;
    return 0;
}

static int list(int out[VAE_STAGES], int stages, const json_t *config, const char *key, int most, struct err *err)
{
    const json_t *v = json_object_get(config, key);
    if (json_array_size(v) != (size_t)stages)
        return err_set(err, ERR_DATA, "%s of the autoencoder has %zu numbers; %d stages need as many", key,
                       json_array_size(v), stages);
    for (int i = 0; i < stages; i++)
        if (whole(&out[i], json_array_get(v, (size_t)i), most, key, err) < 0)
            return -1;
    return 0;
}

static int stages_of(struct vae_config *c, const json_t *config, const char *key, struct err *err)
{
    const size_t n = json_array_size(json_object_get(config, key));
    if (n < 1 || n > VAE_STAGES)
        return err_set(err, ERR_DATA, "%s of the autoencoder has %zu stages; 1 to %d are possible", key, n, VAE_STAGES);
    c->stages = (int)n;
    return list(c->width, c->stages, config, key, WIDTH_MAX, err);
}

static int block_types(struct vae_config *c, const json_t *types, struct err *err)
{
    for (int i = 0; i < c->stages; i++) {
        const char *t = json_string_value(json_array_get(types, (size_t)i));
        if (!t || (strcmp(t, "ResBlock") != 0 && strcmp(t, "EViTS5_GLU") != 0))
            return err_set(err, ERR_DATA, "block_type of stage %d of the autoencoder is %.40s; ResBlock and EViTS5_GLU "
                           "can be computed", i, t ? t : "missing");
        c->attention[i] = t[0] == 'E';
    }
    return 0;
}

/* depth_list stands for both halves. */
static int parse_dcae(struct vae_config *c, const json_t *config, struct err *err)
{
    const bool one = json_object_get(config, "depth_list") != NULL;
    if (stages_of(c, config, "width_list", err) < 0 ||
        list(c->encoder_depth, c->stages, config, one ? "depth_list" : "encoder_depth_list", DEPTH_MAX, err) < 0 ||
        list(c->decoder_depth, c->stages, config, one ? "depth_list" : "decoder_depth_list", DEPTH_MAX, err) < 0)
        return -1;
    return block_types(c, json_object_get(config, "block_type"), err);
}

static int parse_kl(struct vae_config *c, const json_t *config, struct err *err)
{
    int layers = 0;
    if (stages_of(c, config, "block_out_channels", err) < 0 ||
        whole(&layers, json_object_get(config, "layers_per_block"), DEPTH_MAX - 1, "layers_per_block", err) < 0 ||
        whole(&c->groups, json_object_get(config, "norm_num_groups"), WIDTH_MAX, "norm_num_groups", err) < 0)
        return -1;
    for (int i = 0; i < c->stages; i++) {
        c->encoder_depth[i] = layers;
        c->decoder_depth[i] = layers + 1;
    }
    return 0;
}

static bool divide(int a, int b)
{
    return a % b == 0;
}

static int check_dcae(const struct vae_config *c, struct err *err)
{
    const int last = c->stages - 1;
    for (int i = 0; i < c->stages; i++)
        if (c->attention[i] && c->width[i] % 32)
            return err_set(err, ERR_DATA, "stage %d of the autoencoder has attention and %d channels: not a multiple "
                           "of 32", i, c->width[i]);
    for (int i = 0; i < last; i++)
        if (!divide(4 * c->width[i], c->width[i + 1]))
            return err_set(err, ERR_DATA, "no shortcut leads from %d channels of the autoencoder to %d: 4 times the "
                           "first must be a multiple of the second", c->width[i], c->width[i + 1]);
    return divide(c->width[last], c->latent)
               ? 0
               : err_set(err, ERR_DATA, "%d channels of the autoencoder are not a multiple of its %d latent ones",
                         c->width[last], c->latent);
}

static int check_kl(const struct vae_config *c, struct err *err)
{
    for (int i = 0; i < c->stages; i++)
        if (!divide(c->width[i], c->groups))
            return err_set(err, ERR_DATA, "%d channels of the autoencoder are not a multiple of its %d groups",
                           c->width[i], c->groups);
    return 0;
}

int vae_config_check(const struct vae_config *c, struct err *err)
{
    return c->family == VAE_DCAE ? check_dcae(c, err) : check_kl(c, err);
}

int vae_config_parse(struct vae_config *out, enum vae_family family, const json_t *config, struct err *err)
{
    struct vae_config c = {.family = family};
    const json_t *scale = json_object_get(config, "scaling_factor");
    if (whole(&c.latent, json_object_get(config, "latent_channels"), WIDTH_MAX, "latent_channels", err) < 0 ||
        (family == VAE_DCAE ? parse_dcae(&c, config, err) : parse_kl(&c, config, err)) < 0 ||
        vae_config_check(&c, err) < 0)
        return -1;
    c.scale = json_is_number(scale) ? json_number_value(scale) : family == VAE_DCAE ? 0.41407 : 0.13025;
    *out = c;
    return 0;
}

int vae_config_factor(const struct vae_config *c)
{
    return 1 << (c->stages - 1);
}
