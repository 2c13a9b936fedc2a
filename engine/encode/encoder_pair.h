/* SPDX-License-Identifier: Apache-2.0 */
/* encoder_pair.h - the encoders of a spec: places of their weights, shapes of their output, digests
 *
 * `encoders: sana` is an autoencoder and Gemma 2, `lumina` an autoencoder and Gemma 1.
 */
#ifndef ENGINE_ENCODE_ENCODER_PAIR_H
#define ENGINE_ENCODE_ENCODER_PAIR_H

#include "engine/base/digest.h"
#include "engine/text/text_encoder.h"
#include "engine/vae/vae_config.h"

struct err;
struct train_spec;

enum { ENCODER_PAIR_PATH = 1024 };

struct encoder_pair {
    char  vae[ENCODER_PAIR_PATH], text[ENCODER_PAIR_PATH];
    char  tokenizer[ENCODER_PAIR_PATH]; /* "": that of `text` */
    char *instruction;              /* owned; NULL: none */
    bool  diffusers;
    int   rows, width;              /* most rows of a caption, and channels of each */
    int   factor;                   /* pixels per latent */
    struct vae_config vae_config;
    int64_t text_bytes, vae_bytes;  /* of weights: mapped, and in memory */
    double  token_flops;
    char    vae_digest[DIGEST_TEXT], text_digest[DIGEST_TEXT];
    char    absent[504];            /* what is not in the hub's cache yet, and how to get it; "": nothing */
};

/* Reads names and sizes, not weights. The error begins with the key; ERR_NOT_FOUND only if a hub's model is not in the
 * cache. */
int encoder_pair_find(struct encoder_pair *out, const struct train_spec *s, struct err *err);
void encoder_pair_free(struct encoder_pair *e); /* accepts zeros */
/* For a plan: if an encoder on a hub is not there yet, the sizes of the published ones (DC-AE f32c32 and Gemma-2 2B, or
 * SDXL's and Gemma 2B) are assumed, and `absent` is set. */
int encoder_pair_find_or_assume(struct encoder_pair *out, const struct train_spec *s, struct err *err);

/* Fills both digests, which takes as long as reading all weights; digests of unchanged files are taken from the
 * directory `memo`, and new ones are stored there. `look`: a missing one stays "". */
int encoder_pair_digest(struct encoder_pair *e, const char *memo, bool look, struct err *err);

/* `prefix`: computes the instruction as well, for encoding. */
int encoder_pair_open_text(struct text_encoder **out, const struct encoder_pair *e, bool prefix, struct err *err);

#endif
