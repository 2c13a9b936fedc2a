/* SPDX-License-Identifier: Apache-2.0 */
/* verify_vae_config.c - sizes of an autoencoder, from the keys of the authors' configurations */
#include <string.h>

#include "engine/base/err.h"
#include "engine/vae/vae_config.h"
#include "tests/verify/verify_internal.h"

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

int verify_vae_config(struct vae_config *out, bool dcae, const json_t *config, struct err *err)
{
    struct vae_config c = {.family = dcae ? VAE_DCAE : VAE_KL};
    const json_t *scale = json_object_get(config, "scaling_factor");
    if (whole(&c.latent, json_object_get(config, "latent_channels"), WIDTH_MAX, "latent_channels", err) < 0 ||
        (dcae ? parse_dcae(&c, config, err) : parse_kl(&c, config, err)) < 0 ||
        vae_config_check(&c, err) < 0)
        return -1;
    c.scale = json_is_number(scale) ? json_number_value(scale) : dcae ? 0.41407 : 0.13025;
    *out = c;
    return 0;
}
