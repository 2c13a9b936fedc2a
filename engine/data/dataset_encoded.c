/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_encoded.c - samples that are entries of a cache; see dataset.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/collection/collection.h"
#include "engine/data/cache_store.h"
#include "engine/data/dataset_internal.h"
#include "engine/data/encoded_set.h"
#include "kernels/rng.h"

/* The entry's floats go to `x`, which has room for `most`; their number, or -1. */
static int64_t get(const struct cache_store *c, const struct cache_key *key, float *x, size_t most, struct err *err)
{
    const int64_t at = c ? cache_store_find(c, key) : -1;
    if (at < 0)
        return err_set(err, ERR_SYSTEM, "an entry is not in the cache of encoded data; the next start encodes it");
    if (cache_store_count(c, at) > most)
        return err_set(err, ERR_DATA, "an entry of the cache of encoded data has %zu numbers, not %zu",
                       cache_store_count(c, at), most);
    return cache_store_get(c, at, x, err) < 0 ? -1 : (int64_t)cache_store_count(c, at);
}

/* mean + deviation * normal number */
static int draw_latent(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent, size_t n,
                       struct err *err)
{
    const struct encoded_set *e = d->encoded;
    float *both = malloc(3 * n * sizeof(*both));
    if (!both)
        return err_set(err, ERR_MEMORY, "out of memory for a latent");
    const int64_t got = get(e->latents, &e->sample[i].picture, both, 2 * n, err);
    memset(both + 2 * n, 0, n * sizeof(*both));
    if (got >= 0 && turn) {
        const struct rng r = rng_make(turn->seed, turn->epoch, (uint64_t)i, RNG_POSTERIOR);
        rng_normal(&r, both + 2 * n, 0, n);
    }
    for (size_t k = 0; got >= 0 && k < n; k++)
        latent[k] = both[k] + both[n + k] * both[2 * n + k];
    free(both);
    return got < 0 ? -1 : 0;
}

static int get_latent(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent,
                      struct err *err)
{
    const struct encoded_set *e = d->encoded;
    const struct encoded_sample *s = &e->sample[i];
    const size_t n = (size_t)e->channels * (size_t)s->height * (size_t)s->width;
    if (e->gaussian)
        return draw_latent(d, i, turn, latent, n, err);
    return get(e->latents, &s->picture, latent, n, err) < 0 ? -1 : 0;
}

/* Which caption the epoch has. */
static int choose(const struct dataset *d, int64_t i, const struct dataset_turn *turn, int64_t *text, struct err *err)
{
    const struct encoded_sample *s = &d->encoded->sample[i];
    struct collection_sample all;
    *text = s->text;
    if (s->texts == 1 || !turn)
        return 0;
    if (collection_sample(&all, d->encoded->collection, s->number, err) < 0)
        return -1;
    const int at = collection_choose(d->encoded->collection, &all, s->number, turn->seed, turn->epoch, NULL);
    collection_sample_free(&all);
    *text += at < s->texts ? at : 0;
    return 0;
}

static int get_rows(const struct encoded_set *e, const struct cache_key *key, float *caption, float *mask,
                    struct err *err)
{
    const size_t width = (size_t)e->width, most = (size_t)e->rows * width;
    float *x = caption ? caption : malloc(most * sizeof(*x));
    if (!x)
        return err_set(err, ERR_MEMORY, "out of memory for a caption");
    const int64_t n = get(e->rows_of, key, x, most, err);
    if (n >= 0 && caption)
        memset(caption + n, 0, (most - (size_t)n) * sizeof(*caption));
    for (int64_t k = 0; n >= 0 && mask && k < e->rows; k++)
        mask[k] = k < n / (int64_t)width;
    if (!caption)
        free(x);
    return n < 0 ? -1 : 0;
}

static int get_caption(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *caption,
                       float *mask, struct err *err)
{
    int64_t text;
    if (choose(d, i, turn, &text, err) < 0)
        return -1;
    return get_rows(d->encoded, &d->encoded->text[text], caption, mask, err);
}

int dataset_encoded_text(const struct dataset *d, const char *text, float *caption, float *mask, struct err *err)
{
    struct cache_key key;
    digest_raw(key.byte, text, strlen(text));
    return get_rows(d->encoded, &key, caption, mask, err) < 0 ? err_prefix(err, "\"%.60s\": ", text) : 0;
}

int dataset_encoded_get(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent,
                        float *caption, float *mask, struct err *err)
{
    if (latent && get_latent(d, i, turn, latent, err) < 0)
        return -1;
    return (caption || mask) && get_caption(d, i, turn, caption, mask, err) < 0 ? -1 : 0;
}

int dataset_encoded_null(const struct dataset *d, float *tokens, struct err *err)
{
    const struct encoded_set *e = d->encoded;
    const struct cache_key null = encoded_set_null();
    const size_t n = (size_t)e->rows * (size_t)e->width;
    const int64_t got = get(e->rows_of, &null, tokens, n, err);
    if (got >= 0 && got != (int64_t)n)
        return err_set(err, ERR_DATA, "the empty caption of the cache has %lld numbers, not %zu", (long long)got, n);
    return got < 0 ? -1 : 0;
}

const char *dataset_encoded_name(struct dataset *d, int64_t i)
{
    struct collection_sample s;
    d->label[0] = 0;
    if (collection_sample(&s, d->encoded->collection, d->encoded->sample[i].number, NULL) < 0)
        return d->label;
    snprintf(d->label, sizeof(d->label), "%.300s", s.name);
    collection_sample_free(&s);
    return d->label;
}
