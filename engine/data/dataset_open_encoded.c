/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_open_encoded.c - number the samples of an encoded set; see dataset.h */
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/data/dataset_internal.h"
#include "engine/data/encoded_set.h"

/* Of the keys: equal data has an equal digest, wherever it lies. */
static int digest_keys(struct dataset *d, struct err *err)
{
    const struct encoded_set *e = d->encoded;
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    for (int64_t i = 0; i < e->samples; i++) {
        const struct encoded_sample *s = &e->sample[i];
        digest_add(sum, s->picture.byte, sizeof(s->picture.byte));
        digest_add(sum, e->text + s->text, (size_t)s->texts * sizeof(*e->text));
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

int dataset_open_encoded(struct dataset **out, struct encoded_set *set, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d) {
        encoded_set_free(set);
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    }
    d->encoded = set;
    d->shape = (struct dataset_shape){.channels = set->channels, .words = set->rows,
                                      .caption_channels = set->width};
    int rc = digest_keys(d, err);
    for (int64_t i = 0; rc == 0 && i < set->samples; i++) /* sorted by shape */
        rc = dataset_bucket_add(d, 1, set->sample[i].height, set->sample[i].width, err);
    if (rc < 0)
        dataset_close(d);
    else
        *out = d;
    return rc;
}
