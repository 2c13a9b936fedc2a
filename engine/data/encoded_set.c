/* SPDX-License-Identifier: Apache-2.0 */
/* encoded_set.c - see encoded_set.h */
#include "engine/data/encoded_set.h"

#include <stdlib.h>

#include "engine/collection/collection.h"
#include "engine/data/cache_store.h"

void encoded_set_free(struct encoded_set *s)
{
    if (!s)
        return;
    cache_store_close(s->latents);
    cache_store_close(s->rows_of);
    collection_close(s->collection);
    free(s->sample);
    free(s->text);
    free(s);
}

struct cache_key encoded_set_null(void)
{
    static const char name[] = "\0the empty caption, with padding"; /* no caption begins so */
    struct cache_key k;
    digest_raw(k.byte, name, sizeof(name));
    return k;
}

static int by_shape(const void *a, const void *b)
{
    const struct encoded_sample *x = a, *y = b;
    int64_t order = (int64_t)x->height * y->width - (int64_t)y->height * x->width;
    if (order == 0)
        order = x->height - y->height;
    if (order == 0)
        order = x->number - y->number;
    return (order > 0) - (order < 0);
}

void encoded_set_sort(struct encoded_set *s)
{
    qsort(s->sample, (size_t)s->samples, sizeof(*s->sample), by_shape);
}
