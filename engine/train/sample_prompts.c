/* SPDX-License-Identifier: Apache-2.0 */
/* sample_prompts.c - see sample_prompts.h */
#include "engine/train/sample_prompts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/data/dataset.h"

void sample_prompts_free(struct sample_prompts *s)
{
    free(s->of);
    free(s->captions);
    free(s->masks);
    free(s->original);
    *s = (struct sample_prompts){0};
}

static size_t row_of(const struct dataset_shape *shape)
{
    return (size_t)shape->words * (size_t)shape->caption_channels;
}

static int make(struct sample_prompts *s, const struct dataset_shape *shape, int n, struct err *err)
{
    *s = (struct sample_prompts){.n = n};
    s->of = calloc((size_t)n, sizeof(*s->of));
    s->captions = calloc((size_t)n * row_of(shape), sizeof(float));
    s->masks = calloc((size_t)n * (size_t)shape->words, sizeof(float));
    if (s->of && s->captions && s->masks)
        return 0;
    return err_set(err, ERR_MEMORY, "out of memory for %d pictures", n);
}

static void place(struct sample_prompts *s, int i, int channels, int height, int width)
{
    s->of[i].height = height;
    s->of[i].width = width;
    s->of[i].at = s->floats;
    s->floats += (size_t)channels * (size_t)height * (size_t)width;
}

int sample_prompts_of_data(struct sample_prompts *out, const struct dataset *d, int most, struct err *err)
{
    struct dataset_shape shape = dataset_shape(d);
    struct sample_prompts s;
    int n = most < shape.samples ? most : (int)shape.samples;
    if (make(&s, &shape, n, err) < 0)
        goto fail;
    for (int i = 0; i < n; i++) {
        int64_t sample = shape.buckets == 1 ? i : i * shape.samples / n;
        struct dataset_bucket b = dataset_bucket_of(d, sample);
        s.of[i] = (struct subject){.caption = dataset_caption(d, sample), .sample = sample,
                                   .id = sample};
        place(&s, i, shape.channels, b.height, b.width);
    }
    s.original = calloc(s.floats, sizeof(float));
    if (!s.original) {
        err_set(err, ERR_MEMORY, "out of memory for %d pictures", n);
        goto fail;
    }
    for (int i = 0; i < n; i++)
        if (dataset_get(d, s.of[i].sample, s.original + s.of[i].at, s.captions + (size_t)i * row_of(&shape),
                        s.masks + (size_t)i * (size_t)shape.words, err) < 0)
            goto fail;
    *out = s;
    return 0;
fail:
    sample_prompts_free(&s);
    return -1;
}

int64_t sample_prompts_id(const char *text)
{
    return (int64_t)(digest_word(text, strlen(text), 0) >> 1);
}

int sample_prompts_of_captions(struct sample_prompts *out, const struct dataset *d,
                               const char *const *captions, int n, struct err *err)
{
    struct dataset_shape shape = dataset_shape(d);
    int rc = make(out, &shape, n, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        const char *text = captions[i];
        out->of[i] = (struct subject){.caption = text, .sample = -1, .id = sample_prompts_id(text)};
        place(out, i, shape.channels, shape.height, shape.width);
        rc = dataset_text(d, text, out->captions + (size_t)i * row_of(&shape),
                          out->masks + (size_t)i * (size_t)shape.words, err);
    }
    if (rc < 0)
        sample_prompts_free(out);
    return rc;
}

struct model_limits sample_prompts_limits(const struct sample_prompts *s, const struct dataset *d)
{
    struct dataset_shape shape = dataset_shape(d);
    return (struct model_limits){.batch = sampler_batch(s->n, shape.height, shape.width),
                                 .height = shape.height, .width = shape.width,
                                 .text = shape.words};
}

/* Progress of one batch as a fraction of all. */
struct part {
    sampler_tick_fn tick;
    void           *arg;
    double          begin, share;
};

static bool tick_part(void *arg, double share)
{
    const struct part *p = arg;
    return p->tick(p->arg, p->begin + p->share * share);
}

/* Consecutive subjects of one shape are drawn in one batch. */
int sample_prompts_draw(const struct sample_prompts *s, struct sampler *sampler, float *latents,
                        sampler_tick_fn tick, void *arg, struct err *err)
{
    struct model_limits limits = sampler_limits(sampler);
    size_t words = (size_t)limits.text;
    size_t row = words * (size_t)model_config(sampler_model(sampler))->caption_channels;
    int64_t *ids = calloc((size_t)s->n, sizeof(*ids));
    int rc = ids ? 0 : err_set(err, ERR_MEMORY, "out of memory for %d pictures", s->n);
    for (int from = 0, end; rc == 0 && from < s->n; from = end) {
        const struct subject *first = &s->of[from];
        struct part part = {tick, arg, (double)from / s->n, 0};
        for (end = from; end < s->n && s->of[end].height == first->height &&
                         s->of[end].width == first->width; end++)
            ids[end] = s->of[end].id;
        part.share = (double)(end - from) / s->n;
        const struct sampler_wish wish = {
            .n = end - from, .height = first->height, .width = first->width, .ids = ids + from,
            .y = s->captions + (size_t)from * row, .mask = s->masks + (size_t)from * words,
        };
        rc = sampler_draw(sampler, latents + first->at, &wish, tick ? tick_part : NULL, &part, err);
    }
    free(ids);
    return rc;
}
