/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_vae.c - jobctl-train vae: a picture to a latent and back, and how long that takes
 *
 * encode --weights PATH --in PICTURE --out FILE.npy|FILE.safetensors [--size N]
 * decode --weights PATH --in FILE --out FILE.png
 * bench [--model dcae|sdxl] [--half encode|decode] [--size N] [--height N] [--memory MB] [--runs N] [--profile] [--json]
 * and of all three: [--backend auto|cpu|cuda] [--precision auto|fp32|bf16]
 *
 * A picture is cropped to multiples of the autoencoder's factor; with --size scaled and cropped to a square first.
 * Latents are scaled as a model is trained on them.  bench draws random weights of the real sizes;
 * --memory is for whole pictures between layers (vae_set_memory()).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/cli/profile_table.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/image/image.h"
#include "engine/model/backend.h"
#include "engine/vae/latent_file.h"
#include "engine/vae/vae_image.h"
#include "engine/vae/vae_source.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"

enum { RUNS_MAX = 1000 };

/* --- pictures ---------------------------------------------------------------------------------- */

/* A whole number of an option; `otherwise` if it is not given. */
static int whole(int *out, const char *text, int otherwise, int most, const char *option, struct err *err)
{
    char *end;
    const long n = text ? strtol(text, &end, 10) : otherwise;
    if (text && (*end || end == text || n < 1 || n > most))
        return err_set(err, ERR_USAGE, "%s %s: expected a whole number from 1 to %d", option, text, most);
    *out = (int)n;
    return 0;
}

static int read_picture(struct image *out, const char *path, const char *size, int factor, struct err *err)
{
    struct image im = {0};
    int square = 0;
    if (whole(&square, size, 0, IMAGE_MAX_EDGE, "--size", err) < 0 || image_read(&im, path, err) < 0)
        return -1;
    const int width = (square ? square : im.width) / factor * factor;
    const int height = (square ? square : im.height) / factor * factor;
    const int rc = width && height ? image_fit(out, &im, width, height, err)
                                   : err_set(err, ERR_DATA, "%s: %d x %d pixels are too few; the autoencoder needs at "
                                             "least %d x %d", path, square ? square : im.width,
                                             square ? square : im.height, factor, factor);
    image_free(&im);
    return rc;
}

/* --- encode ------------------------------------------------------------------------------------- */

struct request {
    const char *weights, *in, *out, *size, *backend, *precision;
};

static int encode_image(struct vae *v, const struct vae_config *cfg, const struct image *im, struct latent *z,
                        struct err *err)
{
    const int factor = vae_config_factor(cfg);
    *z = (struct latent){cfg->latent, im->height / factor, im->width / factor, NULL};
    if (!(z->x = malloc(vae_image_count(cfg, im->height, im->width) * sizeof(*z->x))))
        return err_set(err, ERR_MEMORY, "no memory for a picture of %d x %d", im->width, im->height);
    return vae_image_encode(v, cfg, im, z->x, NULL, err);
}

static int run_encode(const struct request *r, struct err *err)
{
    struct vae *v = NULL;
    struct vae_config cfg;
    struct image im = {0};
    struct latent z = {0, 0, 0, NULL};
    int rc = vae_source_open(&v, &cfg, r->weights, VAE_ENCODER, err);
    if (rc == 0)
        rc = read_picture(&im, r->in, r->size, vae_config_factor(&cfg), err);
    if (rc == 0)
        rc = encode_image(v, &cfg, &im, &z, err);
    if (rc == 0)
        rc = latent_file_write(&z, r->out, err);
    if (rc == 0)
        printf("%s: %d x %d x %d, of %d x %d pixels\n", r->out, z.channels, z.height, z.width, im.height, im.width);
    vae_destroy(v);
    image_free(&im);
    free(z.x);
    return rc;
}

/* --- decode ------------------------------------------------------------------------------------- */

static int run_decode(const struct request *r, struct err *err)
{
    struct vae *v = NULL;
    struct vae_config cfg;
    struct image im = {0};
    struct latent z;
    if (latent_file_read(&z, r->in, err) < 0)
        return -1;
    int rc = vae_source_open(&v, &cfg, r->weights, VAE_DECODER, err);
    if (rc == 0 && z.channels != cfg.latent)
        rc = err_set(err, ERR_DATA, "%s: %d channels; the autoencoder of %s has %d", r->in, z.channels, r->weights,
                     cfg.latent);
    if (rc == 0)
        rc = vae_image_decode(v, &cfg, z.x, z.height, z.width, &im, err);
    if (rc == 0)
        rc = image_write_png(&im, r->out, err);
    if (rc == 0)
        printf("%s: %d x %d pixels\n", r->out, im.height, im.width);
    vae_destroy(v);
    image_free(&im);
    free(z.x);
    return rc;
}

static int convert(int argc, char **argv, int (*run)(const struct request *r, struct err *err))
{
    struct request r = {0};
    struct err err = {0};
    const struct train_cmd_option options[] = {
        {.name = "--weights", .value = &r.weights, .required = true},
        {.name = "--in", .value = &r.in, .required = true},
        {.name = "--out", .value = &r.out, .required = true},
        {.name = "--size", .value = &r.size},
        {.name = "--backend", .value = &r.backend},
        {.name = "--precision", .value = &r.precision},
        {.name = NULL},
    };
    const int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    if (backend_open(r.backend, r.precision, &err) < 0 || run(&r, &err) < 0)
        return train_cmd_fail("vae", &err);
    return EXIT_DONE;
}

/* --- bench -------------------------------------------------------------------------------------- */

struct bench {
    const char *model, *half, *size_text, *height_text, *memory_text, *runs_text, *backend, *precision;
    bool        json, profile;
    int         size, height, memory, runs;
};

/* What is timed: the encoder makes `latent`, [2 * channels, high, wide], of `picture`, the decoder the other way. */
struct bench_run {
    struct vae *v;
    bool        encode;
    int         factor, high, wide;
    float      *picture, *latent;
};

static int read_bench(struct bench *b, struct err *err)
{
    if (b->model && strcmp(b->model, "dcae") != 0 && strcmp(b->model, "sdxl") != 0)
        return err_set(err, ERR_USAGE, "--model %s: expected dcae or sdxl", b->model);
    if (b->half && strcmp(b->half, "encode") != 0 && strcmp(b->half, "decode") != 0)
        return err_set(err, ERR_USAGE, "--half %s: expected encode or decode", b->half);
    if (b->profile && b->json)
        return err_set(err, ERR_USAGE, "--profile prints a table: leave out --json");
    if (whole(&b->size, b->size_text, 512, 1 << 14, "--size", err) < 0 ||
        whole(&b->height, b->height_text, b->size, 1 << 14, "--height", err) < 0 ||
        whole(&b->memory, b->memory_text, 0, 1 << 20, "--memory", err) < 0)
        return -1;
    return whole(&b->runs, b->runs_text, 3, RUNS_MAX, "--runs", err);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void report(const struct bench *b, double *seconds, double processor)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    qsort(seconds, (size_t)b->runs, sizeof(*seconds), by_size);
    printf(b->json ? "{\"kernels\": \"%s\", \"size\": %d, \"height\": %d, \"s_median\": %.3f, \"s_min\": %.3f, \"cpu_s\": %.3f, "
                     "\"peak_mb\": %ld}\n"
                   : "%s, %d x %d px: median %.3f s, fastest %.3f s, processor time %.3f s each, peak memory %ld MB\n",
           backend_ops()->name, b->size, b->height, seconds[b->runs / 2], seconds[0], processor / b->runs, u.ru_maxrss / 1000);
}

/* Seconds, or below 0. */
static double run_once(const struct bench_run *r, struct err *err)
{
    const uint64_t from = clock_ns();
    const int rc = r->encode
                       ? vae_encode(r->v, r->latent, r->picture, r->high * r->factor, r->wide * r->factor, err)
                       : vae_decode(r->v, r->picture, r->latent, r->high, r->wide, err);
    return rc < 0 ? -1 : (double)(clock_ns() - from) * 1e-9;
}

static int profile_run(const struct bench_run *r, struct err *err)
{
    const struct kern_profile *p = backend_profile();
    int rows;
    p->start();
    const double seconds = run_once(r, err);
    const struct kern_profile_row *row = p->stop(&rows);
    if (seconds < 0 || backend_check(backend_ops(), err) < 0)
        return -1;
    profile_table_print(row, rows, 1e3 * seconds, "a picture");
    return 0;
}

static int time_runs(const struct bench *b, struct bench_run *r, struct err *err)
{
    double *seconds = calloc((size_t)b->runs, sizeof(*seconds));
    int rc = seconds ? 0 : err_set(err, ERR_MEMORY, "no memory for the times of %d runs", b->runs);
    const double start = processor_seconds();
    for (int i = 0; rc == 0 && i < b->runs; i++)
        rc = (seconds[i] = run_once(r, err)) < 0 ? -1 : 0;
    if (rc == 0)
        report(b, seconds, processor_seconds() - start);
    free(seconds);
    return rc == 0 && b->profile ? profile_run(r, err) : rc;
}

static int bench_pictures(const struct bench *b, struct vae *v, const struct vae_config *cfg, bool encode, struct err *err)
{
    const int factor = vae_config_factor(cfg), wide = b->size / factor, high = b->height / factor;
    const size_t picture = 3 * (size_t)(high * factor) * (size_t)(wide * factor);
    const size_t latent = 2 * (size_t)cfg->latent * (size_t)high * (size_t)wide;
    float *x = calloc(picture + latent, sizeof(*x));
    struct bench_run r = {v, encode, factor, high, wide, x, x + picture};
    int rc = x && latent ? 0 : err_set(err, ERR_USAGE, "%d pixels: too few, or too many for memory", b->size);
    for (size_t i = 0; rc == 0 && i < picture + latent; i++)
        x[i] = (float)(i * 7919 % 2001) / 1000.0f - 1;
    vae_set_memory(v, (size_t)b->memory * 1000000);
    if (rc == 0)
        rc = time_runs(b, &r, err);
    free(x);
    return rc;
}

static int bench(int argc, char **argv)
{
    struct bench b = {0};
    struct vae *v = NULL;
    struct err err = {0};
    const struct train_cmd_option options[] = {
        {.name = "--model", .value = &b.model}, {.name = "--half", .value = &b.half},
        {.name = "--size", .value = &b.size_text}, {.name = "--runs", .value = &b.runs_text},
        {.name = "--height", .value = &b.height_text}, {.name = "--memory", .value = &b.memory_text},
        {.name = "--backend", .value = &b.backend}, {.name = "--precision", .value = &b.precision},
        {.name = "--json", .flag = &b.json},   {.name = "--profile", .flag = &b.profile}, {.name = NULL},
    };
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    rc = read_bench(&b, &err) < 0 ? -1 : backend_open(b.backend, b.precision, &err);
    if (rc == 0 && b.profile && !backend_profile())
        rc = err_set(&err, ERR_USAGE, "--profile times the kernels of a GPU; the backend is the CPU: add --backend cuda");
    const bool encode = !b.half || b.half[0] == 'e';
    const struct vae_config *cfg = b.model && b.model[0] == 's' ? &vae_source_sdxl : &vae_source_dcae;
    if (rc == 0)
        rc = vae_source_random(&v, cfg, encode ? VAE_ENCODER : VAE_DECODER, &err);
    if (rc == 0)
        rc = bench_pictures(&b, v, cfg, encode, &err);
    vae_destroy(v);
    return rc < 0 ? train_cmd_fail("vae", &err) : EXIT_DONE;
}

int train_cmd_vae(int argc, char **argv)
{
    struct err err = {0};
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "encode") == 0)
        return convert(argc - 1, argv + 1, run_encode);
    if (strcmp(what, "decode") == 0)
        return convert(argc - 1, argv + 1, run_decode);
    if (strcmp(what, "bench") == 0)
        return bench(argc - 1, argv + 1);
    err_set(&err, ERR_USAGE, "expected encode, decode or bench, not '%.40s'", what);
    return train_cmd_fail("vae", &err);
}
