/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - a released model with its text encoder and autoencoder, to draw pictures without a job
 *
 * `weights` is a diffusers folder (transformer, vae, text_encoder, tokenizer, scheduler), its name on a hub, or a file
 * with only the model; then `vae` and `text_encoder` are given separately. Sizes come from transformer/config.json, or
 * for a released model from the tensors; the flow shift from scheduler/scheduler_config.json.
 */
#ifndef ENGINE_TRAIN_PIPELINE_H
#define ENGINE_TRAIN_PIPELINE_H

#include <jansson.h>

#include "engine/contract/train_spec.h"
#include "engine/encode/encoder_pair.h"
#include "engine/model/sampler.h"

struct adapter;
struct err;
struct pretrained;

struct pipeline_ask {
    const char *weights;                                   /* required */
    const char *vae, *text_encoder, *tokenizer;            /* NULL: those in `weights` */
    const char *instruction, *style, *lora;                /* files; authors or diffusers; NULL: none, authors, none */
    const char *preset;                                    /* NULL: as in the files */
};

struct pipeline {
    json_t             *job;    /* the configuration that `spec` was made from */
    struct train_spec   spec;   /* its model is complete */
    struct encoder_pair pair;
    struct pretrained  *weights;
    struct adapter     *adapter; /* or NULL */
    int                 sample; /* edge of the latents that the model was trained for; 0: not known */
};

/* Reads names and sizes. ERR_USAGE, ERR_NOT_FOUND, ERR_DATA: the message names the option or the file. */
int pipeline_open(struct pipeline *out, const struct pipeline_ask *ask, struct err *err);
void pipeline_close(struct pipeline *p); /* accepts a zeroed struct */

/* Rows of n texts, y [n, rows, width], mask [n, rows], and of the empty caption, null [rows, width]. The text encoder
 * is in memory during the call only. */
int pipeline_encode(const struct pipeline *p, const char *const *text, int n, float *y, float *mask, float *null,
                    struct err *err);

/* A sampler with the weights, and adapters if there are any; `cfg` has everything but the model. */
int pipeline_sampler(struct sampler **out, const struct pipeline *p, const struct sampler_config *cfg,
                     const float *null, struct err *err);

#endif
