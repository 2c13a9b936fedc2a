/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_rows.c - see recipe_rows.h */
#include "controller/spec/recipe_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
static const struct recipe_row rows[] = {
    {"data.image_size", RECIPE_TAKE, "data.resolution"},
    {"data.data_dir", RECIPE_NOTHING, NULL},                    /* train.data.path */
    {"data.caption_proportion.", RECIPE_NOTHING, NULL},         /* train.data */
    {"data.external_caption_suffixes", RECIPE_NOTHING, NULL},
    {"data.external_clipscore_suffixes", RECIPE_NOTHING, NULL},
    {"data.clip_thr_temperature", RECIPE_NOTHING, NULL},
    {"data.clip_thr", RECIPE_NOTHING, NULL},
    {"data.del_img_clip_thr", RECIPE_NOTHING, NULL},
    {"data.load_text_feat", RECIPE_NOTHING, NULL},
    {"data.load_vae_feat", RECIPE_NOTHING, NULL},
    {"data.transform", RECIPE_NOTHING, NULL},
    {"data.type", RECIPE_NOTHING, NULL},
    {"data.sort_dataset", RECIPE_NOTHING, NULL},

    {"model.model", RECIPE_MAKE, NULL},
    {"model.image_size", RECIPE_TAKE, "data.resolution"},
    {"model.mixed_precision", RECIPE_MAKE, NULL},
    {"model.fp32_attention", RECIPE_MUST, "true"},
    {"model.load_from", RECIPE_MAKE, NULL},
    {"model.resume_from", RECIPE_MUST, "|latest"},              /* as `resume: latest`, the default */
    {"model.aspect_ratio_type", RECIPE_MUST, "ASPECT_RATIO_256|ASPECT_RATIO_512|ASPECT_RATIO_1024"},
    {"model.multi_scale", RECIPE_TAKE, "data.multi_scale"},
    {"model.attn_type", RECIPE_MUST, "linear"},
    {"model.linear_head_dim", RECIPE_TAKE, "model.linear_head_dim"},
    {"model.ffn_type", RECIPE_MUST, "glumbconv"},
    {"model.mlp_acts", RECIPE_MUST, "[silu, silu, ]"},
    {"model.mlp_ratio", RECIPE_TAKE, "model.mlp_ratio"},
    {"model.use_pe", RECIPE_MUST, "false"},
    {"model.pos_embed_type", RECIPE_NOTHING, NULL},             /* of use_pe, as the next */
    {"model.pe_interpolation", RECIPE_NOTHING, NULL},
    {"model.cfg_embed", RECIPE_MUST, "false"},
    {"model.cfg_embed_scale", RECIPE_NOTHING, NULL},            /* of cfg_embed */
    {"model.logvar", RECIPE_MUST, "false"},
    {"model.logvar_scale_factor", RECIPE_NOTHING, NULL},        /* of logvar */
    {"model.timestep_norm_scale_factor", RECIPE_MUST, "1.0|1"},
    {"model.patch_embed_kernel", RECIPE_MUST, "|1"},
    {"model.cross_attn_type", RECIPE_MUST, "flash|vanilla"},
    {"model.micro_condition", RECIPE_MUST, "false"},
    {"model.qk_norm", RECIPE_TAKE, "model.qk_norm"},
    {"model.cross_norm", RECIPE_TAKE, "model.cross_norm"},
    {"model.class_dropout_prob", RECIPE_TAKE, "caption_dropout"},
    {"model.pag_applied_layers", RECIPE_NOTHING, NULL},         /* guidance while sampling */

    {"vae.vae_type", RECIPE_MUST, "dc-ae|AutoencoderDC"},
    {"vae.vae_pretrained", RECIPE_NOTHING, NULL},               /* features are encoded already */
    {"vae.scale_factor", RECIPE_MUST, "0.41407"},
    {"vae.vae_latent_dim", RECIPE_MUST, "32"},
    {"vae.vae_downsample_rate", RECIPE_MUST, "32"},
    {"vae.sample_posterior", RECIPE_NOTHING, NULL},             /* DC-AE has none */

    {"text_encoder.text_encoder_name", RECIPE_MUST, "gemma-2-2b-it"},
    {"text_encoder.y_norm", RECIPE_TAKE, "model.y_norm"},
    {"text_encoder.y_norm_scale_factor", RECIPE_TAKE, "model.y_norm_scale"},
    {"text_encoder.model_max_length", RECIPE_MAKE, NULL},
    {"text_encoder.chi_prompt", RECIPE_MAKE, NULL},

    {"scheduler.predict_flow_v", RECIPE_MUST, "true"},
    {"scheduler.predict_v", RECIPE_MUST, "true"},
    {"scheduler.noise_schedule", RECIPE_MUST, "linear_flow"},
    {"scheduler.pred_sigma", RECIPE_MUST, "false"},
    {"scheduler.flow_shift", RECIPE_TAKE, "flow.shift"},
    {"scheduler.weighting_scheme", RECIPE_MUST, "logit_normal"},
    {"scheduler.logit_mean", RECIPE_TAKE, "flow.logit_mean"},
    {"scheduler.logit_std", RECIPE_TAKE, "flow.logit_std"},
    {"scheduler.vis_sampler", RECIPE_NOTHING, NULL},

    {"train.seed", RECIPE_TAKE, "seed"},
    {"train.train_batch_size", RECIPE_MAKE, NULL},
    {"train.gradient_accumulation_steps", RECIPE_MAKE, NULL},
    {"train.grad_checkpointing", RECIPE_TAKE, "grad_checkpointing"},
    {"train.gradient_clip", RECIPE_TAKE, "optimizer.clip"},
    {"train.use_fsdp", RECIPE_MAKE, NULL},
    {"train.optimizer.type", RECIPE_MAKE, NULL},
    {"train.optimizer.lr", RECIPE_MAKE, NULL},
    {"train.optimizer.betas", RECIPE_TAKE, "optimizer.betas"},
    {"train.optimizer.eps", RECIPE_MAKE, NULL},
    {"train.optimizer.weight_decay", RECIPE_TAKE, "optimizer.weight_decay"},
    {"train.auto_lr.rule", RECIPE_MUST, "sqrt"},
    {"train.lr_schedule", RECIPE_MUST, "constant"},
    {"train.lr_schedule_args.num_warmup_steps", RECIPE_TAKE, "schedule.warmup"},
    {"train.ema_update", RECIPE_MAKE, NULL},
    {"train.ema_rate", RECIPE_MAKE, NULL},
    {"train.load_from_optimizer", RECIPE_MUST, "false"},
    {"train.load_from_lr_scheduler", RECIPE_MUST, "false"},
    {"train.resume_lr_scheduler", RECIPE_NOTHING, NULL},        /* a resumed run always has it */
    {"train.num_epochs", RECIPE_NOTHING, NULL},                 /* train.steps */
    {"train.early_stop_hours", RECIPE_NOTHING, NULL},
    {"train.num_workers", RECIPE_NOTHING, NULL},
    {"train.local_save_vis", RECIPE_NOTHING, NULL},
    {"train.visualize", RECIPE_NOTHING, NULL},
    {"train.eval_sampling_steps", RECIPE_NOTHING, NULL},
    {"train.log_interval", RECIPE_NOTHING, NULL},
    {"train.save_model_epochs", RECIPE_NOTHING, NULL},          /* checkpoint.every */
    {"train.save_model_steps", RECIPE_NOTHING, NULL},
    {"train.work_dir", RECIPE_NOTHING, NULL},
    {"train.online_metric", RECIPE_NOTHING, NULL},
    {"train.eval_metric_step", RECIPE_NOTHING, NULL},
    {"train.online_metric_dir", RECIPE_NOTHING, NULL},
    {"work_dir", RECIPE_NOTHING, NULL},
};
/* clang-format on */

const struct recipe_row *recipe_row_find(const char *path)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const size_t n = strlen(rows[i].path);
        const bool below = rows[i].path[n - 1] == '.';
        if (below ? strncmp(path, rows[i].path, n) == 0 : strcmp(path, rows[i].path) == 0)
            return &rows[i];
    }
    return NULL;
}

struct pair {
    const char *theirs, *ours;
};

static const char *look_up(const struct pair *pairs, const char *theirs)
{
    while (pairs->theirs && strcmp(pairs->theirs, theirs) != 0)
        pairs++;
    return pairs->ours;
}

const char *recipe_meaning(const char *path)
{
    static const struct pair pairs[] = {
        {"model.use_pe", "position embeddings, which the models of 2K and 4K pixels have"},
        {"model.cfg_embed", "the guidance embedding of Sana-Sprint"},
        {"model.logvar", "the variance of Sana-Sprint"},
        {"model.timestep_norm_scale_factor", "the time scale of Sana-Sprint"},
        {NULL, NULL},
    };
    return look_up(pairs, path);
}

const char *recipe_preset(const char *model)
{
    static const struct pair pairs[] = {
        {"SanaMS_600M_P1_D28", "sana-600m"},   {"SanaMS_1600M_P1_D20", "sana-1600m"},
        {"SanaMS_2400M_P1_D30", "sana-2400m"}, {"SanaMS_3200M_P1_D40", "sana-3200m"},
        {"SanaMS_4800M_P1_D60", "sana-4800m"}, {NULL, NULL},
    };
    return look_up(pairs, model);
}

const char *recipe_optimizer(const char *type)
{
    static const struct pair pairs[] = {{"CAMEWrapper", "came"}, {"AdamW", "adamw"}, {NULL, NULL}};
    return look_up(pairs, type);
}
