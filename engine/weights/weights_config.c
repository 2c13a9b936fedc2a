/* SPDX-License-Identifier: Apache-2.0 */
/* weights_config.c - see weights_config.h */
#include "engine/weights/weights_config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/train_config.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_names.h"
#include "engine/weights/weights_source.h"

/* --- keys of config.json ------------------------------------------------------------------ */

enum fate {
    SHAPE, /* shapes and names of tensors show it */
    FREE,  /* the model computes the same with any value */
    MUST,  /* one of `value`, JSON separated by |; also what a file without the key means */
    SPEC   /* a size of the spec; `value`: what a file without the key means */
};

struct key {
    const char *name;
    enum fate   fate;
    const char *value;
    const char *what;                            /* of MUST: what another value would be; of SPEC: the spec's key */
    int       (*size)(const struct model_config *);
};

static int head_dim(const struct model_config *c)
{
    return c->linear_head_dim;
}

static int heads(const struct model_config *c)
{
    return c->heads;
}

#define POSITIONS "position embeddings, which the models of 2K and 4K pixels have"
#define SPRINT    "the guidance embedding of Sana-Sprint"

/* clang-format off */
static const struct key sana[] = {
    {"in_channels", SHAPE, NULL, NULL, NULL},
    {"out_channels", SHAPE, NULL, NULL, NULL},
    {"num_attention_heads", SHAPE, NULL, NULL, NULL}, /* times attention_head_dim: the channels */
    {"attention_head_dim", SPEC, "32", "linear_head_dim", head_dim},
    {"num_layers", SHAPE, NULL, NULL, NULL},
    {"num_cross_attention_heads", SPEC, "20", "heads", heads},
    {"cross_attention_head_dim", SHAPE, NULL, NULL, NULL},
    {"cross_attention_dim", SHAPE, NULL, NULL, NULL},
    {"caption_channels", SHAPE, NULL, NULL, NULL},
    {"mlp_ratio", SHAPE, NULL, NULL, NULL},
    {"dropout", MUST, "0", "dropout in training", NULL},
    {"attention_bias", MUST, "false", "biases in self-attention", NULL},
    {"sample_size", FREE, NULL, NULL, NULL}, /* of position embeddings */
    {"patch_size", SHAPE, NULL, NULL, NULL},
    {"norm_elementwise_affine", MUST, "false", "weights of the blocks' norms", NULL},
    {"norm_eps", MUST, "1e-6", "another epsilon of the blocks' norms", NULL},
    {"interpolation_scale", MUST, "null", POSITIONS, NULL},
    {"guidance_embeds", MUST, "false", SPRINT, NULL},
    {"guidance_embeds_scale", FREE, NULL, NULL, NULL}, /* of guidance_embeds */
    {"qk_norm", MUST, "null|\"rms_norm_across_heads\"", "another norm of queries and keys", NULL},
    {"timestep_scale", MUST, "1", "the time scale of Sana-Sprint", NULL},
    {NULL, FREE, NULL, NULL, NULL},
};

static const struct key lumina[] = {
    {"sample_size", FREE, NULL, NULL, NULL}, /* nothing is computed from it */
    {"patch_size", SHAPE, NULL, NULL, NULL},
    {"in_channels", SHAPE, NULL, NULL, NULL},
    {"hidden_size", SHAPE, NULL, NULL, NULL},
    {"num_layers", SHAPE, NULL, NULL, NULL},
    {"num_attention_heads", SPEC, "32", "heads", heads},
    {"num_kv_heads", SHAPE, NULL, NULL, NULL},
    {"multiple_of", SHAPE, NULL, NULL, NULL},
    {"ffn_dim_multiplier", SHAPE, NULL, NULL, NULL},
    {"norm_eps", MUST, "1e-5", "another epsilon of the norms", NULL},
    {"learn_sigma", SHAPE, NULL, NULL, NULL},
    {"qk_norm", SHAPE, NULL, NULL, NULL},
    {"cross_attention_dim", SHAPE, NULL, NULL, NULL},
    {"encoder_hidden_size", SHAPE, NULL, NULL, NULL},
    {"scaling_factor", MUST, "1", "another scale of the rotary positions", NULL},
    {NULL, FREE, NULL, NULL, NULL},
};

/* Without keys: known by name only. */
static const struct model {
    const char       *class, *name;
    const struct key *keys;
} models[] = {
    {"SanaTransformer2DModel", "Sana", sana},
    {"LuminaNextDiT2DModel", "Lumina-Next", lumina},
    {"Lumina2Transformer2DModel", "Lumina-Image 2.0", NULL},
    {"SanaControlNetModel", "a ControlNet of Sana", NULL},
    {"SanaVideoTransformer3DModel", "Sana-Video", NULL},
    {NULL, NULL, NULL},
};

/* Tensors of models that have those of Sana or Lumina-Next besides; a name that begins with '.' is a part of theirs. */
static const struct {
    const char *name, *what;
} foreign[] = {
    {"cfg_embedder.", SPRINT},
    {"time_embed.guidance_embedder.", SPRINT},
    {"logvar_linear.", "the variance of Sana-Sprint"},
    {"controlnet", "a ControlNet"},
    {".t_conv.", "the convolution over time of Sana-Video"},
    {".conv_temp.", "the convolution over time of Sana-Video"},
    {"noise_refiner.", "a refiner of Lumina-Image 2.0"},
    {"context_refiner.", "a refiner of Lumina-Image 2.0"},
};
/* clang-format on */

static void text_of(char *text, size_t size, const json_t *v)
{
    char *all = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, size, "%.60s", all ? all : "?");
    free(all);
}

static bool same(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b) : json_equal(a, b) == 1;
}

static bool is_one_of(const json_t *v, const char *values)
{
    for (const char *p = values; *p; p += strcspn(p, "|"), p += *p == '|') {
        json_t *one = json_loadb(p, strcspn(p, "|"), JSON_DECODE_ANY, NULL);
        const bool is = same(v, one);
        json_decref(one);
        if (is)
            return true;
    }
    return false;
}

static const struct key *find_key(const struct key *keys, const char *name)
{
    while (keys->name && strcmp(keys->name, name) != 0)
        keys++;
    return keys->name ? keys : NULL;
}

static int check_key(const char *path, const struct model *m, const char *name, const json_t *v, struct err *err)
{
    char text[64];
    const struct key *k = find_key(m->keys, name);
    if (k && (k->fate != MUST || is_one_of(v, k->value)))
        return 0;
    text_of(text, sizeof(text), v);
    if (k)
        return err_set(err, ERR_USAGE, "%s: %s is %s: %s, and jobctl does not support that; supported is %s", path, name,
                       text, k->what, k->value);
    return err_set(err, ERR_USAGE, "%s: %.60s is %s: jobctl does not know this key of %s, so it cannot compute the model; "
                   "if the key changes nothing, remove it", path, name, text, m->class);
}

static int check_size(const char *path, const struct key *k, const json_t *config, const struct model_config *cfg,
                      struct err *err)
{
    const int64_t is = field_int(config, k->name, atoi(k->value));
    if (is == k->size(cfg))
        return 0;
    return err_set(err, ERR_USAGE, "%s: %s is %lld, the spec says model.%s: %d", path, k->name, (long long)is, k->what,
                   k->size(cfg));
}

static int check_keys(const char *path, const struct model *m, const json_t *config, const struct model_config *cfg,
                      struct err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)config, name, v)
        if (name[0] != '_' && check_key(path, m, name, v, err) < 0) /* _class_name, _diffusers_version: about the file */
            return -1;
    for (const struct key *k = m->keys; cfg && k->name; k++)
        if (k->fate == SPEC && check_size(path, k, config, cfg, err) < 0)
            return -1;
    return 0;
}

static int check_class(const char *path, const json_t *config, const struct model_config *cfg, struct err *err)
{
    const char *class = field_text(config, "_class_name");
    const struct model *m = models;
    if (!class[0])
        return 0; /* of another program */
    while (m->class && strcmp(m->class, class) != 0)
        m++;
    if (m->keys)
        return check_keys(path, m, config, cfg, err);
    return err_set(err, ERR_USAGE, "%s: _class_name is %.60s%s%s, which jobctl does not support; supported are %s and %s",
                   path, class, m->name ? ": " : "", m->name ? m->name : "", models[0].class, models[1].class);
}

/* --- tensors ------------------------------------------------------------------------------ */

static bool is_zero(const struct tensor_view *v)
{
    float x[1024];
    for (size_t at = 0, n; at < v->count; at += n) {
        n = v->count - at < 1024 ? v->count - at : 1024;
        tensor_view_floats(x, v, at, n);
        for (size_t i = 0; i < n; i++)
            if (x[i] != 0)
                return false;
    }
    return true;
}

static const char *what_is(const char *name)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        if (foreign[i].name[0] == '.' ? strstr(name, foreign[i].name) != NULL
                                      : strncmp(name, foreign[i].name, strlen(foreign[i].name)) == 0)
            return foreign[i].what;
    return NULL;
}

static int check_tensor(const struct weights_source *w, const struct tensor_view *v, struct err *err)
{
    const bool positions = strcmp(v->name, "pos_embed") == 0 || strcmp(v->name, "patch_embed.pos_embed") == 0;
    const char *what = positions ? POSITIONS : what_is(v->name);
    if (!what || (positions && is_zero(v)))
        return 0;
    return err_set(err, ERR_USAGE, "%s: the tensor %s is %s%s, and jobctl does not support that", weights_source_path(w),
                   v->name, positions ? "not zero: " : "", what);
}

int weights_config_check(const struct weights_source *w, const struct model_config *cfg, struct err *err)
{
    char path[PATH_MAX];
    json_t *config;
    for (int i = 0; i < weights_source_len(w); i++)
        if (check_tensor(w, weights_source_at(w, i), err) < 0)
            return -1;
    if (weights_source_config(&config, path, w, err) < 0)
        return -1;
    const int rc = config ? check_class(path, config, cfg, err) : 0;
    json_decref(config);
    return rc;
}
