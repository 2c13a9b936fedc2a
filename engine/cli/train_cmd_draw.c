/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_draw.c - jobctl-train sample --weights: draw a picture from released weights, with no job
 *
 * --weights PATH|hf://OWNER/REPO --prompt TEXT --out PNG [--size N|WxH] [--steps 20] [--cfg 4.5] [--seed 1]
 * [--sampler flow_dpm_solver|euler] [--instruction FILE] [--style authors|diffusers] [--lora FILE]
 * [--vae PATH] [--text-encoder PATH] [--tokenizer PATH] [--preset NAME] [--backend ...] [--precision ...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/image/image.h"
#include "engine/model/backend.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/pipeline.h"
#include "engine/train/sample_prompts.h"

struct request {
    struct pipeline_ask ask;
    const char *prompt, *out, *size, *steps, *cfg, *seed, *sampler, *backend, *precision;
};

/* State of one call. */
struct drawing {
    struct pipeline       p;
    struct sampler_config cfg;
    float *y, *mask, *null, *latent;
};

static int number(const char *name, const char *text, double low, double high, double *value, struct err *err)
{
    char *end;
    if (!text)
        return 0;
    *value = strtod(text, &end);
    if (end != text && !*end && *value >= low && *value <= high)
        return 0;
    return err_set(err, ERR_USAGE, "%s: '%s' is not a number from %g to %g", name, text, low, high);
}

/* "512" or "768x512", width first. */
static int read_size(struct drawing *d, const char *text, struct err *err)
{
    const int factor = d->p.pair.factor, edge = factor * d->p.spec.model.patch;
    int width = d->p.sample > 0 ? d->p.sample * factor : 1024, height = width, at = 0;
    if (text && sscanf(text, "%5dx%5d%n", &width, &height, &at) == 2 && !text[at])
        at = 0;
    else if (text && sscanf(text, "%5d%n", &width, &at) == 1 && !text[at])
        height = width;
    else if (text)
        return err_set(err, ERR_USAGE,
                       "--size %.40s: expected an edge or WIDTHxHEIGHT in pixels, such as 1024 or 1280x768", text);
    if (width < edge || height < edge || width % edge || height % edge || width > 8192 || height > 8192)
        return err_set(err, ERR_USAGE, "--size: %d x %d; both must be multiples of %d, up to 8192", width, height, edge);
    d->cfg.limits = (struct model_limits){.batch = 1, .height = height / factor, .width = width / factor,
                                          .text = d->p.pair.rows};
    return 0;
}

static int read_options(struct drawing *d, const struct request *r, struct err *err)
{
    double steps = 20, cfg = 4.5, seed = 1;
    if (number("--steps", r->steps, 1, 1000, &steps, err) < 0 || number("--cfg", r->cfg, 0, 30, &cfg, err) < 0 ||
        number("--seed", r->seed, 0, 9e15, &seed, err) < 0)
        return -1;
    const bool euler = r->sampler && strcmp(r->sampler, "euler") == 0;
    if (r->sampler && !euler && strcmp(r->sampler, "flow_dpm_solver") != 0)
        return err_set(err, ERR_USAGE, "--sampler %.40s: expected flow_dpm_solver or euler", r->sampler);
    d->cfg.method = euler ? SAMPLER_EULER : SAMPLER_FLOW_DPM;
    d->cfg.steps = (int)steps;
    d->cfg.cfg = cfg;
    d->cfg.seed = (uint64_t)seed;
    return 0;
}

static int encode(struct drawing *d, const char *prompt, struct err *err)
{
    const size_t rows = (size_t)d->p.pair.rows, width = (size_t)d->p.pair.width;
    d->y = calloc(rows * width, sizeof(*d->y));
    d->null = calloc(rows * width, sizeof(*d->null));
    d->mask = calloc(rows, sizeof(*d->mask));
    d->latent = calloc((size_t)d->p.pair.vae_config.latent * (size_t)d->cfg.limits.height * (size_t)d->cfg.limits.width,
                       sizeof(*d->latent));
    if (!d->y || !d->null || !d->mask || !d->latent)
        return err_set(err, ERR_MEMORY, "out of memory for a picture");
    return pipeline_encode(&d->p, &prompt, 1, d->y, d->mask, d->null, err);
}

static bool tick(void *arg, double share)
{
    (void)arg;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%3.0f %% drawn%s", 100 * share, share < 1 ? "" : "\n");
    return true;
}

static int draw(struct drawing *d, const char *prompt, struct err *err)
{
    struct sampler *s = NULL;
    const int64_t id = sample_prompts_id(prompt); /* as train.validate */
    const struct sampler_wish wish = {.n = 1, .height = d->cfg.limits.height, .width = d->cfg.limits.width, .y = d->y,
                                      .mask = d->mask, .ids = &id};
    if (pipeline_sampler(&s, &d->p, &d->cfg, d->null, err) < 0)
        return -1;
    const int rc = sampler_draw(s, d->latent, &wish, tick, NULL, err);
    sampler_destroy(s);
    return rc;
}

static int write_picture(struct drawing *d, const char *path, struct err *err)
{
    struct picture_decoder decoder;
    struct image im = {0};
    if (picture_decoder_of_vae(&decoder, d->p.pair.vae, err) < 0)
        return -1;
    int rc = picture_decoder_draw(&decoder, &im, d->latent, d->cfg.limits.height, d->cfg.limits.width, err);
    if (rc == 0)
        rc = image_write_png(&im, path, err);
    picture_decoder_close(&decoder);
    image_free(&im);
    return rc;
}

static int run(struct drawing *d, const struct request *r, struct err *err)
{
    const double since = clock_s();
    if (!r->prompt || !r->out)
        return err_set(err, ERR_USAGE, "--weights needs --prompt TEXT and --out FILE.png");
    if (backend_open(r->backend, r->precision, err) < 0 || pipeline_open(&d->p, &r->ask, err) < 0 ||
        read_options(d, r, err) < 0 || read_size(d, r->size, err) < 0 || encode(d, r->prompt, err) < 0 ||
        draw(d, r->prompt, err) < 0 || write_picture(d, r->out, err) < 0)
        return -1;
    const int factor = d->p.pair.factor;
    printf("%s: %d x %d pixels, %d steps, %.1f s\n", r->out, d->cfg.limits.width * factor,
           d->cfg.limits.height * factor, d->cfg.steps, clock_s() - since);
    return 0;
}

int train_cmd_draw(int argc, char **argv)
{
    struct request r = {0};
    const struct train_cmd_option options[] = {
        {.name = "--weights", .value = &r.ask.weights, .required = true},
        {.name = "--vae", .value = &r.ask.vae}, {.name = "--text-encoder", .value = &r.ask.text_encoder},
        {.name = "--tokenizer", .value = &r.ask.tokenizer}, {.name = "--instruction", .value = &r.ask.instruction},
        {.name = "--style", .value = &r.ask.style}, {.name = "--lora", .value = &r.ask.lora},
        {.name = "--preset", .value = &r.ask.preset}, {.name = "--prompt", .value = &r.prompt},
        {.name = "--out", .value = &r.out}, {.name = "-o", .value = &r.out}, {.name = "--size", .value = &r.size},
        {.name = "--steps", .value = &r.steps}, {.name = "--cfg", .value = &r.cfg}, {.name = "--seed", .value = &r.seed},
        {.name = "--sampler", .value = &r.sampler}, {.name = "--backend", .value = &r.backend},
        {.name = "--precision", .value = &r.precision}, {.name = NULL},
    };
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    struct drawing d = {0};
    rc = run(&d, &r, &err);
    pipeline_close(&d.p);
    free(d.y);
    free(d.null);
    free(d.mask);
    free(d.latent);
    return rc < 0 ? train_cmd_fail("sample", &err) : EXIT_DONE;
}
