/* SPDX-License-Identifier: Apache-2.0 */
/* train_spec_rows.c - the table of keys of the `train:` block; see train_spec.h
 *
 * Add a key here and in train_spec_parse(); nothing else knows the list.
 * A default of "auto" means that the program chooses, and the row says how.
 */
#include "engine/contract/train_spec.h"

#include <stddef.h>

#define AUTO "\"auto\""

/* clang-format off */
static const struct spec_field fields[] = {
    {.path = "config", .type = FIELD_PATH,
     .help = "a config file of NVlabs/Sana: its values apply to keys that this spec leaves out, except steps and "
             "data.path"},

    {.path = "model", .type = FIELD_MAP, .help = "the network"},
    {.path = "model.family", .type = FIELD_ENUM, .choices = "sana|lumina", .auto_ok = true, .def = AUTO,
     .help = "SanaMS, or Lumina-Next's Next-DiT; auto = the preset's"},
    {.path = "model.preset", .type = FIELD_ENUM,
     .choices = "tiny|icons|sana-600m|sana-1600m|sana-2400m|sana-3200m|sana-4800m|"
                "sana-1.5-1600m|sana-1.5-4800m|"
                "lumina-tiny|lumina-2b-gqa|lumina-2b",
     .def = "\"tiny\"", .help = "base configuration; each key below overrides one of its values"},
    {.path = "model.depth", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 256, .def = AUTO,
     .help = "number of blocks; auto = the preset's"},
    {.path = "model.hidden", .type = FIELD_INT, .auto_ok = true, .min = 8, .max = 16384,
     .def = AUTO,
     .help = "channels per token; auto = the preset's"},
    {.path = "model.heads", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 1024, .def = AUTO,
     .help = "heads of softmax attention, divides hidden; auto = the preset's"},
    {.path = "model.kv_heads", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 1024, .def = AUTO,
     .help = "lumina: heads of keys and values, divides heads; auto = the preset's"},
    {.path = "model.linear_head_dim", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 1024,
     .def = AUTO,
     .help = "sana: channels per linear-attention head, divides hidden; auto = 32"},
    {.path = "model.patch", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 64, .def = AUTO,
     .help = "edge of a token in latent pixels; auto = 1, or 2 for lumina"},
    {.path = "model.mlp_ratio", .type = FIELD_NUMBER, .auto_ok = true, .min = 0.25, .max = 16,
     .def = AUTO,
     .help = "inner channels of the feed-forward layers, as a multiple of hidden; auto = 2.5, or 8/3 "
             "for lumina, rounded up to a multiple of 256"},
    {.path = "model.qk_norm", .type = FIELD_BOOL, .auto_ok = true, .def = AUTO,
     .help = "norms on q and k of self-attention (lumina: also on captions); auto = the preset's"},
    {.path = "model.cross_norm", .type = FIELD_BOOL, .auto_ok = true, .def = AUTO,
     .help = "sana: RMSNorm on q and k of cross attention; auto = the preset's"},
    {.path = "model.y_norm", .type = FIELD_BOOL, .auto_ok = true, .def = AUTO,
     .help = "sana: RMSNorm on projected captions; auto = true"},
    {.path = "model.y_norm_scale", .type = FIELD_NUMBER, .auto_ok = true, .min = 1e-6, .max = 100,
     .def = AUTO,
     .help = "sana: initial weight of y_norm; auto = the preset's (0.01 for sana-*)"},

    {.path = "model.weights", .type = FIELD_PATH,
     .help = "trained weights to start from: .pth, .safetensors, an index of shards, a diffusers folder, "
             "hf://OWNER/REPO, or a checkpoint"},
    {.path = "model.weights_strict", .type = FIELD_BOOL,
     .help = "default true: the weights must have every tensor of the model and no others; false: missing ones are "
             "drawn at random, others ignored"},

    {.path = "lora", .type = FIELD_MAP,
     .help = "train low-rank adapters on the frozen weights in model.weights instead of all weights (Sana)"},
    {.path = "lora.rank", .type = FIELD_INT, .min = 1, .max = 4096,
     .help = "rank of each adapter, such as 16; required with lora"},
    {.path = "lora.alpha", .type = FIELD_NUMBER, .auto_ok = true, .min = 1e-6, .max = 1e6,
     .help = "an adapter is scaled by alpha / rank; default auto = the rank"},
    {.path = "lora.targets", .type = FIELD_STRINGS,
     .help = "layers with adapters, by the end of diffusers' names; default [to_q, to_k, to_v], all: with to_out.0, "
             "conv_inverted, conv_point"},
    {.path = "lora.base", .type = FIELD_ENUM, .choices = "bf16|fp32",
     .help = "how the frozen weights are kept; default bf16"},

    {.path = "data", .type = FIELD_MAP, .help = "the training data"},
    {.path = "data.path", .type = FIELD_PATH,
     .help = "folder of images and captions, or of feature shards; required unless synthetic"},
    {.path = "data.prompt", .type = FIELD_STRING, .max = 1023,
     .help = "caption for pictures in a folder that have no caption file, such as \"a photo of sks dog\""},
    {.path = "data.encoders", .type = FIELD_ENUM, .choices = "dct+hash|features|synthetic|sana|lumina",
     .auto_ok = true, .def = AUTO,
     .help = "auto = dct+hash for tiny, icons and lumina-tiny, required for other presets. dct+hash: built-in block DCT "
             "and hashed captions, for toys; features: shards of "
             "precomputed features; synthetic: random numbers, to measure speed and memory; sana, lumina: "
             "encode once, into a cache, with the published models' autoencoder and text encoder"},
    {.path = "data.vae", .type = FIELD_PATH,
     .help = "sana, lumina: the autoencoder, a file, a folder or a diffusers folder; absent = model.weights, if that is "
             "a diffusers folder"},
    {.path = "data.text_encoder", .type = FIELD_PATH,
     .help = "sana, lumina: folder of the text encoder (Gemma 2 for sana, Gemma for lumina); absent = model.weights, "
             "as for vae"},
    {.path = "data.tokenizer", .type = FIELD_PATH,
     .help = "sana, lumina: tokenizer.json, tokenizer.model, or their folder; absent = the text encoder's"},
    {.path = "data.instruction", .type = FIELD_PATH, .null_ok = true,
     .help = "sana: a file with the text that precedes each caption (complex human instruction); absent or null = "
             "none"},
    {.path = "data.caption_style", .type = FIELD_ENUM, .choices = "authors|diffusers", .def = "\"authors\"",
     .help = "sana, lumina: captions as they are, or in lower case and stripped as diffusers' pipelines do"},
    {.path = "data.text_rows", .type = FIELD_INT, .auto_ok = true, .min = 2, .max = 4096, .def = AUTO,
     .help = "sana, lumina: maximum tokens per caption; auto = 300, or 256 for lumina"},
    {.path = "data.text_dtype", .type = FIELD_ENUM, .choices = "bf16|fp32", .def = "\"bf16\"",
     .help = "sana, lumina: type in which the cache stores the text encoder's output; latents are fp32"},
    {.path = "data.cache", .type = FIELD_PATH,
     .help = "sana, lumina: folder of the cache, which all nodes and jobs share; absent = PATH.encoded beside the data"},
    {.path = "data.cache_shard", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 65536, .def = AUTO,
     .help = "sana, lumina: samples per file of the cache, the most that a killed rank loses; auto = 64, more beyond "
             "half a million samples"},
    {.path = "data.resolution", .type = FIELD_INT, .auto_ok = true, .min = 4, .max = 4096,
     .def = AUTO,
     .help = "images are scaled and cropped to this square, in pixels, or to sizes of its area "
             "if multi_scale; auto = original size, which must be the same for all"},
    {.path = "data.multi_scale", .type = FIELD_BOOL, .def = "false",
     .help = "sort samples into buckets by aspect ratio; a step takes its batch from one bucket"},
    {.path = "data.caption_suffixes", .type = FIELD_STRINGS, .def = "[]",
     .help = "more captions: NAME<suffix>.json beside images, SHARD<suffix>.json beside shards, {KEY: {KIND: TEXT}}"},
    {.path = "data.score_suffixes", .type = FIELD_STRINGS, .def = "[]",
     .help = "CLIP scores of captions, in files of the same form; each epoch draws captions by score"},
    {.path = "data.score_min", .type = FIELD_NUMBER, .min = 0, .max = 1e6, .def = "0.0",
     .help = "a caption with a lower score is used only if no caption of the picture has a higher one"},
    {.path = "data.score_temperature", .type = FIELD_NUMBER, .min = 0, .max = 1e6, .def = "1.0",
     .help = "a caption's probability is proportional to score^(1/temperature); below 0.01 counts as 0.01"},
    {.path = "data.text_features", .type = FIELD_PATH,
     .help = "folder of KEY.npz with caption_feature, for features in shards"},
    {.path = "data.sample_log", .type = FIELD_BOOL, .def = "false",
     .help = "log the samples of each step, for jobctl verify-data"},
    {.path = "data.dct_block", .type = FIELD_INT, .min = 1, .max = 32, .def = "4",
     .help = "edge of a DCT block in pixels; a token gets 3 * dct_block^2 channels"},
    {.path = "data.caption_words", .type = FIELD_INT, .min = 1, .max = 1024, .def = "16",
     .help = "hashed words kept per caption"},
    {.path = "data.caption_channels", .type = FIELD_INT, .min = 8, .max = 4096, .def = "64",
     .help = "numbers per hashed word"},

    {.path = "prior", .type = FIELD_MAP,
     .help = "prior preservation of DreamBooth: each step also takes a batch of other pictures of the subject's class"},
    {.path = "prior.path", .type = FIELD_PATH, .help = "folder of these pictures, like data.path; required with prior"},
    {.path = "prior.prompt", .type = FIELD_STRING, .max = 1023,
     .help = "caption for pictures that have no caption file, such as \"a photo of a dog\""},
    {.path = "prior.weight", .type = FIELD_NUMBER, .min = 0, .max = 1000,
     .help = "weight of their loss, which is added to the loss on data; default 1"},

    {.path = "tensorboard", .type = FIELD_BOOL, .def = "false",
     .help = "write event files for TensorBoard beside the checkpoints, in tensorboard/"},
    {.path = "backend", .type = FIELD_ENUM, .choices = "cuda", .auto_ok = true, .def = "\"cuda\"",
     .help = "for a job with GPUs: cuda = the GPUs must be usable; auto = use the CPU if they are not"},
    {.path = "precision", .type = FIELD_ENUM, .choices = "fp32|bf16", .auto_ok = true, .def = AUTO,
     .help = "auto = bf16 on a GPU, fp32 on the CPU, which supports nothing else"},
    {.path = "batch", .type = FIELD_MAP, .help = "samples per step"},
    {.path = "batch.global", .type = FIELD_INT, .min = 1, .max = 1048576, .def = "16",
     .help = "samples per optimizer step, over all ranks"},
    {.path = "batch.micro", .type = FIELD_INT, .auto_ok = true, .min = 1, .max = 65536, .def = AUTO,
     .help = "samples in memory at once; auto = the most that fits, or an eighth of the batch if "
             "reproducible"},
    {.path = "steps", .type = FIELD_INT, .min = 1, .max = 1e12,
     .help = "optimizer steps of the whole run; required"},

    {.path = "optimizer", .type = FIELD_MAP, .help = "the optimizer"},
    {.path = "optimizer.type", .type = FIELD_ENUM, .choices = "adamw|came", .def = "\"adamw\"",
     .help = "AdamW, or CAME as used by Sana's authors"},
    {.path = "optimizer.lr", .type = FIELD_NUMBER, .min = 1e-12, .max = 10, .def = "1.0e-4",
     .help = "peak learning rate"},
    {.path = "optimizer.weight_decay", .type = FIELD_NUMBER, .min = 0, .max = 10, .def = "0.0",
     .help = "decoupled weight decay"},
    {.path = "optimizer.betas", .type = FIELD_NUMBERS, .choices = "2-3", .auto_ok = true,
     .min = 0, .max = 1,
     .def = AUTO,
     .help = "auto = [0.9, 0.999] for adamw, [0.9, 0.999, 0.9999] for came; each below 1"},
    {.path = "optimizer.eps", .type = FIELD_NUMBER, .auto_ok = true, .min = 1e-38, .max = 1,
     .def = AUTO,
     .help = "auto = 1e-8 for adamw, 1e-30 for came"},
    {.path = "optimizer.eps_2", .type = FIELD_NUMBER, .auto_ok = true, .min = 1e-38, .max = 1,
     .help = "came: the second of its two eps; default auto = 1e-16"},
    {.path = "optimizer.clip", .type = FIELD_NUMBER, .min = 0, .max = 1e6, .def = "1.0",
     .help = "limit for the norm of all gradients together; 0 = no clipping"},
    {.path = "schedule", .type = FIELD_MAP, .help = "the learning rate over time"},
    {.path = "schedule.type", .type = FIELD_ENUM, .choices = "constant|cosine",
     .def = "\"constant\"",
     .help = "after the warm-up: constant, or a cosine decay"},
    {.path = "schedule.warmup", .type = FIELD_INT, .min = 0, .max = 1e12, .def = "0",
     .help = "steps of linear rise from 0"},
    {.path = "schedule.final", .type = FIELD_NUMBER, .min = 0, .max = 1, .def = "0.05",
     .help = "end of the cosine, as a fraction of lr"},

    {.path = "flow", .type = FIELD_MAP, .help = "noise levels"},
    {.path = "flow.shift", .type = FIELD_NUMBER, .min = 0.01, .max = 100, .def = "3.0",
     .help = "shifts noise levels up, for larger images"},
    {.path = "flow.logit_mean", .type = FIELD_NUMBER, .min = -10, .max = 10, .def = "0.0",
     .help = "mean of the logit-normal draw of timesteps"},
    {.path = "flow.logit_std", .type = FIELD_NUMBER, .min = 0.01, .max = 10, .def = "1.0",
     .help = "standard deviation of the logit-normal draw of timesteps"},
    {.path = "ema", .type = FIELD_NUMBER, .min = 0, .max = 0.999999999, .def = "0.0",
     .help = "rate of the moving average of the weights, such as 0.9999; 0 = none"},
    {.path = "caption_dropout", .type = FIELD_NUMBER, .min = 0, .max = 1, .def = "0.1",
     .help = "share of captions replaced by the empty caption; required for guidance"},
    {.path = "grad_checkpointing", .type = FIELD_BOOL, .auto_ok = true, .def = AUTO,
     .help = "recompute blocks instead of keeping activations; auto = only if they would not fit"},
    {.path = "memory_check", .type = FIELD_BOOL,
     .help = "refuse a run whose plan exceeds its device's memory; default true"},
    {.path = "parallel", .type = FIELD_ENUM, .choices = "ddp|zero1|fsdp", .auto_ok = true,
     .def = AUTO,
     .help = "what each rank keeps: all state, its part of the optimizer state, or its part of "
             "everything; auto = the first of these that fits in memory"},
    {.path = "reproducible", .type = FIELD_BOOL, .def = "false",
     .help = "the same bits with any number of ranks and after any restart"},
    {.path = "seed", .type = FIELD_INT, .min = 0, .max = 9007199254740992.0, .def = "1",
     .help = "seed of all random numbers"},

    {.path = "sample", .type = FIELD_MAP, .help = "pictures sampled from captions of the data"},
    {.path = "sample.before", .type = FIELD_BOOL,
     .def = "false", .help = "sample before training"},
    {.path = "sample.after", .type = FIELD_BOOL, .auto_ok = true, .def = AUTO,
     .help = "sample after training; auto = true with dct+hash"},
    {.path = "sample.steps", .type = FIELD_INT, .min = 1, .max = 1000,
     .def = "30", .help = "Euler steps"},
    {.path = "sample.count", .type = FIELD_INT, .min = 1, .max = 1024, .def = "16",
     .help = "number of captions, taken from the start of the data"},
    {.path = "sample.cfg", .type = FIELD_NUMBER, .min = 0, .max = 30, .def = "1.0",
     .help = "classifier-free guidance; 1 = none, 4.5 for large models"},

    {.path = "validate", .type = FIELD_MAP,
     .help = "pictures drawn from prompts while training, from the same noise each time"},
    {.path = "validate.prompts", .type = FIELD_STRINGS,
     .help = "texts to draw, a picture each; required with validate"},
    {.path = "validate.every", .type = FIELD_EVERY, .min = 1,
     .help = "default 250 steps; also before the first step and after the last"},
    {.path = "validate.steps", .type = FIELD_INT, .min = 1, .max = 1000, .help = "steps of the sampler; default 20"},
    {.path = "validate.guidance", .type = FIELD_NUMBER, .min = 0, .max = 30,
     .help = "classifier-free guidance; default 4.5; 1 = none"},
    {.path = "validate.sampler", .type = FIELD_ENUM, .choices = "flow_dpm_solver|euler",
     .help = "default flow_dpm_solver, as used by Sana's authors"},
    {.path = "validate.seed", .type = FIELD_INT, .min = 0, .max = 9007199254740992.0,
     .help = "seed of the noise; default the run's"},
    {.path = NULL},
};
/* clang-format on */

const struct spec_field *train_spec_fields(void)
{
    return fields;
}
