/* SPDX-License-Identifier: Apache-2.0 */
/* train_spec.h - the `train:` block of a job spec: every key, default and limit in one table
 *
 * The controller checks
 * a YAML file against the rows (with file, line and column), fills in defaults
 * and stores the result as canonical JSON; jobctl-train reads that JSON with
 * train_spec_parse().  Both use one table, so that they cannot disagree.
 */
#ifndef ENGINE_CONTRACT_TRAIN_SPEC_H
#define ENGINE_CONTRACT_TRAIN_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/spec_field.h"
#include "engine/contract/train_config.h"

struct err;

/* The rows of the `train:` block, ended by a row whose path is NULL. */
const struct spec_field *train_spec_fields(void);

enum { TRAIN_SPEC_SUFFIXES = 8, TRAIN_SPEC_SUFFIX = 64 };

enum encoders { ENCODERS_DCT_HASH, ENCODERS_FEATURES, ENCODERS_SYNTHETIC, ENCODERS_SANA, ENCODERS_LUMINA };

/* parallel: how a run's state is sharded over the ranks. */
enum parallel { PARALLEL_AUTO, PARALLEL_DDP, PARALLEL_ZERO1, PARALLEL_FSDP };

/* grad_checkpointing: blocks are recomputed in the backward pass. */
enum recompute { RECOMPUTE_AUTO, RECOMPUTE_OFF, RECOMPUTE_ON };

/* Encoders of published models, and where their output goes. Paths: "" = not given. */
struct encode_config {
    char vae[1024], text[1024], tokenizer[1024];
    char instruction[1024]; /* a file: the text that precedes each caption */
    char cache[1024];
    bool diffusers;         /* captions are changed as by diffusers' pipelines */
    bool text_fp32;         /* else computes in bf16 */
    int  text_rows;         /* 0 = the authors' length */
    int  shard;             /* samples per file; 0 = auto */
};

enum { VALIDATE_PROMPTS = 64, VALIDATE_PROMPT = 4096 /* bytes */ };

/* Pictures drawn from prompts while training. */
struct validate_config {
    const json_t *prompts;  /* a list of texts in the spec's JSON, which must outlive the struct; NULL: none */
    int64_t       every;    /* steps */
    int           steps;    /* number of the sampler's steps */
    double        guidance;
    bool          euler;    /* else flow-DPM-Solver++ */
    uint64_t      seed;
};

/* Prior preservation of DreamBooth: each step also takes a batch of other pictures of the subject's class. */
struct prior_config {
    char   path[1024]; /* "": none */
    char   prompt[1024]; /* directory of pictures without captions; "": none */
    double weight;     /* weight of their loss */
};

/* The spec as a struct, with defaults applied and presets expanded. */
struct train_spec {
    struct model_config model;   /* latent_channels and caption_* are derived from the data */
    struct optim_config optim;
    char     data_path[1024];
    char     data_prompt[1024];  /* for pictures without a caption; "": none */
    struct prior_config prior;
    int      resolution;         /* pixels; 0 = the size of the data */
    bool     multi_scale;        /* samples have several shapes */
    bool     sample_log;
    bool     tensorboard;
    enum encoders encoders;
    /* Captions of side files, and the choice among them (engine/collection/caption_choice.h). */
    int      caption_suffixes, score_suffixes;
    char     caption_suffix[TRAIN_SPEC_SUFFIXES][TRAIN_SPEC_SUFFIX];
    char     score_suffix[TRAIN_SPEC_SUFFIXES][TRAIN_SPEC_SUFFIX];
    double   score_min, score_temperature;
    char     text_features[1024]; /* directory of KEY.npz, or "" */
    int      dct_block;          /* pixels of a block's edge; 3 * block^2 latent channels */
    int      caption_words, caption_channels;
    struct encode_config encode;
    char     precision[8];       /* "auto", "fp32" or "bf16" */
    int      batch_global, batch_micro;
    bool     micro_auto;         /* batch_micro is an upper limit (fit.h) */
    bool     memory_check;       /* a run that cannot fit into the existing memory fails at once */
    enum recompute recompute;
    enum parallel           parallel;
    bool     reproducible;
    int64_t  steps;
    struct schedule schedule;
    double   flow_shift, logit_mean, logit_std;
    uint64_t seed;
    bool     sample_before, sample_after;
    int      sample_steps, sample_count;
    double   sample_cfg;
    struct validate_config validate;
    /* from the job's own keys: */
    int64_t  checkpoint_every_steps; /* 0 = by time */
    double   checkpoint_every_s;
    int      checkpoint_keep;
    char     checkpoint_dir[1024]; /* "" = auto */
    char     resume[1024];       /* "latest", "none" or a path */
    char     weights[1024];      /* load weights only from this path, or "" */
    bool     weights_strict;
    double   hang_step_s, hang_first_s; /* how long other ranks may be silent; 0 = auto */
    double   disk_wait_s;        /* how long a full disk may pause the run; 0: the run ends at once */
};

/* Are pictures and captions encoded by a published model's encoders, into a cache? */
static inline bool train_spec_encodes(const struct train_spec *s)
{
    return s->encoders == ENCODERS_SANA || s->encoders == ENCODERS_LUMINA;
}

/* `job` is the whole canonical spec (docs/SPEC.md); absent keys get their
 * defaults. A wrong value, an unknown key or an impossible combination is an
 * ERR_USAGE whose sentence begins with the key and a colon ("train.model.heads: ..."),
 * so that a caller who knows source positions can prepend file, line and column.
 * A failure leaves *out unchanged. No model is needed: the controller calls it too. */
int train_spec_parse(struct train_spec *out, const json_t *job, struct err *err);

/* The two steps after the check of each value by its row, for a caller that has done that
 * check and wants every error, not only the first: fill what can be filled, then check each rule.
 * `reads` lists the keys of a rule, separated by |; skip the rule if one of them is wrong. */
struct train_rule {
    const char *reads;
    int       (*check)(const struct train_spec *spec, const json_t *job, struct err *err);
};

void train_spec_fill(struct train_spec *out, const json_t *job);

/* Ended by a row whose `reads` is NULL. */
const struct train_rule *train_spec_rules(void);

#endif
