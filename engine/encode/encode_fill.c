/* SPDX-License-Identifier: Apache-2.0 */
/* encode_fill.c - computes entries that the cache lacks, file by file; see encode.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/encode/encode_internal.h"
#include "engine/encode/encode_plan.h"
#include "engine/image/image.h"
#include "engine/vae/vae_flops.h"
#include "engine/vae/vae_image.h"
#include "engine/vae/vae_source.h"

enum { SHARD = 64, SHARDS = 8192 };

/* One half of this rank's share. */
struct filling {
    struct encode            *e;
    const struct encode_list *list;
    const char               *dir;
    enum st_dtype             dtype;
    enum encode_stage         stage;
    struct encode_progress    now;
    int                       part, parts;
    int64_t                   shard;
    encode_tick_fn            tick;
    void                     *arg;
    struct vae               *vae;   /* one of both is loaded */
    struct text_encoder      *text;
    float                    *y, *mask;
    double                    flops; /* so far */
};

/* --- entries -------------------------------------------------------------------------------- */

static int fill_picture(struct filling *f, const struct encode_item *item, struct cache_entry *to, struct err *err)
{
    const struct encoder_pair *by = &f->e->encoders;
    struct image im = {0};
    if (collection_picture(&im, f->e->set->collection, f->e->set->sample[item->sample].number, err) < 0)
        return -1;
    const bool gaussian = f->e->set->gaussian;
    const size_t n = vae_image_count(&by->vae_config, im.height, im.width);
    float *z = malloc((gaussian ? 2 : 1) * n * sizeof(*z));
    int rc = z ? vae_image_encode(f->vae, &by->vae_config, &im, z, gaussian ? z + n : NULL, err)
               : err_set(err, ERR_MEMORY, "out of memory for a latent");
    const int height = im.height, width = im.width;
    image_free(&im);
    *to = (struct cache_entry){item->key, z, (gaussian ? 2 : 1) * n};
    f->flops += vae_flops_encode(&by->vae_config, height, width);
    return rc;
}

static int encode_text_of(struct filling *f, const struct encode_item *item, struct err *err)
{
    struct collection_sample s;
    if (item->sample == ENCODE_EMPTY)
        return text_encoder_null(f->text, f->y, f->mask, err);
    if (item->sample == ENCODE_PROMPT) {
        const json_t *text = json_array_get(f->e->prompts, (size_t)item->caption);
        return text_encoder_caption(f->text, json_string_value(text), json_string_length(text), f->y, f->mask, NULL,
                                    err);
    }
    if (collection_sample(&s, f->e->set->collection, f->e->set->sample[item->sample].number, err) < 0)
        return -1;
    const char *caption = item->caption < s.captions ? s.caption[item->caption].text : "";
    int rc = text_encoder_caption(f->text, caption, strlen(caption), f->y, f->mask, NULL, err);
    if (rc < 0)
        err_prefix(err, "%s: ", s.where);
    collection_sample_free(&s);
    return rc;
}

/* Rows of tokens; of the empty caption all. */
static int fill_caption(struct filling *f, const struct encode_item *item, struct cache_entry *to, struct err *err)
{
    const size_t rows = (size_t)f->e->encoders.rows, width = (size_t)f->e->encoders.width;
    size_t n = 0;
    if (encode_text_of(f, item, err) < 0)
        return -1;
    while (n < rows && (f->mask[n] > 0 || item->sample == ENCODE_EMPTY))
        n++;
    float *x = malloc((n ? n : 1) * width * sizeof(*x));
    if (!x)
        return err_set(err, ERR_MEMORY, "out of memory for the rows of a caption");
    n = n ? n : 1;
    f->flops += (double)n * f->e->encoders.token_flops;
    memcpy(x, f->y, n * width * sizeof(*x));
    *to = (struct cache_entry){item->key, x, n * width};
    return 0;
}

/* --- files ---------------------------------------------------------------------------------- */

static int fill_shard(struct filling *f, int64_t from, int64_t to, struct err *err)
{
    struct cache_entry *entry = calloc((size_t)(to - from), sizeof(*entry));
    int rc = entry ? 0 : err_set(err, ERR_MEMORY, "out of memory for a shard");
    for (int64_t i = from; rc == 0 && i < to; i++) {
        const struct encode_item *item = &f->list->item[i];
        rc = f->stage == ENCODE_PICTURES ? fill_picture(f, item, &entry[i - from], err)
                                         : fill_caption(f, item, &entry[i - from], err);
        f->now.done += rc == 0;
        if (rc == 0 && f->tick && !f->tick(f->arg, &f->now))
            rc = err_set(err, ERR_CONFLICT, "stopped on request while data is encoded; the next start continues with "
                         "the file that was begun");
    }
    if (rc == 0)
        rc = cache_shard_write(f->dir, f->dtype, entry, to - from, err);
    f->now.saved += rc == 0 ? to - from : 0;
    for (int64_t i = from; entry && i < to; i++)
        free((void *)(uintptr_t)entry[i - from].x);
    free(entry);
    return rc;
}

static int64_t end_of(const struct filling *f, int64_t from)
{
    return from + f->shard < f->list->n ? from + f->shard : f->list->n;
}

static int64_t share_of(const struct filling *f)
{
    int64_t n = 0;
    for (int64_t from = 0, k = 0; from < f->list->n; from += f->shard, k++)
        n += k % f->parts == f->part ? end_of(f, from) - from : 0;
    return n;
}

static int fill_shards(struct filling *f, struct err *err)
{
    for (int64_t from = 0, k = 0; from < f->list->n; from += f->shard, k++)
        if (k % f->parts == f->part && fill_shard(f, from, end_of(f, from), err) < 0)
            return -1;
    return 0;
}

static int load(struct filling *f, struct err *err)
{
    const struct encoder_pair *by = &f->e->encoders;
    struct vae_config cfg;
    if (f->stage == ENCODE_PICTURES)
        return vae_source_open(&f->vae, &cfg, by->vae, VAE_ENCODER, err);
    f->y = malloc((size_t)by->rows * (size_t)by->width * sizeof(*f->y));
    f->mask = malloc((size_t)by->rows * sizeof(*f->mask));
    if (!f->y || !f->mask)
        return err_set(err, ERR_MEMORY, "out of memory for the rows of a caption");
    return encoder_pair_open_text(&f->text, by, true, err);
}

/* Encoders are loaded only by a rank that has something to encode, and one at a time. */
static int fill_half(struct filling *f, struct err *err)
{
    const int64_t all = f->stage == ENCODE_PICTURES ? f->e->set->samples : f->e->set->texts;
    const int64_t least = (all + SHARDS - 1) / SHARDS;
    f->shard = f->e->shard ? f->e->shard : least > SHARD ? least : SHARD;
    f->now.stage = f->stage;
    f->now.total = share_of(f);
    if (f->now.total == 0)
        return 0;
    int rc = scratch_mkdirs(f->dir, err);
    if (rc == 0)
        rc = load(f, err);
    const double begin = clock_s();
    if (rc == 0)
        rc = fill_shards(f, err);
    if (rc == 0 && f->part == 0)
        encode_plan_learn(f->e->cache, f->stage, f->flops / (clock_s() - begin));
    vae_destroy(f->vae);
    text_encoder_close(f->text);
    free(f->y);
    free(f->mask);
    return rc;
}

int encode_fill(struct encode *e, int part, int parts, encode_tick_fn tick, void *arg, struct err *err)
{
    struct filling pictures = {.e = e, .list = &e->pictures, .dir = e->latents, .dtype = ST_F32,
                               .stage = ENCODE_PICTURES, .part = part, .parts = parts, .tick = tick, .arg = arg};
    struct filling captions = pictures;
    captions.list = &e->captions;
    captions.dir = e->text;
    captions.dtype = e->text_dtype;
    captions.stage = ENCODE_CAPTIONS;
    if (fill_half(&pictures, err) < 0)
        return -1;
    captions.now.saved = pictures.now.saved;
    return fill_half(&captions, err);
}
