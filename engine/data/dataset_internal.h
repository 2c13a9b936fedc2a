/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_internal.h - inside of a data set, shared by dataset*.c only */
#ifndef ENGINE_DATA_DATASET_INTERNAL_H
#define ENGINE_DATA_DATASET_INTERNAL_H

#include "engine/contract/digest.h"
#include "engine/data/dataset.h"
#include "engine/data/safetensors.h"

struct synthetic;

struct source {
    struct st_file *file;
    char           *name;
};

/* The samples of one shape in one file. */
struct shard {
    int                     source, group;
    const struct st_tensor *latent, *caption, *mask;
    int64_t                 first, len;
};

struct dataset {
    struct source         *sources;
    struct shard          *shards;
    struct dataset_bucket *buckets;
    int                    nsources, nshards;
    bool                   multi_scale;
    struct dataset_shape   shape;
    char                 path[PACK_PATH];
    char                 digest[DIGEST_TEXT];
    enum pack_made       made;
    int                  block;            /* 0: features */
    struct synthetic    *synthetic;        /* or NULL */
    json_t              *names, *captions; /* of a pack */
    float               *mean, *deviation;
    char                 label[320];       /* last dataset_name() of a shard */
};

static inline const char *shard_name(const struct dataset *d, const struct shard *s)
{
    return d->sources[s->source].name;
}

#endif
