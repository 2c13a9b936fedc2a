/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a diffusion transformer, forward and backward, as an ordered list of kernel calls
 *
 * One of two families: SanaMS (sana.c) and Next-DiT of Lumina-Next (nextdit.c). Parameter names are
 * their authors' state_dict names.
 *
 * Everything is allocated when the model is created, for the largest batch it
 * will see; a step allocates nothing.  Weights and gradients each are one block
 * laid out by model_layout().  Not thread-safe: one model, one caller.
 *
 * The device is that of backend_ops() when the model was created.  Its arrays
 * may lie in another memory than this process's: "kernel arrays" below are
 * pointers for kernels only, and the blocks of weights and gradients have a view
 * here that model_pull() and model_push() bring up to date.  On the CPU view
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
struct kern_ops;

/* The largest batch a model is created for, and what it keeps of one. */
struct model_limits {
    int  batch, height, width; /* latent size */
    int  text;                 /* caption tokens, at most caption_len */
    bool recompute;            /* of a block only its input: its forward pass runs again before its
                                  backward pass, with the same bits */
    bool by_unit;              /* weights and gradients are not the model's: model_on_units() */
    int64_t pixels;            /* the most that batch * height * width will be, where batches of large
                                  pictures are smaller; 0: of the three above */
};

int64_t model_limits_pixels(const struct model_limits *max);

/* One batch, read only. Row-major fp32; kernel arrays. */
struct model_input {
    int          batch, height, width, text;
    const float *x;           /* [B, channels, H, W] noisy latent */
    const float *timestep;    /* [B]; Sana: 0..999, truncated to integers as the authors do; Next-DiT: 0..1,
                                 0 is noise */
    const float *y;           /* [B, text, D] caption features; packed: [rows, D] */
    const float *mask;        /* [B, text], 1 = real token; packed: [rows] */
    const int   *first;       /* [B + 1]: packed captions (text_rows.h) of at most `text` tokens; or
                                 NULL */
    int          rows;        /* packed: of all captions */
};

struct model;

/* From a JSON config in the authors' keys ("model", "vae", "text_encoder", as in
 * the golden cases), which tell the family. An unknown architecture or a value we do not build is an
 * ERR_USAGE that names the key. */
int model_config_parse(struct model_config *cfg, const json_t *config, struct err *err);
int model_config_check(const struct model_config *cfg, struct err *err);

/* `train` false allocates neither gradients nor what backward needs. */
int model_create(struct model **out, const struct model_config *cfg,
                 const struct model_limits *max, bool train, struct err *err);
void model_destroy(struct model *m);

const struct model_config *model_config(const struct model *m);
/* Does its velocity lead from noise to data, and is its time the share of data, 0 to 1 (Next-DiT)? Else from
 * data to noise, and its time is the share of noise, 0 to 999 (Sana). */
bool model_goes_to_data(const struct model *m);
const struct layout *model_layout(const struct model *m);
/* The view here; model_push() after writing weights, model_pull() before reading. */
float *model_weights(struct model *m);
float *model_grads(struct model *m);   /* NULL unless created for training */
int model_push(struct model *m, struct err *err);       /* weights */
int model_pull(struct model *m, struct err *err);       /* weights */
int model_pull_grads(struct model *m, struct err *err);
/* Kernel arrays. */
float *model_kernel_weights(struct model *m);
float *model_kernel_grads(struct model *m);
/* The weights as products take them, narrow (kernels.h): who changes the weights changes them too.
 * The weights themselves where narrow is fp32. */
void *model_kernel_narrow(struct model *m);
const struct kern_ops *model_ops(const struct model *m);
/* On the CPU: the weights are what this memory of the caller holds, until the next call. */
void model_place(struct model *m, float *weights);
int64_t model_bytes(const struct model *m); /* of the device's memory */

/* Initial weights as the authors draw them (docs: xavier, N(0, 0.02), ...), from
 * the counter-based generator keyed by (seed, tensor name): same seed, same
 * weights, whatever the platform's threads. Writes the view: push afterwards. */
void model_init_weights(struct model *m, uint64_t seed);
/* The same for numbers [from, to) of a tensor of the layout, to memory of the caller. */
void model_init_range(const struct model *m, int tensor, size_t from, size_t to, uint64_t seed,
                      float *out);

/* The sizes that the next passes are of, until others are set: for who replays a pass that was
 * recorded (graph.h); the passes do it themselves. */
int model_set_sizes(struct model *m, const struct model_input *in, struct err *err);

/* out: [B, channels, H, W], a kernel array. Keeps what model_backward() needs. */
int model_forward(struct model *m, const struct model_input *in, float *out, struct err *err);
/* The same with input and output in this process's memory, and errors of the device told. */
int model_forward_host(struct model *m, const struct model_input *in, float *out,
                       struct err *err);

/* After model_forward() of the same input: add d(loss)/d(param) to the gradients.
 * dout: [B, channels, H, W] = d(loss)/d(out). dy, if not NULL: as y. */
int model_backward(struct model *m, const struct model_input *in, const float *dout, float *dy,
                   struct err *err);

/* Called in each model_backward(), some times: the gradients at offset `from` of their block and
 * after it are complete for this batch. With NULL nobody is. */
typedef void (*model_ready_fn)(void *arg, size_t from);
void model_on_ready(struct model *m, model_ready_fn fn, void *arg);
bool model_has_on_ready(const struct model *m);

/* With limits.by_unit: where the weights of a unit of the layout are, asked for before each use.
 * Whoever answers may hold no more than one unit at a time. */
struct model_units {
    /* The unit's first number at *weights, and narrow (kernels.h) at *narrow, until the next call; for
     * a backward pass, zeroes for its gradients at *grads, too (else NULL). Kernel arrays. */
    void (*need)(void *arg, int unit, float **weights, void **narrow, float **grads);
    /* The gradients are complete for this batch. */
    void (*done)(void *arg, int unit);
    void  *arg;
};
void model_on_units(struct model *m, const struct model_units *units);

/* Asks for what a forward and a backward pass would ask for, and computes nothing. */
void model_pass_idle(struct model *m);

/* Useful FLOPs of one forward (matrix products and convolutions, 1 MAC = 2). */
double model_forward_flops(const struct model_config *cfg, int batch, int height, int width,
                           int text);

/* Named activations of the last forward, for `verify` ("blocks.0.attn" as in the
 * golden files' act.*); valid until the next call here. NULL when the name is not known or not
 * kept (err untouched) or when it cannot be brought here. */
const float *model_activation(struct model *m, const char *name, int64_t *count,
                              struct err *err);

#endif
