/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c - see encode.h */
#include "engine/encode/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/cache_store.h"
#include "engine/data/dataset.h"
#include "engine/encode/encode_check.h"
#include "engine/encode/encode_internal.h"

#define CHECKED_BYTES (INT64_C(4) << 30)

typedef int find_fn(struct encoder_pair *out, const struct train_spec *s, struct err *err);

static int open_found(struct encode **out, find_fn *find, const struct train_spec *s, struct err *err)
{
    struct encode *e = calloc(1, sizeof(*e));
    if (!e)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    if (find(&e->encoders, s, err) < 0 || encode_check_found(&e->encoders, s, err) < 0 ||
        encode_keys_open(e, s, err) < 0) {
        encode_close(e);
        return -1;
    }
    *out = e;
    return 0;
}

int encode_open(struct encode **out, const struct train_spec *s, struct err *err)
{
    return open_found(out, encoder_pair_find, s, err);
}

int encode_open_plan(struct encode **out, const struct train_spec *s, struct err *err)
{
    return open_found(out, encoder_pair_find_or_assume, s, err);
}

void encode_close(struct encode *e)
{
    if (!e)
        return;
    encoder_pair_free(&e->encoders);
    encoded_set_free(e->set);
    free(e->pictures.item);
    free(e->captions.item);
    free(e);
}

const char *encode_cache(const struct encode *e)
{
    return e->cache;
}

/* --- keys ---------------------------------------------------------------------------------- */

int encode_identify(struct encode *e, bool look, encode_tick_fn tick, void *arg, struct err *err)
{
    if (!look && scratch_mkdirs(e->cache, err) < 0)
        return err_prefix(err, "train.data.cache: ");
    if ((!e->encoders.absent[0] && encoder_pair_digest(&e->encoders, e->cache, look, err) < 0) ||
        encode_keys_make(e, look, tick, arg, err) < 0)
        return -1;
    encode_keys_dirs(e);
    return 0;
}

/* What all ranks need to know before the arrays. */
struct share {
    int64_t samples, texts;
    char    vae[DIGEST_TEXT], text[DIGEST_TEXT];
    bool    bf16;
};

static int make_room(struct encoded_set *set, const struct share *s, struct err *err)
{
    set->samples = s->samples;
    set->texts = s->texts;
    set->sample = calloc((size_t)s->samples + 1, sizeof(*set->sample));
    set->text = calloc((size_t)s->texts + 1, sizeof(*set->text));
    return set->sample && set->text ? 0 : err_set(err, ERR_MEMORY, "out of memory for keys of samples");
}

int encode_share(struct encode *e, bool first, encode_broadcast_fn broadcast, void *arg, struct err *err)
{
    struct encoded_set *set = e->set;
    struct share s = {.samples = set->samples, .texts = set->texts, .bf16 = e->bf16};
    memcpy(s.vae, e->encoders.vae_digest, sizeof(s.vae));
    memcpy(s.text, e->encoders.text_digest, sizeof(s.text));
    if (broadcast(arg, &s, sizeof(s)) < 0 || (!first && make_room(set, &s, err) < 0) ||
        broadcast(arg, set->sample, (size_t)s.samples * sizeof(*set->sample)) < 0 ||
        broadcast(arg, set->text, (size_t)s.texts * sizeof(*set->text)) < 0)
        return -1;
    memcpy(e->encoders.vae_digest, s.vae, sizeof(s.vae));
    memcpy(e->encoders.text_digest, s.text, sizeof(s.text));
    if (s.samples != collection_len(set->collection))
        return err_set(err, ERR_DATA, "this rank finds %lld samples, rank 0 %lld: all ranks must read the same data",
                       (long long)collection_len(set->collection), (long long)s.samples);
    if (s.bf16 != e->bf16)
        return err_set(err, ERR_DATA, "this rank encodes in %s, rank 0 in %s: set train.precision",
                       e->bf16 ? "bf16" : "fp32", s.bf16 ? "bf16" : "fp32");
    encode_keys_dirs(e);
    return 0;
}

/* --- what is missing ------------------------------------------------------------------------ */

struct survey {
    bool          remove;
    encode_bad_fn bad;
    void         *arg;
};

static void on_bad(void *arg, const char *path, const char *why)
{
    const struct survey *s = arg;
    if (!s->remove)
        return;
    unlink(path);
    if (s->bad)
        s->bad(s->arg, path, why);
}

static int open_store(struct cache_store **out, const char *dir, struct survey *s, struct err *err)
{
    cache_store_close(*out);
    *out = NULL;
    if (cache_store_open(out, dir, false, on_bad, s, err) < 0 || cache_store_bytes(*out) > CHECKED_BYTES)
        return *out ? 0 : -1;
    cache_store_close(*out);
    *out = NULL;
    return cache_store_open(out, dir, true, on_bad, s, err);
}

static int by_key(const void *a, const void *b)
{
    const struct encode_item *x = a, *y = b;
    int order = memcmp(x->key.byte, y->key.byte, DIGEST_BYTES);
    if (order == 0)
        order = (x->sample > y->sample) - (x->sample < y->sample);
    return order ? order : (x->caption > y->caption) - (x->caption < y->caption);
}

static int by_sample(const void *a, const void *b)
{
    const struct encode_item *x = a, *y = b;
    const int order = (x->sample > y->sample) - (x->sample < y->sample);
    return order ? order : (x->caption > y->caption) - (x->caption < y->caption);
}

/* Keeps one item of each key, and of these such as the store lacks, in the order of the samples. Returns how many
 * there are of different keys. */
static int64_t reduce(struct encode_list *l, const struct cache_store *c)
{
    int64_t unique = 0, n = 0;
    qsort(l->item, (size_t)l->n, sizeof(*l->item), by_key);
    for (int64_t i = 0; i < l->n; i++) {
        if (i > 0 && memcmp(l->item[i].key.byte, l->item[i - 1].key.byte, DIGEST_BYTES) == 0)
            continue;
        unique++;
        if (cache_store_find(c, &l->item[i].key) < 0)
            l->item[n++] = l->item[i];
    }
    l->n = n;
    qsort(l->item, (size_t)n, sizeof(*l->item), by_sample);
    return unique;
}

/* They have the keys of captions: one that is a caption of the data, too, is one entry. */
static void list_prompts(struct encode *e)
{
    for (size_t i = 0; i < json_array_size(e->prompts); i++) {
        const json_t *text = json_array_get(e->prompts, i);
        struct encode_item *to = &e->captions.item[e->captions.n++];
        *to = (struct encode_item){.sample = ENCODE_PROMPT, .caption = (int32_t)i};
        digest_raw(to->key.byte, json_string_value(text), json_string_length(text));
    }
}

static int list_all(struct encode *e, struct err *err)
{
    const struct encoded_set *set = e->set;
    free(e->pictures.item);
    free(e->captions.item);
    e->pictures = (struct encode_list){calloc((size_t)set->samples + 1, sizeof(struct encode_item)), 0};
    e->captions = (struct encode_list){calloc((size_t)set->texts + 1 + json_array_size(e->prompts),
                                               sizeof(struct encode_item)), 0};
    if (!e->pictures.item || !e->captions.item)
        return err_set(err, ERR_MEMORY, "out of memory for a list of %lld samples", (long long)set->samples);
    e->captions.item[e->captions.n++] = (struct encode_item){.sample = ENCODE_EMPTY, .key = encoded_set_null()};
    list_prompts(e);
    for (int64_t i = 0; i < set->samples; i++) {
        const struct encoded_sample *s = &set->sample[i];
        e->pictures.item[e->pictures.n++] = (struct encode_item){.sample = i, .key = s->picture};
        for (int k = 0; k < s->texts; k++)
            e->captions.item[e->captions.n++] = (struct encode_item){i, k, set->text[s->text + k]};
    }
    return 0;
}

int encode_survey(struct encode *e, bool remove, encode_bad_fn bad, void *arg, struct encode_need *need,
                  struct err *err)
{
    struct encoded_set *set = e->set;
    struct survey s = {remove, bad, arg};
    if (remove) {
        scratch_sweep(e->cache);
        scratch_sweep(e->latents);
        scratch_sweep(e->text);
    }
    if (open_store(&set->latents, e->latents, &s, err) < 0 || open_store(&set->rows_of, e->text, &s, err) < 0 ||
        list_all(e, err) < 0)
        return -1;
    *need = (struct encode_need){.latent_bytes = cache_store_bytes(set->latents),
                                 .text_bytes = cache_store_bytes(set->rows_of)};
    need->pictures = reduce(&e->pictures, set->latents);
    need->captions = reduce(&e->captions, set->rows_of);
    need->no_pictures = e->pictures.n;
    need->no_captions = e->captions.n;
    return 0;
}

int encode_take(struct encode *e, struct dataset **out, struct err *err)
{
    struct encoded_set *set = e->set;
    e->set = NULL;
    const int rc = dataset_open_encoded(out, set, err);
    encode_close(e);
    return rc;
}

static int refuse_missing(const struct encode *e, const struct encode_need *need, struct err *err)
{
    if (need->no_pictures + need->no_captions == 0)
        return 0;
    return err_set(err, ERR_DATA, "%s lacks %lld of %lld pictures and %lld of %lld captions: no job has encoded them, or "
                   "data, options or encoders have changed since", e->cache, (long long)need->no_pictures,
                   (long long)need->pictures, (long long)need->no_captions, (long long)need->captions);
}

/* In the precision of which nothing is missing, for the device that has encoded them is not known here. */
static int survey_either(struct encode *e, struct encode_need *need, struct err *err)
{
    for (int bf16 = 1; bf16 >= 0; bf16--) {
        e->bf16 = bf16;
        encode_keys_dirs(e);
        if (encode_survey(e, false, NULL, NULL, need, err) < 0)
            return -1;
        if (need->no_pictures + need->no_captions == 0)
            return 0;
    }
    return 0;
}

int encode_open_filled(struct dataset **out, const struct train_spec *s, struct err *err)
{
    struct encode *e;
    struct encode_need need;
    if (encode_open(&e, s, err) < 0)
        return -1;
    if (encode_identify(e, true, NULL, NULL, err) < 0 || survey_either(e, &need, err) < 0 ||
        refuse_missing(e, &need, err) < 0) {
        encode_close(e);
        return -1;
    }
    return encode_take(e, out, err);
}
