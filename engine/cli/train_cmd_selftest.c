/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_selftest.c - jobctl-train selftest: do released weights give what they must on this machine?
 *
 * --weights PATH [--null FILE] [--picture FILE [--caption TEXT]] [--size N] [--vae PATH] [--text-encoder PATH]
 * [--tokenizer PATH] [--preset NAME]
 * [--backend ...] [--precision ...].  Exit code 1: a part has failed, or none was run.
 *
 *   text encoder   rows of the empty caption, against those that the authors stored in their .pth files
 *                  (y_embedder.y_embedding), which were computed in bf16: relative L2 distance
 *   autoencoder    a picture (without --picture a drawn one), encoded and decoded again: PSNR
 *   transformer    the velocity at half noise, where the data is that picture: the squared error, as a share of that of
 *                  guessing 0. Random weights have 1 or more.
 * Each part is opened alone: what is not there is not run, and the others are.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/image/image.h"
#include "engine/hub/hub_cache.h"
#include "engine/model/backend.h"
#include "engine/train/pipeline.h"
#include "engine/vae/vae_image.h"
#include "engine/vae/vae_source.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"
#include "kernels/rng.h"

enum outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_NOT_RUN };

static const double most_text = 0.05, least_psnr = 24, most_share = 0.9;
static const double sigma = 0.5;
/* Without a caption: a dropped one, which has the rows of the empty caption under its own mask, of so many tokens. */
enum { ROWS = 8 };

struct selftest {
    struct pipeline_ask ask;
    const char *null, *size, *picture, *caption;
    struct pipeline     pipeline;
    bool                opened;
    int                 edge;      /* of the picture, in pixels */
    float              *latent;    /* of the picture; NULL: no autoencoder */
    int                 channels, height, width;
    float              *rows;      /* of the empty caption, [n, channels]; NULL: no text encoder */
    float              *y, *mask;  /* of --caption, or of a dropped one */
    int                 ok, failed;
};

static void row(struct selftest *t, const char *what, enum outcome how, const char *text)
{
    static const char *const names[] = {[OUTCOME_OK] = "ok", [OUTCOME_FAILED] = "failed", [OUTCOME_NOT_RUN] = "not run"};
    printf("%-14s %-8s %s\n", what, names[how], text);
    t->ok += how == OUTCOME_OK;
    t->failed += how == OUTCOME_FAILED;
}

/* What is not there is not run; what is there and wrong has failed. */
static void row_of_error(struct selftest *t, const char *what, const struct err *err)
{
    row(t, what, err->code == ERR_NOT_FOUND || err->code == ERR_USAGE ? OUTCOME_NOT_RUN : OUTCOME_FAILED, err->text);
}

/* --- the text encoder ------------------------------------------------------------------------- */

/* Of a model, or of the file null_embed_*.pth: [rows, channels], there behind a 1. */
static bool is_null(const struct tensor_view *v)
{
    static const char *const names[] = {"y_embedder.y_embedding", "uncond_prompt_embeds"};
    const size_t n = strlen(v->name);
    for (size_t i = 0; i < 2; i++) {
        const size_t m = strlen(names[i]);
        if (n >= m && strcmp(v->name + n - m, names[i]) == 0)
            return v->ndim == 2 || (v->ndim == 3 && v->dim[0] == 1);
    }
    return false;
}

/* The stored rows; the caller frees them. NULL without an error: the file has none. */
static float *read_null(const char *name, int *rows, int *channels, struct err *err)
{
    struct weights_source *w = NULL;
    char path[PATH_MAX];
    float *out = NULL;
    if (hub_cache_open(path, name, "transformer", err) < 0 || weights_source_open(&w, path, "transformer", err) < 0)
        return NULL;
    for (int i = 0; i < weights_source_len(w) && !out; i++) {
        const struct tensor_view *v = weights_source_at(w, i);
        if (!is_null(v))
            continue;
        *rows = (int)v->dim[v->ndim - 2];
        *channels = (int)v->dim[v->ndim - 1];
        out = malloc(v->count * sizeof(*out));
        if (!out)
            err_set(err, ERR_MEMORY, "out of memory for a caption");
        else
            tensor_view_floats(out, v, 0, v->count);
    }
    weights_source_close(w);
    return out;
}

static int compute_null(struct selftest *t, struct err *err)
{
    const struct pipeline *p = &t->pipeline;
    const size_t n = (size_t)p->pair.rows, each = (size_t)p->pair.width;
    t->rows = calloc(n * each, sizeof(*t->rows));
    t->y = calloc(n * each, sizeof(*t->y));
    t->mask = calloc(n, sizeof(*t->mask));
    if (!t->rows || !t->y || !t->mask)
        return err_set(err, ERR_MEMORY, "out of memory for a caption");
    if (pipeline_encode(p, &t->caption, t->caption != NULL, t->y, t->mask, t->rows, err) < 0)
        return -1;
    if (!t->caption)
        memcpy(t->y, t->rows, n * each * sizeof(*t->y));
    for (size_t i = 0; !t->caption && i < n && i < ROWS; i++)
        t->mask[i] = 1;
    return 0;
}

static void compare_null(struct selftest *t, const float *stored, int rows, int channels)
{
    const struct pipeline *p = &t->pipeline;
    double apart = 0, all = 0;
    char text[200];
    const size_t n = (size_t)(rows < p->pair.rows ? rows : p->pair.rows) * (size_t)channels;
    for (size_t i = 0; i < n && channels == p->pair.width; i++) {
        apart += ((double)stored[i] - t->rows[i]) * ((double)stored[i] - t->rows[i]);
        all += (double)stored[i] * stored[i];
    }
    const double distance = channels == p->pair.width && all > 0 ? sqrt(apart / all) : INFINITY;
    snprintf(text, sizeof(text), "\"\" is %.3f from the stored rows (%d x %d, relative L2; at most %.2f)", distance,
             rows, channels, most_text);
    row(t, "text encoder", distance <= most_text ? OUTCOME_OK : OUTCOME_FAILED, text);
}

static void test_text(struct selftest *t)
{
    struct err err = {0};
    int rows, channels;
    float *stored = NULL;
    if (compute_null(t, &err) == 0) {
        stored = read_null(t->null ? t->null : t->ask.weights, &rows, &channels, &err);
        if (stored)
            compare_null(t, stored, rows, channels);
    }
    if (err.code != ERR_NONE)
        row_of_error(t, "text encoder", &err);
    else if (!stored)
        row(t, "text encoder", OUTCOME_NOT_RUN, "the weights have no rows for the empty caption (diffusers folders "
            "never do); name the authors' .pth with --null FILE");
    free(stored);
}

/* --- the autoencoder -------------------------------------------------------------------------- */

/* Colours that change slowly, and edges. */
static int draw_picture(struct image *im, int edge, struct err *err)
{
    if (image_create(im, edge, edge, err) < 0)
        return -1;
    for (int y = 0; y < edge; y++)
        for (int x = 0; x < edge; x++) {
            uint8_t *to = im->rgb + 3 * ((size_t)y * (size_t)edge + (size_t)x);
            const double dx = x - 0.6 * edge, dy = y - 0.4 * edge;
            const bool inside = dx * dx + dy * dy < 0.06 * edge * edge;
            to[0] = (uint8_t)(inside ? 220 : 40 + 150 * x / edge);
            to[1] = (uint8_t)(inside ? 120 + 80 * y / edge : 90 + 100 * y / edge);
            to[2] = (uint8_t)(inside ? 50 : 200 - 120 * x / edge);
        }
    return 0;
}

static int take_picture(struct selftest *t, struct image *out, struct err *err)
{
    struct image im;
    if (!t->picture)
        return draw_picture(out, t->edge, err);
    if (image_read(&im, t->picture, err) < 0)
        return err_prefix(err, "--picture: ");
    const int rc = image_fit(out, &im, t->edge, t->edge, err);
    image_free(&im);
    return rc;
}

static double psnr(const struct image *a, const struct image *b)
{
    const size_t n = (size_t)a->width * (size_t)a->height * 3;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a->rgb[i] - b->rgb[i]) * ((double)a->rgb[i] - b->rgb[i]);
    return sum > 0 ? fmin(10 * log10(255.0 * 255.0 * (double)n / sum), 99) : 99;
}

static int encode(struct selftest *t, const char *path, struct vae_config *cfg, struct image *im, struct err *err)
{
    struct vae *v = NULL;
    if (vae_source_open(&v, cfg, path, VAE_ENCODER, err) < 0)
        return -1;
    const int factor = vae_config_factor(cfg);
    t->edge = (t->edge + factor - 1) / factor * factor;
    t->height = t->width = t->edge / factor;
    t->channels = cfg->latent;
    int rc = take_picture(t, im, err);
    if (rc == 0 && !(t->latent = malloc(vae_image_count(cfg, t->edge, t->edge) * sizeof(*t->latent))))
        rc = err_set(err, ERR_MEMORY, "out of memory for a latent");
    if (rc == 0)
        rc = vae_image_encode(v, cfg, im, t->latent, NULL, err);
    vae_destroy(v);
    return rc;
}

static int round_trip(struct selftest *t, double *db, struct err *err)
{
    const char *path = t->ask.vae ? t->ask.vae : t->ask.weights;
    struct vae_config cfg;
    struct vae *v = NULL;
    struct image im = {0}, back = {0};
    int rc = encode(t, path, &cfg, &im, err);
    if (rc == 0)
        rc = vae_source_open(&v, &cfg, path, VAE_DECODER, err);
    if (rc == 0)
        rc = vae_image_decode(v, &cfg, t->latent, t->height, t->width, &back, err);
    if (rc == 0)
        *db = psnr(&im, &back);
    vae_destroy(v);
    image_free(&im);
    image_free(&back);
    return rc;
}

static void test_vae(struct selftest *t)
{
    struct err err = {0};
    char text[200];
    double db = 0;
    if (round_trip(t, &db, &err) < 0) {
        row_of_error(t, "autoencoder", &err);
        return;
    }
    snprintf(text, sizeof(text), "%d x %d pixels to %d x %d x %d and back: %.1f dB (at least %.0f)", t->edge, t->edge,
             t->channels, t->height, t->width, db, least_psnr);
    row(t, "autoencoder", db >= least_psnr ? OUTCOME_OK : OUTCOME_FAILED, text);
}

/* --- the transformer -------------------------------------------------------------------------- */

/* The error of the velocity, which is noise - data, or for Lumina-Next data - noise. */
static int denoise(struct selftest *t, struct sampler *s, double *share, struct err *err)
{
    const size_t n = (size_t)t->channels * (size_t)t->height * (size_t)t->width;
    const bool to_data = model_goes_to_data(sampler_model(s));
    const float time = to_data ? (float)(1 - sigma) : (float)(int)(1000 * sigma);
    const struct rng r = rng_make(1, 0, 0, RNG_SAMPLING);
    float *x = malloc(3 * n * sizeof(*x)), *noise = x + n, *v = x + 2 * n;
    if (!x)
        return err_set(err, ERR_MEMORY, "out of memory for a latent");
    rng_normal(&r, noise, 0, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((1 - sigma) * t->latent[i] + sigma * noise[i]);
    const struct model_input in = {.batch = 1, .height = t->height, .width = t->width, .text = t->pipeline.pair.rows,
                                   .x = x, .timestep = &time, .y = t->y, .mask = t->mask};
    const int rc = model_forward_host(sampler_model(s), &in, v, err);
    double wrong = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        const double want = to_data ? t->latent[i] - noise[i] : noise[i] - t->latent[i];
        wrong += (v[i] - want) * (v[i] - want);
        all += want * want;
    }
    *share = wrong / all;
    free(x);
    return rc;
}

static int step(struct selftest *t, double *share, struct err *err)
{
    struct sampler *s = NULL;
    const int patch = t->pipeline.spec.model.patch;
    if (t->height % patch)
        return err_set(err, ERR_USAGE, "--size: latents of %d x %d are not a multiple of the patch, %d", t->height,
                       t->width, patch);
    const struct sampler_config cfg = {.limits = {.batch = 1, .height = t->height, .width = t->width,
                                                  .text = t->pipeline.pair.rows}, .steps = 1, .cfg = 1};
    if (pipeline_sampler(&s, &t->pipeline, &cfg, t->rows, err) < 0)
        return -1;
    const int rc = denoise(t, s, share, err);
    sampler_destroy(s);
    return rc;
}

static void test_model(struct selftest *t)
{
    struct err err = {0};
    char text[200];
    double share = 0;
    if (!t->latent || !t->rows) {
        row(t, "transformer", OUTCOME_NOT_RUN, "it needs the autoencoder and the text encoder");
        return;
    }
    if (step(t, &share, &err) < 0) {
        row_of_error(t, "transformer", &err);
        return;
    }
    snprintf(text, sizeof(text), "one step from half noise: error %.3f of that of guessing 0 (at most %.1f)", share,
             most_share);
    row(t, "transformer", share <= most_share ? OUTCOME_OK : OUTCOME_FAILED, text);
}

static void run(struct selftest *t)
{
    struct err err = {0};
    t->opened = pipeline_open(&t->pipeline, &t->ask, &err) == 0;
    printf("%-14s %-8s %s\n", "part", "result", "figure");
    if (t->opened)
        test_text(t);
    else
        row_of_error(t, "text encoder", &err);
    test_vae(t);
    if (t->opened)
        test_model(t);
    else
        row_of_error(t, "transformer", &err);
}

int train_cmd_selftest(int argc, char **argv)
{
    struct selftest t = {.edge = 256};
    const char *backend = NULL, *precision = NULL;
    const struct train_cmd_option options[] = {
        {.name = "--weights", .value = &t.ask.weights, .required = true}, {.name = "--null", .value = &t.null},
        {.name = "--picture", .value = &t.picture}, {.name = "--caption", .value = &t.caption}, {.name = "--size", .value = &t.size},
        {.name = "--vae", .value = &t.ask.vae}, {.name = "--text-encoder", .value = &t.ask.text_encoder},
        {.name = "--tokenizer", .value = &t.ask.tokenizer}, {.name = "--preset", .value = &t.ask.preset},
        {.name = "--backend", .value = &backend}, {.name = "--precision", .value = &precision}, {.name = NULL},
    };
    struct err err = {0};
    const int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    if (t.size && (sscanf(t.size, "%5d", &t.edge) != 1 || t.edge < 32 || t.edge > 4096))
        err_set(&err, ERR_USAGE, "--size %.40s: expected pixels, from 32 to 4096", t.size);
    if (err.code || backend_open(backend, precision, &err) < 0)
        return train_cmd_fail("selftest", &err);
    run(&t);
    pipeline_close(&t.pipeline);
    free(t.latent);
    free(t.rows);
    free(t.y);
    free(t.mask);
    return t.failed || !t.ok ? 1 : EXIT_DONE;
}
