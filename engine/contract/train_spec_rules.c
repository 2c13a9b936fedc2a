/* SPDX-License-Identifier: Apache-2.0 */
/* train_spec_rules.c - rules between keys of `train:` */
#include "engine/contract/train_spec.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"

static int heads(const struct train_spec *s, const json_t *job, struct err *err)
{
    const struct model_config *m = &s->model;
    (void)job;
    if (m->hidden % m->heads != 0)
        return err_set(err, ERR_USAGE, "train.model.heads: %d does not divide model.hidden, which is %d", m->heads,
                       m->hidden);
    return 0;
}

static int linear_heads(const struct train_spec *s, const json_t *job, struct err *err)
{
    const struct model_config *m = &s->model;
    (void)job;
    if (m->family == MODEL_SANA && m->hidden % m->linear_head_dim != 0)
        return err_set(err, ERR_USAGE, "train.model.linear_head_dim: %d does not divide model.hidden, which is %d",
                       m->linear_head_dim, m->hidden);
    return 0;
}

static int kv_heads(const struct train_spec *s, const json_t *job, struct err *err)
{
    const struct model_config *m = &s->model;
    (void)job;
    if (m->family == MODEL_NEXTDIT && m->heads % m->kv_heads != 0)
        return err_set(err, ERR_USAGE, "train.model.kv_heads: %d does not divide model.heads, which is %d",
                       m->kv_heads, m->heads);
    if (m->family == MODEL_NEXTDIT && m->hidden / m->heads % 4 != 0)
        return err_set(err, ERR_USAGE, "train.model.heads: %d heads with model.hidden %d; channels "
                       "per head must be a multiple of 4", m->heads, m->hidden);
    return 0;
}

/* The preset determines the family; the key is for readers. */
static int family(const struct train_spec *s, const json_t *job, struct err *err)
{
    static const char *const names[] = {[MODEL_SANA] = "sana", [MODEL_NEXTDIT] = "lumina"};
    const json_t *model = json_object_get(json_object_get(job, "train"), "model");
    const char *said = json_string_value(json_object_get(model, "family"));
    const char *preset = json_string_value(json_object_get(model, "preset"));
    if (!said || strcmp(said, "auto") == 0 || strcmp(said, names[s->model.family]) == 0)
        return 0;
    return err_set(err, ERR_USAGE, "train.model.family: preset %s belongs to the family %s; use a preset of %s, or "
                   "leave the family out", preset ? preset : "tiny", names[s->model.family], said);
}

static int weights(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *train = json_object_get(json_object_get(job, "train"), "model");
    if (json_is_boolean(json_object_get(train, "weights_strict")) && !s->weights[0])
        return err_set(err, ERR_USAGE, "train.model.weights_strict: needs train.model.weights");
    return 0;
}

/* jobctl submit puts the file's values into the spec; in a spec that is not canonical they would be missing. */
static int config(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *train = json_object_get(job, "train");
    (void)s;
    if (!json_is_string(json_object_get(train, "config")) || json_object_get(json_object_get(train, "model"), "preset"))
        return 0;
    return err_set(err, ERR_USAGE, "train.config: jobctl submit reads this file; jobctl-train takes the output of jobctl "
                   "submit --dry-run --json");
}

static int lora_targets(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *lora = json_object_get(json_object_get(job, "train"), "lora");
    const json_t *list = json_object_get(lora, "targets");
    char known[400];
    (void)s;
    lora_config_list(known, sizeof(known));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && lora_config_targets(name) == 0)
            return err_set(err, ERR_USAGE, "train.lora.targets: no layer ends with %.60s; the layers are %s", name,
                           known);
    }
    if (list && json_array_size(list) == 0)
        return err_set(err, ERR_USAGE, "train.lora.targets: empty; name layers from %s", known);
    return 0;
}

static int prior(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *train = json_object_get(job, "train");
    if (json_object_size(json_object_get(train, "prior")) == 0)
        return 0;
    if (!s->prior.path[0])
        return err_set(err, ERR_USAGE, "train.prior.path: missing; name a folder of pictures of the subject's class");
    if (s->encoders == ENCODERS_SYNTHETIC || s->encoders == ENCODERS_FEATURES)
        return err_set(err, ERR_USAGE, "train.prior: pictures need data.encoders of sana, lumina or dct+hash");
    return 0;
}

static int lora(const struct train_spec *s, const json_t *job, struct err *err)
{
    if (json_object_size(json_object_get(json_object_get(job, "train"), "lora")) == 0)
        return 0;
    if (s->model.lora.rank < 1)
        return err_set(err, ERR_USAGE, "train.lora.rank: missing; usual values are 4 to 64");
    if (s->model.family != MODEL_SANA)
        return err_set(err, ERR_USAGE, "train.lora: not supported for Lumina-Next; use a preset of Sana");
    if (!s->weights[0])
        return err_set(err, ERR_USAGE, "train.lora: train.model.weights is missing: adapters need trained weights, "
                       "which stay unchanged");
    return 0;
}

static int data_path(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (!s->data_path[0] && s->encoders != ENCODERS_SYNTHETIC)
        return err_set(err, ERR_USAGE,
                       "train.data.path: missing; name the folder that holds the training data");
    return 0;
}

static int check_suffixes(const json_t *list, const char *key, struct err *err)
{
    size_t i;
    json_t *row;
    if (json_array_size(list) > TRAIN_SPEC_SUFFIXES)
        return err_set(err, ERR_USAGE, "train.data.%s: at most %d", key, TRAIN_SPEC_SUFFIXES);
    json_array_foreach((json_t *)(uintptr_t)list, i, row) {
        const char *text = json_string_value(row);
        if (!text || strlen(text) >= TRAIN_SPEC_SUFFIX || strchr(text, '/'))
            return err_set(err, ERR_USAGE, "train.data.%s: \"%.80s\" cannot be part of a file's name, or is longer "
                           "than %d bytes", key, text ? text : "?", TRAIN_SPEC_SUFFIX - 1);
    }
    return 0;
}

static int suffixes(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *data = json_object_get(json_object_get(job, "train"), "data");
    (void)s;
    if (check_suffixes(json_object_get(data, "caption_suffixes"), "caption_suffixes", err) < 0)
        return -1;
    return check_suffixes(json_object_get(data, "score_suffixes"), "score_suffixes", err);
}

static int text_features(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->text_features[0] && s->encoders != ENCODERS_FEATURES)
        return err_set(err, ERR_USAGE, "train.data.text_features: only with data.encoders: features");
    return 0;
}

static int synthetic_source(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->encoders == ENCODERS_SYNTHETIC && (s->data_path[0] || s->multi_scale))
        return err_set(err, ERR_USAGE, "train.data.%s: synthetic samples have one size and "
                       "no path; remove the key", s->data_path[0] ? "path" : "multi_scale");
    return 0;
}

static int synthetic_size(const struct train_spec *s, const json_t *job, struct err *err)
{
    const int edge = SYNTHETIC_SHRINK * s->model.patch;
    (void)job;
    if (s->encoders == ENCODERS_SYNTHETIC && (s->resolution < edge || s->resolution % edge))
        return err_set(err, ERR_USAGE, "train.data.resolution: required for synthetic samples; a "
                       "multiple of %d (%d x model.patch)", edge, SYNTHETIC_SHRINK);
    return 0;
}

static int multi_scale(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if ((s->encoders == ENCODERS_DCT_HASH || train_spec_encodes(s)) && s->multi_scale && s->resolution == 0)
        return err_set(err, ERR_USAGE, "train.data.multi_scale: needs data.resolution, which "
                                       "determines the sizes of the buckets");
    return 0;
}

static int resolution(const struct train_spec *s, const json_t *job, struct err *err)
{
    const int edge = s->dct_block * s->model.patch;
    (void)job;
    if (s->encoders == ENCODERS_DCT_HASH && s->resolution % edge != 0)
        return err_set(err, ERR_USAGE,
                       "train.data.resolution: %d is not a multiple of %d (data.dct_block x model.patch)",
                       s->resolution, edge);
    return 0;
}

static int encoders(const struct train_spec *s, const json_t *job, struct err *err)
{
    const char *none = !s->encode.vae[0] ? "vae" : !s->encode.text[0] ? "text_encoder" : NULL;
    (void)job;
    if (train_spec_encodes(s) && none && !s->weights[0])
        return err_set(err, ERR_USAGE, "train.data.%s: missing; name the encoder's weights, or a diffusers folder in "
                       "train.model.weights", none);
    return 0;
}

/* Block transforms and hashed words are for toys: a model of a released size does not get them by omission. */
static int encoders_named(const struct train_spec *s, const json_t *job, struct err *err)
{
    static const char *const toys[] = {"tiny", "icons", "lumina-tiny"};
    const json_t *train = json_object_get(job, "train");
    const char *said = json_string_value(json_object_get(json_object_get(train, "data"), "encoders"));
    const char *preset = json_string_value(json_object_get(json_object_get(train, "model"), "preset"));
    bool toy = !preset;
    for (size_t i = 0; preset && i < sizeof(toys) / sizeof(*toys); i++)
        toy |= strcmp(preset, toys[i]) == 0;
    if (toy || (said && strcmp(said, "auto") != 0))
        return 0;
    return err_set(err, ERR_USAGE, "train.data.encoders: missing; preset %s needs encoders: %s for pictures and captions, "
                   "or features for latents and text rows; dct+hash only trains toys", preset,
                   s->model.family == MODEL_NEXTDIT ? "lumina" : "sana");
}

/* Keys of published encoders beside data that they do not read would have no effect. */
static int encoders_keys(const struct train_spec *s, const json_t *job, struct err *err)
{
    static const char *const keys[] = {"vae", "text_encoder", "tokenizer", "instruction", "cache"};
    const json_t *data = json_object_get(json_object_get(job, "train"), "data");
    for (size_t i = 0; !train_spec_encodes(s) && i < sizeof(keys) / sizeof(*keys); i++)
        if (json_is_string(json_object_get(data, keys[i])))
            return err_set(err, ERR_USAGE, "train.data.%s: only with data.encoders: sana or lumina", keys[i]);
    return 0;
}

static int encoders_family(const struct train_spec *s, const json_t *job, struct err *err)
{
    const bool lumina = s->encoders == ENCODERS_LUMINA;
    (void)job;
    if (train_spec_encodes(s) && lumina != (s->model.family == MODEL_NEXTDIT))
        return err_set(err, ERR_USAGE, "train.data.encoders: %s does not fit a preset of the family %s; use %s",
                       lumina ? "lumina" : "sana", lumina ? "sana" : "lumina", lumina ? "sana" : "lumina");
    return 0;
}

static int betas(const struct train_spec *s, const json_t *job, struct err *err)
{
    const bool came = s->optim.type == OPTIM_CAME;
    const json_t *optimizer = json_object_get(json_object_get(job, "train"), "optimizer");
    const size_t n = json_array_size(json_object_get(optimizer, "betas"));
    if (n > 0 && n != (came ? 3u : 2u))
        return err_set(err, ERR_USAGE, "train.optimizer.betas: %s takes %d numbers, not %zu",
                       came ? "came" : "adamw", came ? 3 : 2, n);
    for (int i = 0; i < 3; i++)
        if (s->optim.beta[i] >= 1)
            return err_set(err, ERR_USAGE, "train.optimizer.betas: each must be below 1");
    return 0;
}

static int micro(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->batch_micro > s->batch_global)
        return err_set(err, ERR_USAGE, "train.batch.micro: %d is more than batch.global, which is %d", s->batch_micro,
                       s->batch_global);
    return 0;
}

static int steps(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->steps < 1)
        return err_set(err, ERR_USAGE,
                       "train.steps: missing; set the number of optimizer steps");
    return 0;
}

static int warmup(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->steps > 0 && s->schedule.warmup > s->steps)
        return err_set(err, ERR_USAGE, "train.schedule.warmup: %lld steps are more than the run's %lld",
                       (long long)s->schedule.warmup, (long long)s->steps);
    return 0;
}

static int pictures(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->encoders != ENCODERS_DCT_HASH && !train_spec_encodes(s) && (s->sample_before || s->sample_after))
        return err_set(err, ERR_USAGE, "train.sample.%s: latents of other programs cannot be decoded to pictures; this "
                       "needs data.encoders: sana, lumina or dct+hash", s->sample_before ? "before" : "after");
    return 0;
}

static int prompts(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *block = json_object_get(json_object_get(job, "train"), "validate");
    const json_t *list = json_object_get(block, "prompts");
    if (json_object_size(block) == 0)
        return 0;
    if (!s->validate.prompts)
        return err_set(err, ERR_USAGE, "train.validate.prompts: missing; name texts to draw, such as [\"a photo of a "
                       "dog\"]");
    if (json_array_size(list) > VALIDATE_PROMPTS)
        return err_set(err, ERR_USAGE, "train.validate.prompts: %zu texts; at most %d", json_array_size(list),
                       VALIDATE_PROMPTS);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_string_length(json_array_get(list, i)) > VALIDATE_PROMPT)
            return err_set(err, ERR_USAGE, "train.validate.prompts: text %zu is longer than %d bytes", i + 1,
                           VALIDATE_PROMPT);
    return 0;
}

static int prompts_source(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (!s->validate.prompts || s->encoders == ENCODERS_DCT_HASH || train_spec_encodes(s))
        return 0;
    return err_set(err, ERR_USAGE, "train.validate.prompts: data.encoders has no text encoder for prompts and no decoder "
                   "for pictures; this needs sana, lumina or dct+hash");
}

/* Released weights know the empty caption. */
static int prompts_guidance(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->validate.prompts && s->validate.guidance != 1 && s->model.caption_dropout == 0 && !s->weights[0])
        return err_set(err, ERR_USAGE, "train.validate.guidance: needs caption_dropout above 0, or the model never "
                       "learns the empty caption; without guidance it is 1");
    return 0;
}

static int guidance(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->sample_cfg != 1 && s->model.caption_dropout == 0 &&
        (s->sample_before || s->sample_after))
        return err_set(err, ERR_USAGE, "train.sample.cfg: guidance needs caption_dropout above 0, "
                                       "or the model never learns the empty caption");
    return 0;
}

static int checkpoint_every(const struct train_spec *s, const json_t *job, struct err *err)
{
    const json_t *every = json_object_get(json_object_get(job, "checkpoint"), "every");
    if (every && !json_is_integer(json_object_get(every, "steps")) &&
        !json_is_number(json_object_get(every, "seconds")))
        return err_set(err, ERR_USAGE,
                       "checkpoint.every: expected {\"steps\": N} or {\"seconds\": N}");
    if (s->checkpoint_every_steps < 1 && !(s->checkpoint_every_s > 0))
        return err_set(err, ERR_USAGE, "checkpoint.every: must be more than 0");
    return 0;
}

static int checkpoint_keep(const struct train_spec *s, const json_t *job, struct err *err)
{
    (void)job;
    if (s->checkpoint_keep < 1 || s->checkpoint_keep > 1000000)
        return err_set(err, ERR_USAGE, "checkpoint.keep: expected a whole number of at least 1");
    return 0;
}

const struct train_rule *train_spec_rules(void)
{
    static const struct train_rule rules[] = {
        {"train.model.heads|train.model.hidden|train.model.preset", heads},
        {"train.model.family|train.model.preset", family},
        {"train.model.kv_heads|train.model.heads|train.model.hidden|train.model.preset", kv_heads},
        {"train.model.linear_head_dim|train.model.hidden|train.model.preset", linear_heads},
        {"train.model.weights|train.model.weights_strict", weights},
        {"train.config|train.model.preset", config},
        {"train.lora.targets", lora_targets},
        {"train.lora|train.lora.rank|train.model.preset|train.model.weights", lora},
        {"train.data.path|train.data.encoders", data_path},
        {"train.data.path|train.data.multi_scale|train.data.encoders", synthetic_source},
        {"train.data.caption_suffixes|train.data.score_suffixes", suffixes},
        {"train.data.text_features|train.data.encoders", text_features},
        {"train.data.resolution|train.model.patch|train.model.preset|train.data.encoders",
         synthetic_size},
        {"train.data.multi_scale|train.data.resolution|train.data.encoders", multi_scale},
        {"train.data.resolution|train.data.dct_block|train.model.patch|train.model.preset|"
         "train.data.encoders", resolution},
        {"train.data.encoders|train.data.vae|train.data.text_encoder|train.model.weights", encoders},
        {"train.data.vae|train.data.text_encoder|train.data.tokenizer|train.data.instruction|train.data.cache|"
         "train.data.encoders", encoders_keys},
        {"train.data.encoders|train.model.preset", encoders_named},
        {"train.data.encoders|train.model.preset", encoders_family},
        {"train.optimizer.betas|train.optimizer.type", betas},
        {"train.batch.micro|train.batch.global", micro},
        {"train.steps", steps},
        {"train.schedule.warmup|train.steps", warmup},
        {"train.sample.before|train.sample.after|train.data.encoders", pictures},
        {"train.sample.before|train.sample.after|train.sample.cfg|train.caption_dropout|train.data.encoders", guidance},
        {"train.prior|train.prior.path|train.data.encoders", prior},
        {"train.validate|train.validate.prompts", prompts},
        {"train.validate.prompts|train.data.encoders", prompts_source},
        {"train.validate.prompts|train.validate.guidance|train.caption_dropout|train.model.weights",
         prompts_guidance},
        {"checkpoint.every", checkpoint_every},
        {"checkpoint.keep", checkpoint_keep},
        {NULL, NULL},
    };
    return rules;
}
