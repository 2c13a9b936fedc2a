/* SPDX-License-Identifier: Apache-2.0 */
/* train_spec.c - canonical JSON to struct train_spec, driven by the table of keys
 *
 * First every given key is checked against its row, then values are read, with
 * the row's default where a key is absent: hand-written JSON may omit
 * whatever a YAML file may omit.  Rules between keys are checked last, on
 * the filled struct (train_spec_rules.c).
 */
#include "engine/contract/train_spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"

#define LUMINA_RATIO (8.0 / 3) /* of feed_forward, then rounded up to a multiple */

/* linear_head_dim and y_norm are Sana's, kv_heads and mlp_multiple (0: none) Next-DiT's. */
struct preset {
    const char       *name;
    enum model_family family;
    int               depth, hidden, heads, linear_head_dim, patch;
    double            mlp_ratio;
    bool              qk_norm, cross_norm, y_norm;
    double            y_norm_scale;
    int               kv_heads, mlp_multiple;
};

/* clang-format off */
static const struct preset presets[] = {
    {"tiny",           MODEL_SANA,  2,   64,  2, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"icons",          MODEL_SANA,  3,  256,  8, 32, 1, 2.5, true,  false, true, 0.3,  0, 0},
    {"sana-600m",      MODEL_SANA, 28, 1152, 16, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"sana-1600m",     MODEL_SANA, 20, 2240, 20, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"sana-2400m",     MODEL_SANA, 30, 2240, 20, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"sana-3200m",     MODEL_SANA, 40, 2240, 20, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"sana-4800m",     MODEL_SANA, 60, 2240, 20, 32, 1, 2.5, false, false, true, 0.01, 0, 0},
    {"sana-1.5-1600m", MODEL_SANA, 20, 2240, 20, 32, 1, 2.5, true,  true,  true, 0.01, 0, 0},
    {"sana-1.5-4800m", MODEL_SANA, 60, 2240, 20, 32, 1, 2.5, true,  true,  true, 0.01, 0, 0},
    {"lumina-tiny",    MODEL_NEXTDIT, 2, 64,  4, 0,  2, LUMINA_RATIO, true, false, false, 0, 2, 64},
    {"lumina-2b-gqa",  MODEL_NEXTDIT, 24, 2304, 32, 0, 2, LUMINA_RATIO, true, false, false, 0, 8,
     256},
    {"lumina-2b",      MODEL_NEXTDIT, 24, 2304, 32, 0, 2, LUMINA_RATIO, true, false, false, 0, 32,
     256},
};
/* clang-format on */

static const struct spec_field *row_find(const char *path)
{
    for (const struct spec_field *f = train_spec_fields(); f->path; f++)
        if (strcmp(f->path, path) == 0)
            return f;
    return NULL;
}

/* Every key of `block` must have a row, and every value must fit it. */
static int check_block(json_t *block, const char *prefix, struct err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach (block, key, v) {
        char path[128], whole[136];
        int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
        const struct spec_field *f = n < (int)sizeof(path) ? row_find(path) : NULL;
        if (!f)
            return err_set(err, ERR_USAGE, "train.%s%s%.80s: unknown key", prefix, *prefix ? "." : "", key);
        snprintf(whole, sizeof(whole), "train.%s", path);
        if (json_is_null(v) ? 0 : spec_field_check(f, whole, v, err) < 0 ||
                                      (f->type == FIELD_MAP && check_block(v, path, err) < 0))
            return -1;
    }
    return 0;
}

/* The value at a path of a checked block, or its default; NULL if neither exists. The
 * caller owns the reference. */
static json_t *value_of(const json_t *train, const char *path)
{
    const struct spec_field *f = row_find(path);
    const json_t *v = train;
    char part[64];
    for (const char *p = path; v && *p; p += strcspn(p, "."), p += *p == '.') {
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(p, "."), p);
        v = json_object_get(v, part);
    }
    if (v && !json_is_null(v))
        return json_incref((json_t *)(uintptr_t)v);
    return f && f->def ? json_loads(f->def, JSON_DECODE_ANY, NULL) : NULL;
}

static double number_of(const json_t *train, const char *path, double when_auto)
{
    json_t *v = value_of(train, path);
    double x = json_is_number(v) ? json_number_value(v) : when_auto;
    json_decref(v);
    return x;
}

static int64_t int_of(const json_t *train, const char *path, int64_t when_auto)
{
    json_t *v = value_of(train, path);
    int64_t x = json_is_integer(v) ? json_integer_value(v) : when_auto;
    json_decref(v);
    return x;
}

static bool bool_of(const json_t *train, const char *path, bool when_auto)
{
    json_t *v = value_of(train, path);
    bool x = json_is_boolean(v) ? json_is_true(v) : when_auto;
    json_decref(v);
    return x;
}

static bool word_is(const json_t *train, const char *path, const char *word)
{
    json_t *v = value_of(train, path);
    bool same = json_is_string(v) && strcmp(json_string_value(v), word) == 0;
    json_decref(v);
    return same;
}

static void copy_text(char *dst, size_t size, const json_t *v)
{
    snprintf(dst, size, "%s", json_is_string(v) ? json_string_value(v) : "");
}

/* A list of short texts, as far as there is room: a rule refuses the rest. */
static int copy_list(char (*to)[TRAIN_SPEC_SUFFIX], const json_t *train, const char *path)
{
    json_t *list = value_of(train, path);
    const size_t n = json_array_size(list);
    const int len = n < TRAIN_SPEC_SUFFIXES ? (int)n : TRAIN_SPEC_SUFFIXES;
    for (int i = 0; i < len; i++)
        copy_text(to[i], TRAIN_SPEC_SUFFIX, json_array_get(list, (size_t)i));
    json_decref(list);
    return len;
}

static const struct preset *preset_of(const json_t *train)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
        if (word_is(train, "model.preset", presets[i].name))
            return &presets[i];
    return &presets[0];
}

/* Rounds up to a multiple. */
static int up_to(int n, int multiple)
{
    return multiple > 0 ? (n + multiple - 1) / multiple * multiple : n;
}

static void fill_model(struct train_spec *s, const json_t *train)
{
    const struct preset *p = preset_of(train);
    struct model_config *m = &s->model;
    m->family = p->family;
    m->depth = (int)int_of(train, "model.depth", p->depth);
    m->hidden = (int)int_of(train, "model.hidden", p->hidden);
    m->heads = (int)int_of(train, "model.heads", p->heads);
    m->linear_head_dim = (int)int_of(train, "model.linear_head_dim", p->linear_head_dim);
    m->patch = (int)int_of(train, "model.patch", p->patch);
    m->mlp_hidden = up_to((int)(m->hidden * number_of(train, "model.mlp_ratio", p->mlp_ratio)), p->mlp_multiple);
    m->kv_heads = (int)int_of(train, "model.kv_heads", p->kv_heads < m->heads ? p->kv_heads : m->heads);
    m->norm_eps = 1e-5f;
    m->learn_sigma = p->family == MODEL_NEXTDIT;
    m->qk_norm = bool_of(train, "model.qk_norm", p->qk_norm);
    m->cross_norm = bool_of(train, "model.cross_norm", p->cross_norm);
    m->y_norm = bool_of(train, "model.y_norm", p->y_norm);
    m->y_norm_scale = (float)number_of(train, "model.y_norm_scale", p->y_norm_scale);
    m->y_norm_eps = 1e-5f;
    m->caption_dropout = (float)number_of(train, "caption_dropout", 0.1);
}

static unsigned targets_of(const json_t *list)
{
    unsigned bits = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)))
            bits |= lora_config_targets(json_string_value(json_array_get(list, i)));
    return bits;
}

static void fill_lora(struct lora_config *c, const json_t *train)
{
    json_t *targets = value_of(train, "lora.targets");
    c->rank = (int)int_of(train, "lora.rank", 0);
    c->alpha = number_of(train, "lora.alpha", c->rank);
    c->base_fp32 = word_is(train, "lora.base", "fp32");
    c->targets = targets ? targets_of(targets) : lora_config_default();
    json_decref(targets);
}

static void fill_path(char path[1024], const json_t *train, const char *key)
{
    json_t *value = value_of(train, key);
    copy_text(path, 1024, value);
    json_decref(value);
}

static void fill_prompts(struct train_spec *s, const json_t *train)
{
    json_t *data = value_of(train, "data.prompt"), *prior = value_of(train, "prior.prompt");
    copy_text(s->data_prompt, sizeof(s->data_prompt), data);
    copy_text(s->prior.prompt, sizeof(s->prior.prompt), prior);
    fill_path(s->prior.path, train, "prior.path");
    s->prior.weight = number_of(train, "prior.weight", 1);
    json_decref(data);
    json_decref(prior);
}

static void fill_encode(struct encode_config *e, const json_t *train)
{
    fill_path(e->vae, train, "data.vae");
    fill_path(e->text, train, "data.text_encoder");
    fill_path(e->tokenizer, train, "data.tokenizer");
    fill_path(e->instruction, train, "data.instruction");
    fill_path(e->cache, train, "data.cache");
    e->diffusers = word_is(train, "data.caption_style", "diffusers");
    e->text_fp32 = word_is(train, "data.text_dtype", "fp32");
    e->text_rows = (int)int_of(train, "data.text_rows", 0);
    e->shard = (int)int_of(train, "data.cache_shard", 0);
}

static void fill_data(struct train_spec *s, const json_t *train)
{
    json_t *path = value_of(train, "data.path");
    copy_text(s->data_path, sizeof(s->data_path), path);
    json_decref(path);
    s->encoders = word_is(train, "data.encoders", "features")    ? ENCODERS_FEATURES
                  : word_is(train, "data.encoders", "synthetic") ? ENCODERS_SYNTHETIC
                  : word_is(train, "data.encoders", "sana")      ? ENCODERS_SANA
                  : word_is(train, "data.encoders", "lumina")    ? ENCODERS_LUMINA
                                                                 : ENCODERS_DCT_HASH;
    fill_encode(&s->encode, train);
    fill_prompts(s, train);
    s->resolution = (int)int_of(train, "data.resolution", 0);
    s->multi_scale = bool_of(train, "data.multi_scale", false);
    s->sample_log = bool_of(train, "data.sample_log", false);
    s->tensorboard = bool_of(train, "tensorboard", false);
    s->caption_suffixes = copy_list(s->caption_suffix, train, "data.caption_suffixes");
    s->score_suffixes = copy_list(s->score_suffix, train, "data.score_suffixes");
    s->score_min = number_of(train, "data.score_min", 0);
    s->score_temperature = number_of(train, "data.score_temperature", 1);
    path = value_of(train, "data.text_features");
    copy_text(s->text_features, sizeof(s->text_features), path);
    json_decref(path);
    s->dct_block = (int)int_of(train, "data.dct_block", 0);
    s->caption_words = (int)int_of(train, "data.caption_words", 0);
    s->caption_channels = (int)int_of(train, "data.caption_channels", 0);
    if (s->encoders != ENCODERS_DCT_HASH)
        return;
    s->model.latent_channels = 3 * s->dct_block * s->dct_block;
    s->model.caption_channels = s->caption_channels;
    s->model.caption_len = s->caption_words;
}

static void fill_optim(struct train_spec *s, const json_t *train)
{
    struct optim_config *o = &s->optim;
    bool came = word_is(train, "optimizer.type", "came");
    o->type = came ? OPTIM_CAME : OPTIM_ADAMW;
    o->beta[0] = 0.9;
    o->beta[1] = 0.999;
    o->beta[2] = 0.9999;
    json_t *betas = value_of(train, "optimizer.betas");
    size_t n = json_is_array(betas) ? json_array_size(betas) : 0;
    for (size_t i = 0; i < n && i < 3; i++)
        o->beta[i] = json_number_value(json_array_get(betas, i));
    json_decref(betas);
    o->eps[0] = number_of(train, "optimizer.eps", came ? 1e-30 : 1e-8);
    o->eps[1] = number_of(train, "optimizer.eps_2", 1e-16);
    o->clip_threshold = 1;
    o->weight_decay = number_of(train, "optimizer.weight_decay", 0);
    o->clip = number_of(train, "optimizer.clip", 0);
    o->ema = number_of(train, "ema", 0);
    s->schedule.lr = number_of(train, "optimizer.lr", 0);
}

static void fill_run(struct train_spec *s, const json_t *train)
{
    s->batch_global = (int)int_of(train, "batch.global", 0);
    s->reproducible = bool_of(train, "reproducible", false);
    s->memory_check = bool_of(train, "memory_check", true);
    s->batch_micro = (int)int_of(train, "batch.micro", s->reproducible ? (s->batch_global + 7) / 8 : s->batch_global);
    json_t *micro = value_of(train, "batch.micro");
    s->micro_auto = !json_is_integer(micro);
    json_decref(micro);
    s->steps = int_of(train, "steps", 0);
    bool cosine = word_is(train, "schedule.type", "cosine");
    s->schedule.type = cosine ? SCHEDULE_COSINE : SCHEDULE_CONSTANT;
    s->schedule.steps = s->steps;
    s->schedule.warmup = int_of(train, "schedule.warmup", 0);
    s->schedule.floor = number_of(train, "schedule.final", 0);
    s->flow_shift = number_of(train, "flow.shift", 0);
    s->logit_mean = number_of(train, "flow.logit_mean", 0);
    s->logit_std = number_of(train, "flow.logit_std", 0);
    s->seed = (uint64_t)int_of(train, "seed", 0);
    copy_text(s->precision, sizeof(s->precision), json_object_get(train, "precision"));
    if (!s->precision[0])
        snprintf(s->precision, sizeof(s->precision), "auto");
    s->parallel = word_is(train, "parallel", "ddp")     ? PARALLEL_DDP
                  : word_is(train, "parallel", "zero1") ? PARALLEL_ZERO1
                  : word_is(train, "parallel", "fsdp")  ? PARALLEL_FSDP
                                                        : PARALLEL_AUTO;
    const bool again = bool_of(train, "grad_checkpointing", true);
    s->recompute = !again ? RECOMPUTE_OFF
                   : bool_of(train, "grad_checkpointing", false) ? RECOMPUTE_ON : RECOMPUTE_AUTO;
}

static void fill_sample(struct train_spec *s, const json_t *train)
{
    bool pictures = s->encoders == ENCODERS_DCT_HASH;
    s->sample_before = bool_of(train, "sample.before", false);
    s->sample_after = bool_of(train, "sample.after", pictures);
    s->sample_steps = (int)int_of(train, "sample.steps", 0);
    s->sample_count = (int)int_of(train, "sample.count", 0);
    s->sample_cfg = number_of(train, "sample.cfg", 0);
}

static void fill_validate(struct validate_config *v, const json_t *train, uint64_t seed)
{
    json_t *every = value_of(train, "validate.every");
    const json_t *prompts = json_object_get(json_object_get(train, "validate"), "prompts");
    *v = (struct validate_config){.prompts = json_array_size(prompts) > 0 ? prompts : NULL, .every = 250};
    if (json_is_integer(json_object_get(every, "steps")))
        v->every = json_integer_value(json_object_get(every, "steps"));
    v->steps = (int)int_of(train, "validate.steps", 20);
    v->guidance = number_of(train, "validate.guidance", 4.5);
    v->euler = word_is(train, "validate.sampler", "euler");
    v->seed = (uint64_t)int_of(train, "validate.seed", (int64_t)seed);
    json_decref(every);
}

static void fill_weights(struct train_spec *s, const json_t *job)
{
    const json_t *train = json_object_get(job, "train");
    json_t *path = value_of(train, "model.weights");
    copy_text(s->weights, sizeof(s->weights), path);
    s->weights_strict = bool_of(train, "model.weights_strict", true);
    json_decref(path);
}

/* The job's own keys; all optional, so that a hand-written spec can be short. */
static void fill_job(struct train_spec *s, const json_t *job)
{
    const json_t *c = json_object_get(job, "checkpoint");
    const json_t *every = json_object_get(c, "every");
    const json_t *steps = json_object_get(every, "steps");
    const json_t *seconds = json_object_get(every, "seconds");
    s->checkpoint_every_steps = !every ? 500 : steps ? json_integer_value(steps) : 0;
    s->checkpoint_every_s = seconds ? json_number_value(seconds) : 0;
    const json_t *keep = json_object_get(c, "keep");
    s->checkpoint_keep = keep ? (int)json_integer_value(keep) : 3;
    copy_text(s->checkpoint_dir, sizeof(s->checkpoint_dir), json_object_get(c, "dir"));
    if (strcmp(s->checkpoint_dir, "auto") == 0)
        s->checkpoint_dir[0] = '\0';
    copy_text(s->resume, sizeof(s->resume), json_object_get(job, "resume"));
    if (!s->resume[0])
        snprintf(s->resume, sizeof(s->resume), "latest");
    fill_weights(s, job);
    s->disk_wait_s = json_number_value(json_object_get(json_object_get(job, "retry"), "disk_wait"));
    const json_t *hang = json_object_get(job, "hang");
    s->hang_step_s = json_number_value(json_object_get(hang, "step"));
    s->hang_first_s = json_number_value(json_object_get(hang, "first_step"));
}

void train_spec_fill(struct train_spec *out, const json_t *job)
{
    const json_t *train = json_object_get(job, "train");
    *out = (struct train_spec){.steps = 0};
    fill_model(out, train);
    fill_lora(&out->model.lora, train);
    fill_data(out, train);
    fill_optim(out, train);
    fill_run(out, train);
    fill_sample(out, train);
    fill_validate(&out->validate, train, out->seed);
    fill_job(out, job);
}

int train_spec_parse(struct train_spec *out, const json_t *job, struct err *err)
{
    struct train_spec s;
    json_t *train = json_object_get(job, "train");
    if (!json_is_object(train))
        return err_set(err, ERR_USAGE,
                       "train: missing; the spec has no training run");
    if (check_block(train, "", err) < 0)
        return -1;
    train_spec_fill(&s, job);
    for (const struct train_rule *r = train_spec_rules(); r->reads; r++)
        if (r->check(&s, job, err) < 0)
            return -1;
    *out = s;
    return 0;
}
