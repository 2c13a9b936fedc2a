/* SPDX-License-Identifier: Apache-2.0 */
/* text_encoder.h - captions as the vectors that a model is trained with: tokenizer, Gemma, and the rows it gets
 *
 * PATH is a folder with config.json, weights and tokenizer, as google/gemma-2-2b-it is published, or a diffusers
 * pipeline with the folders text_encoder and tokenizer, or the name of either on a hub, if it is in the hub's cache
 * (engine/hub/hub_cache.h). bf16 weights stay in the mapped file: only some megabytes of other memory are needed, and
 * the kernel can reclaim the file's pages.
 *
 * Gemma 2 encodes for Sana, with an instruction before the caption (prompt.h): the outputs of the instruction's tokens
 * are computed once, when the encoder is opened, and reused for each caption whose tokens begin with them. Gemma 1
 * encodes for Lumina-Next: the input of its last layer.
 *
 * A caption's vectors depend only on the caption, the weights and the options: captions are encoded one by one.
 * Rows of padding are not computed: attention never sees them; text_encoder_null() has them all.
 */
#ifndef ENGINE_TEXT_TEXT_ENCODER_H
#define ENGINE_TEXT_TEXT_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/digest.h"

struct err;
struct text_encoder;

struct text_encoder_options {
    const char *chi;        /* the instruction; NULL or "": none */
    int         rows;       /* rows per caption; 0: 300, Gemma 1: 256 */
    bool        diffusers;  /* captions are changed as by diffusers' pipelines (caption_style.h) */
    const char *tokenizer;  /* tokenizer.json, tokenizer.model or a folder; NULL: the one in PATH */
    bool        no_prefix;  /* compute the instruction with each caption, for comparison */
};

/* ERR_DATA: damaged, or another kind of model; ERR_NOT_FOUND, ERR_SYSTEM. */
int text_encoder_open(struct text_encoder **out, const char *path, const struct text_encoder_options *options,
                      struct err *err);
void text_encoder_close(struct text_encoder *e); /* accepts NULL */

int text_encoder_version(const struct text_encoder *e);   /* Gemma's version */
int64_t text_encoder_bytes(const struct text_encoder *e); /* type of its weights */
/* Operations per token, without attention scores (docs: 4.05e9 for Gemma-2 2B). */
double text_encoder_token_flops(const struct text_encoder *e);
/* The number of tokens computed for a caption, without those of the instruction; *rows: the number of rows for the
 * model. */
int text_encoder_tokens(const struct text_encoder *e, const char *caption, size_t n, int *rows, struct err *err);
int text_encoder_rows(const struct text_encoder *e);
int text_encoder_channels(const struct text_encoder *e);

/* y: rows x channels, zero where mask is 0; mask: rows, 1 for a token. `reused` (or NULL): were the instruction's
 * outputs reused? */
int text_encoder_caption(struct text_encoder *e, const char *caption, size_t n, float *y, float *mask, bool *reused,
                         struct err *err);
/* The vectors that replace a dropped caption: "" without instruction, including rows of padding. */
int text_encoder_null(struct text_encoder *e, float *y, float *mask, struct err *err);

/* The digest of everything that the vectors depend on: all weights (which takes as long as reading them), tokenizer and
 * options. */
int text_encoder_digest(const struct text_encoder *e, char text[DIGEST_TEXT], struct err *err);

#endif
