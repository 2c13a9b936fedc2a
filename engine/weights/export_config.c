/* SPDX-License-Identifier: Apache-2.0 */
/* export_config.c - the JSON files of diffusers' SanaPipeline; keys and classes are those of diffusers 0.32 */
#include "engine/weights/export_internal.h"

#include "engine/contract/json_make.h"

/* mlp_hidden is hidden * mlp_ratio, rounded down. */
json_t *export_config(const struct model_config *c, int sample)
{
    return json_make("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:i, s:b, s:f, s:n, "
                     "s:o}",
                     "_class_name", "SanaTransformer2DModel", "_diffusers_version", "0.32.0", "in_channels",
                     c->latent_channels, "out_channels", c->latent_channels, "num_attention_heads",
                     c->hidden / c->linear_head_dim, "attention_head_dim", c->linear_head_dim, "num_layers", c->depth,
                     "num_cross_attention_heads", c->heads, "cross_attention_head_dim", c->hidden / c->heads,
                     "cross_attention_dim", c->hidden, "caption_channels", c->caption_channels, "mlp_ratio",
                     (double)c->mlp_hidden / c->hidden, "dropout", 0.0, "attention_bias", 0, "sample_size", sample,
                     "patch_size", c->patch, "norm_elementwise_affine", 0, "norm_eps", 1e-6, "interpolation_scale",
                     "qk_norm", c->qk_norm ? json_text("rms_norm_across_heads") : json_null());
}

/* What is not in the directory is null: from_pretrained() takes it as an argument. */
json_t *export_index(void)
{
    return json_make("{s:s, s:s, s:[s,s], s:[n,n], s:[n,n], s:[s,s], s:[n,n]}", "_class_name", "SanaPipeline",
                     "_diffusers_version", "0.32.0", "scheduler", "diffusers", "DPMSolverMultistepScheduler",
                     "text_encoder", "tokenizer", "transformer", "diffusers", "SanaTransformer2DModel", "vae");
}

json_t *export_scheduler(double flow_shift)
{
    return json_make("{s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:b, s:f, s:b, s:s}", "_class_name",
                     "DPMSolverMultistepScheduler", "_diffusers_version", "0.32.0", "num_train_timesteps", 1000,
                     "prediction_type", "flow_prediction", "solver_order", 2, "algorithm_type", "dpmsolver++",
                     "solver_type", "midpoint", "use_flow_sigmas", 1, "flow_shift", flow_shift, "lower_order_final", 1,
                     "final_sigmas_type", "zero");
}
