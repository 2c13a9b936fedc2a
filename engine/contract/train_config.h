/* SPDX-License-Identifier: Apache-2.0 */
/* train_config.h - settings of model, optimizer and learning rate: plain values
 *
 * A spec fills them in (train_spec.h); model.h, optim.h and schedule.h define their meaning. They
 * are separate so that the agent and the controller can read a spec without the engine's headers.
 */
#ifndef ENGINE_CONTRACT_TRAIN_CONFIG_H
#define ENGINE_CONTRACT_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum model_family { MODEL_SANA, MODEL_NEXTDIT };

/* Layers of a SanaMS block that can have a low-rank adapter (lora_config.h). */
enum lora_module {
    LORA_SELF_Q, LORA_SELF_K, LORA_SELF_V, LORA_SELF_OUT,
    LORA_CROSS_Q, LORA_CROSS_K, LORA_CROSS_V, LORA_CROSS_OUT,
    LORA_MLP_IN, LORA_MLP_OUT,
    LORA_MODULES
};

enum { LORA_EXCEPTIONS = 64 };

/* Overrides the adapter of one layer in one block, or with block -1 in all blocks. */
struct lora_exception {
    int              block;
    enum lora_module module;
    int              rank;    /* 0: none */
    double           alpha;
};

/* Low-rank adapters of a frozen model: W + scale B A, where scale is alpha / rank. */
struct lora_config {
    int      rank;            /* 0: no adapters, all weights are trained */
    double   alpha;
    bool     rslora;          /* scale is alpha / sqrt(rank) */
    bool     base_fp32;       /* the frozen weights are kept as fp32, else rounded to bf16 */
    unsigned targets;         /* bit 1 << module */
    int      exceptions;
    struct lora_exception exception[LORA_EXCEPTIONS]; /* a later one overrides an earlier one */
};

struct model_config {
    enum model_family family;
    int    depth;
    int    hidden;            /* C */
    int    heads;             /* of softmax attention; divides C */
    int    patch;             /* p */
    int    mlp_hidden;        /* F */
    bool   qk_norm;
    int    latent_channels;   /* of x */
    int    caption_channels;  /* D */
    int    caption_len;       /* at most; Sana: L of y_embedder.y_embedding */
    float  caption_dropout;   /* class_dropout_prob */
    /* SanaMS */
    int    linear_head_dim;   /* divides C; 32 in every published config */
    bool   cross_norm;
    bool   y_norm;
    float  y_norm_scale;      /* initial weight of attention_y_norm */
    float  y_norm_eps;
    /* Next-DiT */
    int    kv_heads;          /* divides heads */
    float  norm_eps;
    bool   learn_sigma;       /* the last layer computes channels that are not used */
    struct lora_config lora;  /* the trained adapters, if not all weights are trained */
};

enum optim_type { OPTIM_ADAMW, OPTIM_CAME };

struct optim_config {
    enum optim_type type;
    double          beta[3];      /* CAME uses the third */
    double          eps[2];       /* CAME uses the second */
    double          weight_decay;
    double          clip;         /* 0 = no clip */
    double          clip_threshold; /* CAME's rms limit, 1 */
    double          ema;          /* 0 = none */
};

enum schedule_type { SCHEDULE_CONSTANT, SCHEDULE_COSINE };

struct schedule {
    enum schedule_type type;
    double             lr;
    int64_t            warmup;
    int64_t            steps;  /* of the whole run; needed by cosine */
    double             floor;  /* cosine ends at lr * floor */
};

/* Shape of synthetic samples (synthetic.h): latents of `channels` channels, at 1/32 of the
 * resolution. */
enum { SYNTHETIC_CHANNELS = 32, SYNTHETIC_SHRINK = 32 };

#endif
