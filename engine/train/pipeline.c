/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c - see pipeline.h */
#include "engine/train/pipeline.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/hub/hub_cache.h"
#include "engine/model/layout.h"
#include "engine/weights/adapter.h"
#include "engine/weights/pretrained.h"
#include "engine/weights/weights_config.h"
#include "engine/weights/weights_source.h"
#include "engine/weights/weights_summary.h"

/* --- what it is ---------------------------------------------------------------------------- */

/* NULL: there is none. In the cache of a hub it is a link. */
static json_t *read_scheduler(const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/scheduler/scheduler_config.json", folder) >= (int)sizeof(path))
        return NULL;
    const int fd = safe_open_linked(path, O_RDONLY, NULL);
    json_t *config = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
    if (fd >= 0)
        close(fd);
    return config;
}

/* The keys of train.model that diffusers' configuration of a SanaTransformer2DModel tells; norms are seen in the
 * tensors. */
static void apply_config(json_t *model, const json_t *c, const struct weights_summary *s)
{
    const int64_t heads = field_int(c, "num_attention_heads", 0), dim = field_int(c, "attention_head_dim", 0);
    if (heads <= 0 || dim <= 0)
        return;
    json_object_set_new(model, "hidden", json_integer(heads * dim));
    json_object_set_new(model, "linear_head_dim", json_integer(dim));
    json_object_set_new(model, "depth", json_integer(field_int(c, "num_layers", 20)));
    json_object_set_new(model, "heads", json_integer(field_int(c, "num_cross_attention_heads", 20)));
    json_object_set_new(model, "patch", json_integer(field_int(c, "patch_size", 1)));
    json_object_set_new(model, "mlp_ratio", json_real(field_number(c, "mlp_ratio")));
    json_object_set_new(model, "qk_norm", json_boolean(s->qk_norm));
    json_object_set_new(model, "cross_norm", json_boolean(s->cross_norm));
}

static int look_at_weights(struct weights_summary *s, json_t **config, const char *path, struct err *err)
{
    struct weights_source *w = NULL;
    char file[PATH_MAX];
    if (weights_source_open(&w, path, "transformer", err) < 0)
        return err_prefix(err, "--weights: ");
    weights_summary_make(s, w);
    int rc = weights_config_check(w, NULL, err) < 0 ? -1 : weights_source_config(config, file, w, err);
    if (rc == 0 && s->naming == WEIGHTS_NAMINGS)
        rc = err_set(err, ERR_DATA, "%s has no tensors of Sana or Lumina-Next", path);
    weights_source_close(w);
    return rc < 0 ? err_prefix(err, "--weights: ") : 0;
}

static int make_model(json_t *model, int *sample, const struct pipeline_ask *ask, const char *path, struct err *err)
{
    struct weights_summary s;
    json_t *c = NULL;
    int rc = look_at_weights(&s, &c, path, err);
    const bool told = field_int(c, "num_attention_heads", 0) > 0;
    const char *preset = ask->preset ? ask->preset : rc == 0 && s.preset ? s.preset : "sana-1600m";
    if (rc == 0 && !ask->preset && !s.preset && !told)
        rc = err_set(err, ERR_USAGE, "--weights: %s is no released size, and has no config.json of diffusers; name the "
                     "preset that it was trained with: --preset NAME", path);
    json_object_set_new(model, "preset", json_text(preset));
    if (rc == 0 && told && weights_summary_is_sana(&s))
        apply_config(model, c, &s);
    *sample = (int)field_int(c, "sample_size", 0);
    json_decref(c);
    return rc;
}

static void set_path(json_t *data, const char *key, const char *value)
{
    if (value)
        json_object_set_new(data, key, json_text(value));
}

/* As a job that trains on it would say it. */
static json_t *make_job(struct pipeline *p, const struct pipeline_ask *ask, const char *path, struct err *err)
{
    json_t *scheduler = read_scheduler(path);
    const double shift = field_number(scheduler, "flow_shift");
    json_t *job = json_make("{s:{s:{s:s}, s:{s:s, s:s}, s:i, s:{s:f}}}", "train", "model", "weights", path, "data",
                            "path", "/", "encoders", "sana", "steps", 1, "flow", "shift",
                            isfinite(shift) && shift > 0 ? shift : 3);
    json_t *train = json_object_get(job, "train"), *data = json_object_get(train, "data");
    json_decref(scheduler);
    set_path(data, "vae", ask->vae);
    set_path(data, "text_encoder", ask->text_encoder);
    set_path(data, "tokenizer", ask->tokenizer);
    set_path(data, "instruction", ask->instruction);
    set_path(data, "caption_style", ask->style);
    if (!job)
        err_set(err, ERR_MEMORY, "out of memory for a spec");
    else if (make_model(json_object_get(train, "model"), &p->sample, ask, path, err) < 0)
        return json_decref(job), NULL;
    if (strncmp(field_text(json_object_get(train, "model"), "preset"), "lumina", 6) == 0)
        json_object_set_new(data, "encoders", json_text("lumina"));
    return job;
}

static int open_adapter(struct pipeline *p, const char *file, struct err *err)
{
    if (!file)
        return 0;
    if (adapter_open(&p->adapter, file, p->spec.model.depth, err) < 0)
        return err_prefix(err, "--lora: ");
    p->spec.model.lora = *adapter_config(p->adapter);
    return 0;
}

static int open_parts(struct pipeline *p, const struct pipeline_ask *ask, struct err *err)
{
    if (encoder_pair_find(&p->pair, &p->spec, err) < 0)
        return -1;
    p->spec.model.latent_channels = p->pair.vae_config.latent;
    p->spec.model.caption_channels = p->pair.width;
    p->spec.model.caption_len = p->pair.rows;
    if (open_adapter(p, ask->lora, err) < 0)
        return -1;
    return pretrained_of_spec(&p->weights, &p->spec, err);
}

int pipeline_open(struct pipeline *out, const struct pipeline_ask *ask, struct err *err)
{
    char path[PATH_MAX];
    struct pipeline p = {0};
    char parts[64] = "transformer,scheduler";
    if (!ask->vae)
        strcat(parts, ",vae");
    if (!ask->text_encoder)
        strcat(parts, ",text_encoder,tokenizer");
    if (hub_cache_open(path, ask->weights, parts, err) < 0)
        return err_prefix(err, "--weights: ");
    p.job = make_job(&p, ask, path, err);
    if (!p.job || train_spec_parse(&p.spec, p.job, err) < 0 || open_parts(&p, ask, err) < 0) {
        pipeline_close(&p);
        return -1;
    }
    *out = p;
    return 0;
}

void pipeline_close(struct pipeline *p)
{
    encoder_pair_free(&p->pair);
    pretrained_close(p->weights);
    adapter_close(p->adapter);
    json_decref(p->job);
    *p = (struct pipeline){0};
}

/* --- what it gives ------------------------------------------------------------------------- */

int pipeline_encode(const struct pipeline *p, const char *const *text, int n, float *y, float *mask, float *null,
                    struct err *err)
{
    struct text_encoder *t;
    const size_t rows = (size_t)p->pair.rows, each = rows * (size_t)p->pair.width;
    if (encoder_pair_open_text(&t, &p->pair, n > 1, err) < 0)
        return -1;
    float *unused = malloc(rows * sizeof(*unused));
    int rc = unused ? text_encoder_null(t, null, unused, err) : err_set(err, ERR_MEMORY, "out of memory for a caption");
    for (int i = 0; i < n && rc == 0; i++)
        rc = text_encoder_caption(t, text[i], strlen(text[i]), y + (size_t)i * each, mask + (size_t)i * rows, NULL, err);
    free(unused);
    text_encoder_close(t);
    return rc;
}

static int load(struct model *m, float *null, const struct pipeline *p, const float *rows, struct err *err)
{
    const struct layout *l = model_layout(m);
    const size_t n = (size_t)p->spec.model.caption_len * (size_t)p->spec.model.caption_channels;
    if (p->adapter) {
        memcpy(null, rows, n * sizeof(*null));
        return pretrained_freeze(p->weights, m, NULL, err) < 0 ? -1 : adapter_read(p->adapter, l, model_weights(m), err);
    }
    if (null)
        memcpy(null, rows, n * sizeof(*null));
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (strcmp(t->name, "y_embedder.y_embedding") == 0)
            memcpy(model_weights(m) + t->offset, rows, n * sizeof(*rows));
        else if (!pretrained_read(p->weights, i, 0, t->count, model_weights(m) + t->offset))
            return err_set(err, ERR_DATA, "the weights lack %s", t->name);
    }
    return 0;
}

int pipeline_sampler(struct sampler **out, const struct pipeline *p, const struct sampler_config *cfg,
                     const float *null, struct err *err)
{
    struct sampler_config with = *cfg;
    with.model = p->spec.model;
    with.flow_shift = p->spec.flow_shift;
    if (model_config_check(&with.model, err) < 0 || sampler_create(out, &with, err) < 0)
        return -1;
    struct model *m = sampler_model(*out);
    if (load(m, sampler_null(*out), p, null, err) == 0 && model_push(m, err) == 0)
        return 0;
    sampler_destroy(*out);
    *out = NULL;
    return -1;
}
