/* SPDX-License-Identifier: Apache-2.0 */
/* encode_plan.c - see encode_plan.h */
#include "engine/encode/encode_plan.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/base/size_text.h"
#include "engine/encode/encode_internal.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/vae/vae_flops.h"
#include "kernels/kernels.h"

struct encode;

/* Pixels of a strip on a device (engine/vae). */
enum { STRIP = 131072, VIT_STRIP = 16384 };

/* Of the largest picture. */
static double most_pixels(const struct encode *e)
{
    double most = 0;
    for (int64_t i = 0; i < e->set->samples; i++)
        most = fmax(most, (double)e->set->sample[i].height * e->set->sample[i].width);
    return most * e->encoders.factor * e->encoders.factor;
}

/* The first stage that has the picture as a whole in memory: at the first attention of DC-AE, at full size of KL. */
static int whole_from(const struct vae_config *c)
{
    int at = 0;
    while (c->family == VAE_DCAE && at + 1 < c->stages && !c->attention[at])
        at++;
    return at;
}

/* 1.6 times the weights, which are packed, and three times the picture where it is as a whole in memory. So much was
 * measured (docs/BENCHMARKS.md), a tenth less or more. */
static int64_t vae_on_host(const struct encode *e)
{
    const struct vae_config *c = &e->encoders.vae_config;
    const int at = whole_from(c);
    return (int64_t)(1.6 * (double)e->encoders.vae_bytes +
                     3 * most_pixels(e) / pow(4, at) * c->width[at] * (double)sizeof(float));
}

/* Weights, two windows for each layer that runs over strips, the picture as above, and of a strip of an attention what
 * is wide: 16 times its channels. */
static int64_t vae_on_device(const struct encode *e, bool bf16)
{
    const struct vae_config *c = &e->encoders.vae_config;
    const double pixels = most_pixels(e), strip = fmin(STRIP, pixels);
    const int at = whole_from(c);
    double floats = 0;
    for (int i = 0; i <= at && i < c->stages; i++)
        floats += strip / pow(4, i) * c->width[i] * (2 * c->encoder_depth[i] + 1);
    floats += 3 * pixels / pow(4, at) * c->width[at];
    for (int i = at; i < c->stages; i++)
        floats += c->attention[i] ? 16 * fmin(VIT_STRIP, pixels / pow(4, i)) * c->width[i] : 0;
    return (int64_t)((double)e->encoders.vae_bytes * (bf16 ? 0.5 : 1) + floats * (double)sizeof(float));
}

static int64_t encode_memory_vae(const struct encode *e, bool device, bool bf16)
{
    return device ? vae_on_device(e, bf16) : vae_on_host(e);
}

/* A device has the matrices, two operations for each number of two bytes; the embedding stays in its file. Of the rest
 * the work of products is most: the widest has four times the encoder's channels. */
static int64_t encode_memory_text(const struct encode *e, bool device)
{
    const int64_t rows = 4 * (int64_t)e->encoders.rows * e->encoders.width * 8;
    if (!device)
        return e->encoders.text_bytes + rows;
    return (int64_t)e->encoders.token_flops + rows + (int64_t)(KERN_BF16_WORK(4 * e->encoders.width) * sizeof(float));
}

enum { CAPTIONS = 200, EDGE = 512, DEVICE_EDGE = 2048 };

/* A device has rates of its own. */
static const char *name_of(enum encode_stage stage)
{
    static const char *const names[][2] = {[ENCODE_PICTURES] = {"pictures", "pictures on a GPU"},
                                           [ENCODE_CAPTIONS] = {"captions", "captions on a GPU"}};
    return names[stage][!backend_ops()->host];
}

/* --- samples -------------------------------------------------------------------------------- */

static void look_at_pictures(struct encode_plan *p, const struct encode *e)
{
    const struct encoded_set *set = e->set;
    const int factor = e->encoders.factor;
    double flops = 0, numbers = 0;
    for (int64_t i = 0; i < set->samples; i++) {
        const struct encoded_sample *s = &set->sample[i];
        flops += vae_flops_encode(&e->encoders.vae_config, s->height * factor, s->width * factor);
        numbers += (double)set->channels * s->height * s->width * (set->gaussian ? 2 : 1);
    }
    const double n = set->samples > 0 ? (double)set->samples : 1;
    p->picture_flops = flops / n;
    p->latent_bytes = (int64_t)(numbers / n * (double)p->need.pictures * sizeof(float));
}

static int count_caption(const struct encode *e, const struct text_encoder *t, int64_t i, double *tokens, double *rows,
                         struct err *err)
{
    struct collection_sample s;
    int kept = 0;
    if (collection_sample(&s, e->set->collection, i, err) < 0)
        return -1;
    const char *text = s.caption[0].text;
    const int n = text_encoder_tokens(t, text, strlen(text), &kept, err);
    collection_sample_free(&s);
    *tokens += n;
    *rows += kept;
    return n < 0 ? -1 : 0;
}

static int look_at_captions(struct encode_plan *p, const struct encode *e, struct err *err)
{
    const int64_t n = e->set->samples, step = n > CAPTIONS ? n / CAPTIONS : 1;
    const size_t width = (size_t)e->encoders.width * st_dtype_size(e->text_dtype);
    struct text_encoder *t;
    double tokens = 0, rows = 0, seen = 0;
    int rc = 0;
    if (encoder_pair_open_text(&t, &e->encoders, false, err) < 0)
        return -1;
    for (int64_t i = 0; rc == 0 && i < n; i += step, seen++)
        rc = count_caption(e, t, i, &tokens, &rows, err);
    text_encoder_close(t);
    p->caption_flops = seen > 0 ? tokens / seen * e->encoders.token_flops : 0;
    p->text_bytes = (int64_t)(((seen > 0 ? rows / seen : 0) * (double)(p->need.captions - 1) + e->encoders.rows) *
                              (double)width);
    return rc;
}

/* --- rates ---------------------------------------------------------------------------------- */

static void name_rates(char path[PATH_MAX], const char *cache)
{
    snprintf(path, PATH_MAX, "%.4000s/rate.json", cache);
}

void encode_plan_learn(const char *cache, enum encode_stage stage, double rate)
{
    char path[PATH_MAX], tmp[SCRATCH_PATH];
    name_rates(path, cache);
    json_t *o = safe_open_json(path, 0, NULL);
    if (!o)
        o = json_object();
    json_object_set_new(o, name_of(stage), json_real(rate));
    if (rate > 0 && scratch_name(tmp, path, NULL) == 0 &&
        (json_file_save(o, tmp, JSON_COMPACT) < 0 || rename(tmp, path) < 0))
        unlink(tmp);
    json_decref(o);
}

/* The best of some products of two square matrices. 0: no memory. */
static double products_rate(const struct kern_ops *ops)
{
    const int edge = ops->host ? EDGE : DEVICE_EDGE;
    const size_t n = (size_t)edge * (size_t)edge;
    char why[256], *x = ops->alloc(3 * n * ops->narrow);
    double best = 0;
    const double until = clock_s() + 0.2;
    for (int i = 0; x && (i < 2 || clock_s() < until); i++) {
        const double begin = clock_s();
        ops->linear(x, x + n * ops->narrow, x + 2 * n * ops->narrow, NULL, edge, edge, edge);
        if (ops->state(why, sizeof(why)) != KERN_OK)
            break;
        best = fmax(best, 2.0 * edge * (double)n / (clock_s() - begin));
    }
    ops->release(x);
    return best;
}

static void find_rates(struct encode_plan *p)
{
    char path[PATH_MAX];
    name_rates(path, p->cache);
    json_t *o = safe_open_json(path, 0, NULL);
    p->picture_rate = field_number(o, name_of(ENCODE_PICTURES));
    p->caption_rate = field_number(o, name_of(ENCODE_CAPTIONS));
    json_decref(o);
    p->measured = p->picture_rate > 0 && p->caption_rate > 0;
    if (!p->measured)
        p->picture_rate = p->caption_rate = products_rate(backend_ops());
    if (p->picture_rate > 0)
        p->seconds = p->picture_flops * (double)p->need.no_pictures / p->picture_rate +
                     p->caption_flops * (double)p->need.no_captions / p->caption_rate;
}

/* Captions with as many rows as they may have. */
static void assume(struct encode_plan *p, const struct encode *e)
{
    snprintf(p->absent, sizeof(p->absent), "%s", e->encoders.absent);
    p->factor = e->encoders.factor;
    p->channels = e->encoders.vae_config.latent;
    p->rows = e->encoders.rows;
    p->width = e->encoders.width;
    p->text_bytes = p->need.captions * p->rows * p->width * (int64_t)st_dtype_size(e->text_dtype);
}

int encode_plan_make(struct encode_plan *out, struct encode *e, int ranks, struct err *err)
{
    *out = (struct encode_plan){.ranks = ranks};
    if (encode_identify(e, true, NULL, NULL, err) < 0 || encode_survey(e, false, NULL, NULL, &out->need, err) < 0)
        return -1;
    const bool fill = out->need.no_pictures + out->need.no_captions > 0;
    snprintf(out->cache, sizeof(out->cache), "%s", e->cache);
    look_at_pictures(out, e);
    if (encode_place_check(e->cache, fill, err) < 0)
        return -1;
    if (e->encoders.absent[0]) {
        assume(out, e);
        return 0;
    }
    if (look_at_captions(out, e, err) < 0)
        return -1;
    if (fill)
        find_rates(out);
    out->device = !backend_ops()->host;
    out->vae_memory = encode_memory_vae(e, out->device, backend_is_bf16());
    out->text_memory = encode_memory_text(e, out->device);
    out->text_mapped = out->device ? 0 : e->encoders.text_bytes;
    out->free_memory = device_memory().free;
    return 0;
}

/* --- words ---------------------------------------------------------------------------------- */

static bool fits(const struct encode_plan *p)
{
    if (p->device) /* each rank has its own */
        return p->free_memory <= 0 || (p->vae_memory <= p->free_memory && p->text_memory <= p->free_memory);
    return p->free_memory <= 0 || (p->vae_memory * p->ranks <= p->free_memory && p->text_memory <= p->free_memory);
}

static void print_time(const struct encode_plan *p, FILE *to)
{
    const double s = p->seconds / p->ranks;
    fprintf(to, "            %s%.3g %s with %d rank%s: %.3g GFLOP per picture, %.3g per caption, %s %.3g and %.3g GFLOP/s\n",
            p->measured ? "" : "at least ", s < 120 ? s : s < 7200 ? s / 60 : s / 3600,
            s < 120 ? "s" : s < 7200 ? "min" : "h", p->ranks, p->ranks == 1 ? "" : "s", p->picture_flops * 1e-9,
            p->caption_flops * 1e-9, p->measured ? "measured when this cache was filled before:"
                                                 : "counted, at the speed of a matrix product here:",
            p->picture_rate * 1e-9, p->caption_rate * 1e-9);
}

static void print_absent(const struct encode_plan *p, FILE *to)
{
    char a[SIZE_TEXT], b[SIZE_TEXT];
    fprintf(to, "encode      %lld pictures and %lld captions; about %s of latents and at most %s of text in %s\n"
            "            the encoders are not here yet: %s\n"
            "            assumed, as published: latents of %d channels at 1/%d of the size, captions of at most %d x %d; "
            "time and memory of the encoding are planned when the encoders are here\n",
            (long long)p->need.pictures, (long long)p->need.captions, size_text(p->latent_bytes, a),
            size_text(p->text_bytes, b), p->cache, p->absent, p->channels, p->factor, p->rows, p->width);
}

void encode_plan_print(const struct encode_plan *p, FILE *to)
{
    char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT], d[SIZE_TEXT];
    if (p->absent[0]) {
        print_absent(p, to);
        return;
    }
    fprintf(to,
            "encode      %lld of %lld pictures and %lld of %lld captions; %s of latents and about %s of text in %s\n",
            (long long)p->need.no_pictures, (long long)p->need.pictures, (long long)p->need.no_captions,
            (long long)p->need.captions, size_text(p->latent_bytes, a), size_text(p->text_bytes, b), p->cache);
    if (p->need.no_pictures + p->need.no_captions == 0)
        return;
    print_time(p, to);
    if (p->device)
        fprintf(to, "            GPU memory: autoencoder about %s, then text encoder about %s; %s free%s; both are gone before "
                "training\n", size_text(p->vae_memory, a), size_text(p->text_memory, b), size_text(p->free_memory, c),
                fits(p) ? "" : ": this does not fit");
    else
        fprintf(to, "            memory: autoencoder about %s per rank, then text encoder %s, of which %s are mapped and shared "
            "by ranks; %s free%s; both are gone before training\n", size_text(p->vae_memory, a), size_text(p->text_memory, b),
            size_text(p->text_mapped, c), size_text(p->free_memory, d), fits(p) ? "" : ": this does not fit");
}

json_t *encode_plan_json(const struct encode_plan *p)
{
    return json_make("{s:s, s:s*, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:f, s:I, s:I, s:b}", "cache", p->cache,
                     "absent", p->absent[0] ? p->absent : NULL,
                     "pictures", (json_int_t)p->need.pictures, "captions", (json_int_t)p->need.captions,
                     "missing_pictures", (json_int_t)p->need.no_pictures, "missing_captions",
                     (json_int_t)p->need.no_captions, "latent_bytes", (json_int_t)p->latent_bytes, "text_bytes",
                     (json_int_t)p->text_bytes, "picture_flops", p->picture_flops, "caption_flops", p->caption_flops,
                     "rate", p->measured ? "measured" : "counted", "seconds", p->seconds / p->ranks, "vae_memory",
                     (json_int_t)p->vae_memory, "text_memory", (json_int_t)p->text_memory, "fits", (int)fits(p));
}
