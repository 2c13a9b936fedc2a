/* SPDX-License-Identifier: Apache-2.0 */
/* vae_source.c - see vae_source.h */
#include "engine/vae/vae_source.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/hub/hub_cache.h"
#include "engine/vae/vae_names.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

const struct vae_config vae_source_dcae = {
    .family = VAE_DCAE, .latent = 32, .stages = 6, .width = {128, 256, 512, 512, 1024, 1024},
    .encoder_depth = {2, 2, 2, 3, 3, 3}, .decoder_depth = {3, 3, 3, 3, 3, 3},
    .attention = {false, false, false, true, true, true}, .scale = 0.41407};
const struct vae_config vae_source_sdxl = {
    .family = VAE_KL, .latent = 4, .stages = 4, .width = {128, 256, 512, 512}, .encoder_depth = {2, 2, 2, 2},
    .decoder_depth = {3, 3, 3, 3}, .groups = 32, .scale = 0.13025};

/* --- tensors by the names that the loader asks for ------------------------------------------- */

/* Files from before diffusers 0.12 name the attention in another way. */
static void old_name(char out[VAE_NAME], const char *name)
{
    static const char *const words[][2] = {
        {".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}};
    out[0] = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        const char *at = strstr(name, words[i][0]);
        if (at)
            snprintf(out, VAE_NAME, "%.*s%s%s", (int)(at - name), name, words[i][1], at + strlen(words[i][0]));
    }
}

/* The tensors whose rows are those of `name`; 0: none. */
static int find(const struct tensor_view *out[VAE_NAME_PARTS], const struct weights_source *w, const char *name)
{
    char names[VAE_NAME_PARTS][VAE_NAME];
    if ((out[0] = weights_source_find(w, name)))
        return 1;
    old_name(names[0], name);
    if (names[0][0] && (out[0] = weights_source_find(w, names[0])))
        return 1;
    const int parts = vae_names_diffusers(names, name);
    for (int i = 0; i < parts; i++)
        if (!(out[i] = weights_source_find(w, names[i])))
            return 0;
    return parts;
}

static const float *tensor(void *arg, const char *name, size_t rows, size_t each, float *scratch, struct err *err)
{
    const struct weights_source *w = arg;
    const struct tensor_view *v[VAE_NAME_PARTS];
    const int parts = find(v, w, name);
    size_t count = 0;
    for (int i = 0; i < parts; i++)
        count += v[i]->count;
    if (parts == 0 || count != rows * each)
        return err_set(err, ERR_DATA, "%s: tensor %s %s", weights_source_path(w), name,
                       parts ? "has another size than the rest of the autoencoder" : "is missing"), NULL;
    float *to = scratch;
    for (int i = 0; i < parts; to += v[i]->count, i++)
        tensor_view_floats(to, v[i], 0, v[i]->count);
    return scratch;
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* Rows of a tensor; 0: there is none. */
static int rows_of(const struct weights_source *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int rows_of(const struct weights_source *w, const char *format, ...)
{
    char name[VAE_NAME];
    const struct tensor_view *v[VAE_NAME_PARTS];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    return find(v, w, name) && v[0]->ndim > 0 && v[0]->dim[0] < INT_MAX ? (int)v[0]->dim[0] : 0;
}

/* The width of block `block` of a stage; 0: there is none. */
static int block_width(const struct weights_source *w, const char *half, int stage, int block, bool *attention)
{
    const int wide = rows_of(w, "%s.stages.%d.op_list.%d.context_module.main.proj.conv.weight", half, stage, block);
    *attention = wide > 0;
    return wide ? wide : rows_of(w, "%s.stages.%d.op_list.%d.main.conv1.conv.weight", half, stage, block);
}

/* Blocks from number `first` on. */
static int count_blocks(const struct weights_source *w, const char *half, int stage, int first)
{
    bool attention;
    int n = 0;
    while (block_width(w, half, stage, first + n, &attention))
        n++;
    return n;
}

static void measure_dcae(struct vae_config *c, const struct weights_source *w)
{
    c->latent = rows_of(w, "encoder.project_out.main.op_list.0.conv.weight");
    while (c->stages < VAE_STAGES &&
           (c->width[c->stages] = block_width(w, "encoder", c->stages, 0, &c->attention[c->stages])))
        c->stages++;
    for (int i = 0; i < c->stages; i++) {
        c->encoder_depth[i] = count_blocks(w, "encoder", i, 0);
        c->decoder_depth[i] = count_blocks(w, "decoder", i, i < c->stages - 1);
    }
}

static void measure_kl(struct vae_config *c, const struct weights_source *w)
{
    c->latent = rows_of(w, "post_quant_conv.weight");
    while (c->stages < VAE_STAGES &&
           (c->width[c->stages] = rows_of(w, "encoder.down_blocks.%d.resnets.0.conv1.weight", c->stages)))
        c->stages++;
    for (int i = 0; i < c->stages; i++) {
        while (rows_of(w, "encoder.down_blocks.%d.resnets.%d.conv1.weight", i, c->encoder_depth[i]))
            c->encoder_depth[i]++;
        while (rows_of(w, "decoder.up_blocks.%d.resnets.%d.conv1.weight", c->stages - 1 - i, c->decoder_depth[i]))
            c->decoder_depth[i]++;
    }
}

static int read_beside(struct vae_config *c, const struct weights_source *w, struct err *err)
{
    char path[PATH_MAX];
    json_t *config;
    if (weights_source_config(&config, path, w, err) < 0)
        return -1;
    const json_t *scale = json_object_get(config, "scaling_factor");
    const json_t *groups = json_object_get(config, "norm_num_groups");
    if (json_number_value(scale) > 0)
        c->scale = json_number_value(scale);
    if (json_integer_value(groups) > 0 && json_integer_value(groups) < 1 << 14)
        c->groups = (int)json_integer_value(groups);
    json_decref(config);
    return 0;
}

int vae_source_config(struct vae_config *out, const struct weights_source *w, struct err *err)
{
    const bool kl = rows_of(w, "encoder.down_blocks.0.resnets.0.conv1.weight") > 0;
    struct vae_config c = {.family = kl ? VAE_KL : VAE_DCAE, .groups = kl ? 32 : 0};
    c.scale = kl ? vae_source_sdxl.scale : vae_source_dcae.scale;
    if (kl)
        measure_kl(&c, w);
    else
        measure_dcae(&c, w);
    if (c.stages == 0 || c.latent == 0)
        return err_set(err, ERR_DATA, "%s: neither a DC-AE with residual and EViTS5_GLU blocks nor an "
                       "AutoencoderKL with quant_conv; no other autoencoder is supported", weights_source_path(w));
    if (read_beside(&c, w, err) < 0)
        return -1;
    if (vae_config_check(&c, err) < 0)
        return err_prefix(err, "%s: ", weights_source_path(w));
    *out = c;
    return 0;
}

static int open_on(struct vae **out, struct vae_config *cfg, const char *name, enum vae_half half,
                   const struct kern_ops *ops, struct err *err)
{
    char path[PATH_MAX];
    struct weights_source *w = NULL;
    if (hub_cache_open(path, name, "vae", err) < 0 || weights_source_open(&w, path, "vae", err) < 0)
        return -1;
    const struct vae_weights weights = {tensor, w, ops};
    const int rc = vae_source_config(cfg, w, err) < 0 ? -1 : vae_create(out, cfg, half, &weights, err);
    weights_source_close(w);
    return rc;
}

int vae_source_open(struct vae **out, struct vae_config *cfg, const char *name, enum vae_half half, struct err *err)
{
    return open_on(out, cfg, name, half, NULL, err);
}

int vae_source_open_host(struct vae **out, struct vae_config *cfg, const char *name, enum vae_half half,
                         struct err *err)
{
    return open_on(out, cfg, name, half, kern_cpu(), err);
}

/* --- digest ------------------------------------------------------------------------------------ */

static void add_config(struct digest *d, const struct vae_config *c)
{
    char text[160];
    snprintf(text, sizeof(text), "vae %d latent %d stages %d groups %d scale %.17g", (int)c->family, c->latent,
             c->stages, c->groups, c->scale);
    digest_add_text(d, text);
    for (int i = 0; i < c->stages; i++) {
        snprintf(text, sizeof(text), "%d %d %d", c->width[i], c->encoder_depth[i], (int)c->attention[i]);
        digest_add_text(d, text);
    }
}

static bool of_encoder(const struct tensor_view *v)
{
    return strncmp(v->name, "encoder.", strlen("encoder.")) == 0 ||
           strncmp(v->name, "quant_conv.", strlen("quant_conv.")) == 0;
}

int64_t vae_source_bytes(const struct weights_source *w)
{
    int64_t bytes = 0;
    for (int i = 0; i < weights_source_len(w); i++)
        if (of_encoder(weights_source_at(w, i)))
            bytes += (int64_t)(weights_source_at(w, i)->count * sizeof(float));
    return bytes;
}

static int digest_source(char text[DIGEST_TEXT], const struct vae_config *cfg, const struct weights_source *w,
                         struct err *err)
{
    struct digest *d;
    if (digest_create(&d, err) < 0)
        return -1;
    add_config(d, cfg);
    for (int i = 0; i < weights_source_len(w); i++)
        if (of_encoder(weights_source_at(w, i)))
            tensor_view_digest(d, weights_source_at(w, i));
    digest_text(d, text);
    digest_destroy(d);
    return 0;
}

int vae_source_digest(char text[DIGEST_TEXT], const char *path, struct err *err)
{
    struct vae_config cfg;
    struct weights_source *w = NULL;
    if (weights_source_open(&w, path, "vae", err) < 0)
        return -1;
    const int rc = vae_source_config(&cfg, w, err) < 0 ? -1 : digest_source(text, &cfg, w, err);
    weights_source_close(w);
    return rc;
}

/* --- random weights --------------------------------------------------------------------------- */

/* Matrices keep the size of what they are multiplied with; norms are 1, biases 0. */
static const float *draw(void *arg, const char *name, size_t rows, size_t each, float *scratch, struct err *err)
{
    uint64_t *next = arg;
    const struct rng r = rng_make(1, 0, ++*next, RNG_TEST);
    const float scale = (float)sqrt(3.0 / (double)each);
    const bool norm = each == 1 && strstr(name, "weight");
    (void)err;
    if (each > 1)
        rng_uniform(&r, scratch, 0, rows * each);
    for (size_t i = 0; i < rows * each; i++)
        scratch[i] = each > 1 ? (2 * scratch[i] - 1) * scale : norm ? 1.0f : 0.0f;
    return scratch;
}

int vae_source_random(struct vae **out, const struct vae_config *cfg, enum vae_half half, struct err *err)
{
    uint64_t next = 0;
    const struct vae_weights weights = {draw, &next, NULL};
    return vae_create(out, cfg, half, &weights, err);
}
