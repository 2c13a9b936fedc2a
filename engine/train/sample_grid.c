/* SPDX-License-Identifier: Apache-2.0 */
/* sample_grid.c - see sample_grid.h */
#include "engine/train/sample_grid.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/data/dataset.h"
#include "engine/image/image.h"
#include "engine/train/font.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/sample_prompts.h"

enum { PICTURE = 96, GAP = 6, TEXT = 16, MARGIN = 14, HEAD = 26, INK = 0x303030, DIM = 0x808080 };

/* The layout, in pixels. */
struct plan {
    int zoom, cell_w, cell_h;  /* a picture, enlarged */
    int shown;                 /* pictures in a row */
    int columns, lines;        /* of rows */
    int block_w, block_h;      /* a row with its caption */
};

static struct plan plan_make(const struct sample_prompts *s, const struct sample_grid_pictures *all,
                             const struct image *largest)
{
    struct plan p = {0};
    int edge = largest->width > largest->height ? largest->width : largest->height;
    p.zoom = edge < PICTURE ? PICTURE / edge : 1;
    p.cell_w = largest->width * p.zoom;
    p.cell_h = largest->height * p.zoom;
    p.shown = (all->original != NULL) + (all->before != NULL) + (all->after != NULL);
    p.block_w = p.shown * (p.cell_w + GAP) + 3 * GAP;
    p.block_h = p.cell_h + TEXT + GAP;
    p.columns = (int)lrint(sqrt((double)s->n * p.block_h / p.block_w * 1.3));
    p.columns = p.columns < 1 ? 1 : p.columns > s->n ? s->n : p.columns;
    p.lines = (s->n + p.columns - 1) / p.columns;
    return p;
}

/* Centred in its cell. */
static int draw_picture(struct image *to, struct picture_decoder *d, const float *latents, const struct subject *s,
                        int x, int y, const struct plan *p, struct err *err)
{
    struct image im;
    if (picture_decoder_draw(d, &im, latents + s->at, s->height, s->width, err) < 0)
        return -1;
    int w = im.width * p->zoom, h = im.height * p->zoom;
    x += (p->cell_w - w) / 2;
    y += (p->cell_h - h) / 2;
    image_fill(to, x - 1, y - 1, w + 2, h + 2, 0xD8D8D8);
    image_blit(to, &im, x, y, p->zoom);
    image_free(&im);
    return 0;
}

static int draw_row(struct image *to, struct picture_decoder *d, const struct sample_grid_pictures *all,
                    const struct subject *s, int x, int y, const struct plan *p, struct err *err)
{
    const float *shown[] = {all->original, all->before, all->after};
    int at = x;
    for (int i = 0; i < 3; i++) {
        if (!shown[i])
            continue;
        if (draw_picture(to, d, shown[i], s, at, y, p, err) < 0)
            return -1;
        at += p->cell_w + GAP;
    }
    char text[128];
    snprintf(text, sizeof(text), "%s", s->caption);
    int most = (p->block_w - 2 * GAP) / FONT_ADVANCE;
    if (most < (int)sizeof(text))
        text[most < 0 ? 0 : most] = '\0';
    font_draw(to, x, y + p->cell_h + 5, text, 1, INK);
    return 0;
}

static void draw_heads(struct image *to, const struct sample_grid_pictures *all, const struct plan *p)
{
    const float *shown[] = {all->original, all->before, all->after};
    static const char *const heads[] = {"original", "before", "after"};
    for (int c = 0; c < p->columns && p->shown > 1; c++) {
        int at = MARGIN + c * p->block_w;
        for (int i = 0; i < 3; i++) {
            if (!shown[i])
                continue;
            font_draw(to, at, MARGIN - 2, heads[i], 1, DIM);
            at += p->cell_w + GAP;
        }
    }
}

/* The edges of the largest of them, with no pixels. */
static int measure(struct image *out, const struct picture_decoder *d, const struct sample_prompts *s,
                   const float *any, struct err *err)
{
    *out = (struct image){0};
    for (int i = 0; i < s->n; i++) {
        const struct subject *of = &s->of[i];
        struct image im;
        if (i > 0 && of->height == of[-1].height && of->width == of[-1].width)
            continue;
        if (picture_decoder_size(d, &im, any + of->at, of->height, of->width, err) < 0)
            return -1;
        out->width = im.width > out->width ? im.width : out->width;
        out->height = im.height > out->height ? im.height : out->height;
        image_free(&im);
    }
    return 0;
}

int sample_grid_write(struct picture_decoder *d, const struct sample_prompts *s,
                      const struct sample_grid_pictures *all, const char *path, struct err *err)
{
    struct image largest, im;
    const float *any = all->after ? all->after : all->before ? all->before : all->original;
    if (measure(&largest, d, s, any, err) < 0)
        return -1;
    struct plan p = plan_make(s, all, &largest);
    if (image_create(&im, 2 * MARGIN + p.columns * p.block_w - 3 * GAP, MARGIN + HEAD + p.lines * p.block_h, err) < 0)
        return -1;
    draw_heads(&im, all, &p);
    int rc = 0;
    for (int i = 0; i < s->n && rc == 0; i++)
        rc = draw_row(&im, d, all, &s->of[i], MARGIN + i % p.columns * p.block_w,
                      HEAD + i / p.columns * p.block_h, &p, err);
    if (rc == 0)
        rc = image_write_png(&im, path, err);
    image_free(&im);
    return rc;
}

static double mean_square(const struct image *a, const struct image *b)
{
    double sum = 0;
    size_t n = (size_t)a->width * (size_t)a->height * 3;
    for (size_t i = 0; i < n; i++) {
        double diff = (double)a->rgb[i] - b->rgb[i];
        sum += diff * diff;
    }
    return sum / (double)n;
}

/* All originals as pictures; the caller frees each and the list. */
static int originals(struct image **out, const struct dataset *d, struct err *err)
{
    struct dataset_shape s = dataset_shape(d);
    float *latent = malloc(sizeof(*latent) * (size_t)s.channels * (size_t)s.height * (size_t)s.width);
    *out = calloc((size_t)s.samples, sizeof(**out));
    int rc = latent && *out ? 0 : err_set(err, ERR_MEMORY, "out of memory to compare pictures");
    for (int64_t i = 0; i < s.samples && rc == 0; i++) {
        struct dataset_bucket b = dataset_bucket_of(d, i);
        rc = dataset_get(d, i, latent, NULL, NULL, err);
        if (rc == 0)
            rc = dataset_picture(d, &(*out)[i], latent, b.height, b.width, err);
    }
    free(latent);
    return rc;
}

/* One drawn picture against all originals of its shape. */
static int score_one(struct sample_grid_score *out, const struct dataset *d, const struct image *all,
                     const struct subject *s, const float *latents, struct err *err)
{
    struct dataset_bucket b = dataset_bucket_of(d, s->sample);
    struct image im;
    if (dataset_picture(d, &im, latents + s->at, s->height, s->width, err) < 0)
        return -1;
    double own = mean_square(&im, &all[s->sample]);
    bool nearest = true;
    for (int64_t k = b.first; k < b.first + b.samples; k++)
        nearest = nearest && (k == s->sample || mean_square(&im, &all[k]) > own);
    out->nearest_own += nearest;
    out->psnr += (own > 0 ? fmin(10 * log10(255.0 * 255.0 / own), 99) : 99.0) / out->samples;
    image_free(&im);
    return 0;
}

int sample_grid_score(struct sample_grid_score *out, const struct dataset *d, const struct sample_prompts *s,
                      const float *latents, struct err *err)
{
    struct image *all = NULL;
    int rc = originals(&all, d, err);
    *out = (struct sample_grid_score){.samples = s->n};
    for (int i = 0; i < s->n && rc == 0; i++)
        rc = score_one(out, d, all, &s->of[i], latents, err);
    for (int64_t i = 0; all && i < dataset_shape(d).samples; i++)
        image_free(&all[i]);
    free(all);
    return rc;
}
