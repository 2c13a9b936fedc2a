/* SPDX-License-Identifier: Apache-2.0 */
/* encode_plan.h - the files, time and memory that encoding a data set needs, before it begins
 *
 * Writes nothing, and computes nothing that takes long.
 */
#ifndef ENGINE_ENCODE_ENCODE_PLAN_H
#define ENGINE_ENCODE_ENCODE_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "engine/encode/encode.h"

struct encode_plan {
    struct encode_need need;
    char    cache[1100];
    char    absent[504];                    /* missing encoders, whose sizes are then assumed; "": none */
    int     factor, channels, rows, width;  /* pixels per latent; of latents and text */
    int64_t latent_bytes, text_bytes;       /* of the whole cache; for captions estimated from a sample */
    double  picture_flops, caption_flops;   /* of an average one */
    double  picture_rate, caption_rate;     /* operations per second of a rank */
    bool    measured;                       /* the rates are from an earlier fill; else a matrix product's */
    double  seconds;                        /* of one rank, for what is missing */
    int64_t vae_memory, text_memory;        /* while pictures are encoded; while captions are */
    int64_t text_mapped;                    /* of text_memory: weights that stay in their file */
    int64_t free_memory;                    /* of this machine, or of its GPU */
    bool    device;                         /* a GPU encodes, and free_memory is its memory */
    int     ranks;
};

/* Also identifies and surveys `e`. */
int encode_plan_make(struct encode_plan *out, struct encode *e, int ranks, struct err *err);
void encode_plan_print(const struct encode_plan *p, FILE *to);
json_t *encode_plan_json(const struct encode_plan *p); /* a new reference, or NULL */

/* Keeps the operations per second that a fill has reached, for later plans; if the disk is full, they are not kept. */
void encode_plan_learn(const char *cache, enum encode_stage stage, double rate);

#endif
