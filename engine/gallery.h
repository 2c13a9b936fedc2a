/* SPDX-License-Identifier: Apache-2.0 */
/* gallery.h - what was learned, to look at and as numbers
 *
 * Rows of a caption with up to three pictures side by side: the original, one drawn
 * before training, one drawn after it.
 */
#ifndef ENGINE_GALLERY_H
#define ENGINE_GALLERY_H

struct dataset;
struct err;

struct gallery_row {
    const char  *caption;
    const float *original, *before, *after; /* latents; NULL = not shown */
};

/* A PNG, rows in as many columns as make it about square, pictures enlarged to about 96 pixels.
 * All rows show the same of the three. */
int gallery_write(const struct dataset *d, const struct gallery_row *rows, int n, const char *path,
                  struct err *err);

/* How near the `after` pictures of samples 0..n-1 are to the originals, on 8-bit pixels. */
struct gallery_score {
    int    samples;
    int    nearest_own; /* nearer to their own original than to any other of the data */
    double psnr;        /* dB to their own, mean over samples */
};

/* latents: n of them, drawn from the captions of samples 0..n-1. */
int gallery_score(struct gallery_score *out, const struct dataset *d, const float *latents, int n,
                  struct err *err);

#endif
