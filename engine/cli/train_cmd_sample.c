/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_sample.c - jobctl-train sample: draw pictures from a checkpoint, or score it */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/sampler.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/sample_grid.h"
#include "engine/train/sample_prompts.h"
#include "engine/weights/pretrained.h"

enum { CAPTIONS_MAX = 1024 };

struct request {
    const char *checkpoint, *dir, *out, *captions, *steps, *cfg, *count, *seed;
    const char *backend, *precision;
    bool        score;
};

/* State of one call. */
struct drawing {
    char                  path[CHECKPOINT_PATH]; /* read from the checkpoint */
    json_t               *notes;
    struct train_spec     spec;
    struct dataset       *data;
    struct dataset_shape  shape;
    struct sampler       *sampler;
    struct sample_prompts prompts;
    char                 *texts;                 /* captions given by the user, split at ';' */
    float                *latents;
};

static int number(const char *name, const char *text, double low, double high, double *value, struct err *err)
{
    char *end;
    if (!text)
        return 0;
    double x = strtod(text, &end);
    if (end == text || *end || !(x >= low && x <= high))
        return err_set(err, ERR_USAGE, "%s: '%s' is not a number from %g to %g", name, text, low, high);
    *value = x;
    return 0;
}

/* The job spec of the checkpoint, with the options of the command line. */
static int load_spec(struct drawing *d, const struct request *r, struct err *err)
{
    d->notes = checkpoint_notes(d->path, err);
    if (!d->notes || train_spec_parse(&d->spec, json_object_get(d->notes, "job"), err) < 0)
        return -1;
    double steps = d->spec.sample_steps, count = d->spec.sample_count, seed = (double)d->spec.seed;
    if (number("--steps", r->steps, 1, 1000, &steps, err) < 0 ||
        number("--count", r->count, 1, CAPTIONS_MAX, &count, err) < 0 ||
        number("--seed", r->seed, 0, 9e15, &seed, err) < 0 ||
        number("--cfg", r->cfg, 0, 30, &d->spec.sample_cfg, err) < 0)
        return -1;
    d->spec.sample_steps = (int)steps;
    d->spec.sample_count = (int)count;
    d->spec.seed = (uint64_t)seed;
    return 0;
}

/* The data is needed for its captions and originals; captions of the user need only the codec. */
static int open_data(struct drawing *d, bool own, struct err *err)
{
    const json_t *codec = json_object_get(d->notes, "codec");
    if (own && codec) {
        if (dataset_from_codec(&d->data, codec, err) < 0)
            return -1;
    } else if (dataset_open(&d->data, &d->spec, NULL, NULL, err) < 0)
        return err_prefix(err, "the data that %s was trained on: ", d->path);
    d->shape = dataset_shape(d->data);
    d->spec.model.latent_channels = d->shape.channels;
    d->spec.model.caption_channels = d->shape.caption_channels;
    d->spec.model.caption_len = d->shape.words;
    return 0;
}

static int cut_captions(struct drawing *d, const char *text, struct err *err)
{
    const char *caption[CAPTIONS_MAX];
    int n = 0;
    if (d->spec.encoders != ENCODERS_DCT_HASH)
        return err_set(err, ERR_USAGE, "--captions needs the built-in caption encoder; this model "
                                       "was trained on precomputed features");
    d->texts = strdup(text);
    if (!d->texts)
        return err_set(err, ERR_MEMORY, "out of memory for captions");
    for (char *save, *p = strtok_r(d->texts, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
        if (n == CAPTIONS_MAX)
            return err_set(err, ERR_USAGE, "--captions: at most %d captions", CAPTIONS_MAX);
        caption[n++] = p + strspn(p, " ");
    }
    if (n == 0)
        return err_set(err, ERR_USAGE, "--captions: expected \"one;another\"");
    return sample_prompts_of_captions(&d->prompts, d->data, caption, n, err);
}

static int gather(struct drawing *d, const struct request *r, struct err *err)
{
    int most = d->spec.sample_count < CAPTIONS_MAX ? d->spec.sample_count : CAPTIONS_MAX;
    if ((r->captions ? cut_captions(d, r->captions, err)
                     : sample_prompts_of_data(&d->prompts, d->data, most, err)) < 0)
        return -1;
    d->latents = calloc(d->prompts.floats, sizeof(float));
    if (!d->latents)
        return err_set(err, ERR_MEMORY, "out of memory for %d pictures", d->prompts.n);
    return 0;
}

static size_t null_count(const struct drawing *d)
{
    return (size_t)d->spec.model.caption_len * (size_t)d->spec.model.caption_channels;
}

/* A checkpoint of adapters has no other weights. */
static int read_base(struct drawing *d, struct model *m, struct err *err)
{
    struct pretrained *p;
    if (pretrained_of_spec(&p, &d->spec, err) < 0)
        return -1;
    int rc = train_cmd_read_base(m, p, &d->spec, d->notes, err);
    if (rc == 0 && !pretrained_null(p, sampler_null(d->sampler), null_count(d)))
        rc = dataset_null(d->data, sampler_null(d->sampler), err);
    pretrained_close(p);
    return rc;
}

static int draw(struct drawing *d, struct err *err)
{
    struct checkpoint_state state;
    struct sampler_config cfg = {
        .model = d->spec.model,
        .limits = sample_prompts_limits(&d->prompts, d->data),
        .flow_shift = d->spec.flow_shift,
        .steps = d->spec.sample_steps,
        .cfg = d->spec.sample_cfg,
        .seed = d->spec.seed,
    };
    if (model_config_check(&d->spec.model, err) < 0 || sampler_create(&d->sampler, &cfg, err) < 0)
        return -1;
    struct model *m = sampler_model(d->sampler);
    const bool frozen = model_lora(m) != NULL;
    if (frozen && read_base(d, m, err) < 0)
        return -1;
    if (!frozen && sampler_null(d->sampler) && dataset_null(d->data, sampler_null(d->sampler), err) < 0)
        return -1;
    if (checkpoint_load(&state, d->path, model_layout(m), model_weights(m), NULL,
                        d->spec.optim.ema > 0, err) < 0 ||
        model_push(m, err) < 0)
        return -1;
    return sample_prompts_draw(&d->prompts, d->sampler, d->latents, NULL, NULL, err);
}

static int write_grid(struct drawing *d, const char *path, struct err *err)
{
    const struct sample_grid_pictures all = {d->prompts.original, NULL, d->latents};
    struct picture_decoder decoder;
    if (picture_decoder_open(&decoder, d->data, &d->spec, err) < 0)
        return -1;
    int rc = sample_grid_write(&decoder, &d->prompts, &all, path, err);
    picture_decoder_close(&decoder);
    if (rc == 0)
        fprintf(stderr, "%s: %d pictures from %s\n", path, d->prompts.n, d->path);
    return rc;
}

static int print_score(struct drawing *d, struct err *err)
{
    struct sample_grid_score s;
    if (!d->prompts.original)
        return err_set(err, ERR_USAGE, "--score needs the captions of the data, not --captions");
    if (train_spec_encodes(&d->spec))
        return err_set(err, ERR_USAGE, "--score needs data with encoders: dct+hash");
    if (sample_grid_score(&s, d->data, &d->prompts, d->latents, err) < 0)
        return -1;
    printf("{\"samples\":%d,\"nearest_own\":%d,\"accuracy\":%.4f,\"psnr_db\":%.3f}\n", s.samples,
           s.nearest_own, (double)s.nearest_own / s.samples, s.psnr);
    return 0;
}

static void drawing_free(struct drawing *d)
{
    json_decref(d->notes);
    sampler_destroy(d->sampler);
    dataset_close(d->data);
    free(d->texts);
    sample_prompts_free(&d->prompts);
    free(d->latents);
    free(d);
}

static bool has_weights(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--weights") == 0 || strncmp(argv[i], "--weights=", 10) == 0)
            return true;
    return false;
}

int train_cmd_sample(int argc, char **argv)
{
    if (has_weights(argc, argv))
        return train_cmd_draw(argc, argv);
    struct request r = {0};
    const struct train_cmd_option options[] = {
        {.name = "--checkpoint", .value = &r.checkpoint},
        {.name = "--dir", .value = &r.dir},
        {.name = "--out", .value = &r.out},
        {.name = "--captions", .value = &r.captions},
        {.name = "--steps", .value = &r.steps},
        {.name = "--cfg", .value = &r.cfg},
        {.name = "--count", .value = &r.count},
        {.name = "--seed", .value = &r.seed},
        {.name = "--score", .flag = &r.score},
        {.name = "--backend", .value = &r.backend},
        {.name = "--precision", .value = &r.precision},
        {.name = NULL},
    };
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    struct drawing *d = calloc(1, sizeof(*d));
    if (!d)
        return EXIT_HOST_MEMORY;
    if (!r.out && !r.score)
        err_set(&err, ERR_USAGE,
                "name the output with --out FILE.png, or use --score");
    else if (backend_open(r.backend, r.precision, &err) == 0 &&
             train_cmd_find_checkpoint(d->path, r.checkpoint, r.dir, &err) == 0 && load_spec(d, &r, &err) == 0 &&
             open_data(d, r.captions != NULL, &err) == 0 && gather(d, &r, &err) == 0 &&
             draw(d, &err) == 0 && (!r.out || write_grid(d, r.out, &err) == 0) && r.score)
        print_score(d, &err);
    drawing_free(d);
    return err.code ? train_cmd_fail("sample", &err) : EXIT_DONE;
}
