/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a diffusion transformer, forward and backward, as an ordered list of kernel calls
 *
 * One of two families: SanaMS (sana.c) and Next-DiT of Lumina-Next (nextdit.c). Parameter names are
 * their authors' state_dict names.
 *
 * All memory is allocated when the model is created, for its largest
 * batch; a step allocates nothing.  Weights and gradients each are one block
 * laid out by model_layout().  Not thread-safe: one model, one caller.
 *
 * The device is that of backend_ops() when the model was created.  Its arrays
 * may be in device memory: "kernel arrays" below are
 * pointers for kernels only, and the blocks of weights and gradients have a host
 * copy (view) that model_pull() and model_push() synchronize.  On the CPU view
 * and block are the same, and pull and push do nothing.
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/train_config.h"

struct err;
struct layout;
struct lora;
struct kern_ops;

/* The largest batch of a model, and what it keeps per block. */
struct model_limits {
    int  batch, height, width; /* latent size */
    int  text;                 /* caption tokens, at most caption_len */
    bool recompute;            /* keep only a block's input; its forward pass runs again before its
                                  backward pass, with the same bits */
    bool by_unit;              /* weights and gradients belong to the caller: model_on_units() */
    int64_t pixels;            /* limit of batch * height * width, if batches of large pictures
                                  are smaller; 0: the product of the three above */
};

int64_t model_limits_pixels(const struct model_limits *max);

/* One batch, read only. Row-major fp32; kernel arrays. */
struct model_input {
    int          batch, height, width, text;
    const float *x;           /* [B, channels, H, W] noisy latent */
    const float *timestep;    /* [B]; Sana: 0..999, truncated to integers as the authors do; Next-DiT: 0..1,
                                 0 is noise */
    const float *y;           /* [B, text, D] caption features; packed: [rows, D] */
    const void  *y_narrow;    /* packed: the same, narrow, where model_rounds_captions(); or NULL */
    const float *mask;        /* [B, text], 1 = real token; packed: [rows] */
    const int   *first;       /* [B + 1]: packed captions (text_rows.h) of at most `text` tokens; or
                                 NULL */
    int          rows;        /* packed: of all captions */
};

struct model;

/* Are captions used only as narrow numbers? Not by Next-DiT, which averages captions in fp32. */
bool model_rounds_captions(const struct model_config *cfg);

/* From a JSON config in the authors' keys ("model", "vae", "text_encoder", as in
 * the golden cases); the keys determine the family. An unknown architecture or an unsupported value
 * is an ERR_USAGE that names the key. */
int model_config_parse(struct model_config *cfg, const json_t *config, struct err *err);
int model_config_check(const struct model_config *cfg, struct err *err);

/* `train` false allocates neither gradients nor the buffers of the backward pass. */
int model_create(struct model **out, const struct model_config *cfg,
                 const struct model_limits *max, bool train, struct err *err);
void model_destroy(struct model *m);

const struct model_config *model_config(const struct model *m);
/* Direction of the velocity and of time. True (Next-DiT): the velocity leads from noise to data,
 * and time is the share of data, 0 to 1. False (Sana): from data to noise, and time is the share of
 * noise, 0 to 999. */
bool model_goes_to_data(const struct model *m);
const struct layout *model_layout(const struct model *m); /* the layout of what is trained: with cfg.lora, the
                                                           * adapters */
/* The layout of all weights; and the adapters on top of frozen weights (lora.h), or NULL. */
const struct layout *model_base_layout(const struct model *m);
struct lora *model_lora(const struct model *m);
/* The first without a model: allocates the table only. */
int model_layout_make(struct layout **out, const struct model_config *cfg, struct err *err);
/* The host view; call model_push() after writing weights, model_pull() before reading. */
float *model_weights(struct model *m);
float *model_grads(struct model *m);   /* NULL unless created for training */
int model_push(struct model *m, struct err *err);       /* weights */
int model_pull(struct model *m, struct err *err);       /* weights */
int model_pull_grads(struct model *m, struct err *err);
/* Kernel arrays. */
float *model_kernel_weights(struct model *m);
float *model_kernel_grads(struct model *m);
/* The narrow copy of the weights, as matrix products need it (kernels.h): code that changes the
 * weights must change both. The weights themselves if narrow is fp32. */
void *model_kernel_narrow(struct model *m);
const struct kern_ops *model_ops(const struct model *m);
/* CPU only: use the weights in this caller's memory, until the next call. */
void model_place(struct model *m, float *weights);
int64_t model_bytes(const struct model *m); /* bytes of device memory */

/* Initial weights as in the authors' code (xavier, N(0, 0.02), ...), from
 * the counter-based generator keyed by (seed, tensor name): the same seed gives the same
 * weights, whatever the platform's threads. Writes the host view only; push it afterwards. */
void model_init_weights(struct model *m, uint64_t seed);
/* The same for numbers [from, to) of a tensor of the layout, into the caller's memory. */
void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed, float *out);

/* Sets the sizes of the next passes, for a caller that replays a recorded pass (graph.h); the passes also set them. */
int model_set_sizes(struct model *m, const struct model_input *in, struct err *err);

/* out: [B, channels, H, W], a kernel array. Keeps what model_backward() needs. */
int model_forward(struct model *m, const struct model_input *in, float *out, struct err *err);
/* The same on host-memory buffers; reports errors of the device. */
int model_forward_host(struct model *m, const struct model_input *in, float *out, struct err *err);

/* After model_forward() of the same input: add d(loss)/d(param) to the gradients.
 * dout: [B, channels, H, W] = d(loss)/d(out). dy, if not NULL: the shape of y. */
int model_backward(struct model *m, const struct model_input *in, const float *dout, float *dy, struct err *err);

/* Called several times in each model_backward(): the gradients from offset `from` of their block on
 * are complete for this batch. NULL: no callback. */
typedef void (*model_ready_fn)(void *arg, size_t from);
void model_on_ready(struct model *m, model_ready_fn fn, void *arg);
/* Does a pass call these callbacks, or those of model_on_units()? */
bool model_calls_back(const struct model *m);

/* With limits.by_unit: callbacks that supply the weights of a unit of the layout before each use.
 * The callee may hold only one unit at a time. */
struct model_units {
    /* The unit's first number at *weights, and narrow (kernels.h) at *narrow, until the next call; for
     * a backward pass also zeroed memory for its gradients at *grads (else NULL). Kernel arrays. */
    void (*need)(void *arg, int unit, float **weights, void **narrow, float **grads);
    /* The unit's gradients are complete for this batch. */
    void (*done)(void *arg, int unit);
    void  *arg;
};
void model_on_units(struct model *m, const struct model_units *units);

/* Makes the unit callbacks of a forward and a backward pass, but computes nothing. */
void model_pass_idle(struct model *m);

/* FLOPs of one forward pass (matrix products and convolutions, 1 MAC = 2). */
double model_forward_flops(const struct model_config *cfg, int batch, int height, int width, int text);

/* Named activations of the last forward, for tests/verify ("blocks.0.attn" as in the
 * golden files' act.*); valid until the next call here. NULL if the name is unknown or the
 * activation is not kept (err untouched), or if it cannot be copied to host memory. */
const float *model_activation(struct model *m, const char *name, int64_t *count, struct err *err);

#endif
