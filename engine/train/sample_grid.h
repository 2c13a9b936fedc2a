/* SPDX-License-Identifier: Apache-2.0 */
/* sample_grid.h - a picture that compares samples with their originals, and a score
 *
 * Each entry has a caption and up to three pictures side by side: the original, one drawn before training, one drawn
 * after it.
 */
#ifndef ENGINE_TRAIN_SAMPLE_GRID_H
#define ENGINE_TRAIN_SAMPLE_GRID_H

struct dataset;
struct err;
struct picture_decoder;
struct sample_prompts;

/* Latents of all prompts; NULL: not shown. */
struct sample_grid_pictures {
    const float *original, *before, *after;
};

/* A PNG with as many columns as make it about square, pictures enlarged to about 96 pixels. */
int sample_grid_write(struct picture_decoder *d, const struct sample_prompts *s,
                      const struct sample_grid_pictures *p, const char *path, struct err *err);

/* How close drawn samples are to the originals, on 8-bit pixels. */
struct sample_grid_score {
    int    samples;
    int    nearest_own; /* closer to their own original than to any other of its shape */
    double psnr;        /* dB to their own, mean over samples */
};

/* `latents` are those of subjects that are samples of the data, which is pictures in blocks (dct+hash). */
int sample_grid_score(struct sample_grid_score *out, const struct dataset *d, const struct sample_prompts *s,
                      const float *latents, struct err *err);

#endif
