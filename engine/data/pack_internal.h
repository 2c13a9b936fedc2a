/* SPDX-License-Identifier: Apache-2.0 */
/* pack_internal.h - inside of a pack, shared by pack*.c only */
#ifndef ENGINE_DATA_PACK_INTERNAL_H
#define ENGINE_DATA_PACK_INTERNAL_H

#include <stdint.h>

#include "engine/contract/digest.h"
#include "engine/data/pack.h"

struct err;
struct collection;
struct train_spec;

/* Pictures of one shape. */
struct pack_group {
    int64_t n, height, width;
    float  *latent, *caption, *mask; /* index into the blocks of the pack */
};

/* A pack under construction. Groups are in the order of buckets (engine/data/dataset.h). */
struct pack {
    int64_t            n, channels, words, caption_channels;
    int                groups;
    struct pack_group *group;
    float             *latent, *caption, *mask, *null, *mean, *deviation;
    char              *names; /* JSON lists, in order of the samples */
    char              *captions;
    char               inputs[DIGEST_TEXT], contents[DIGEST_TEXT];
};

/* pack_build.c: everything but the digests. The caller frees all allocations, also after
 * a failure. */
int pack_fill(struct pack *p, const struct collection *c, const struct train_spec *s,
              pack_tick_fn tick, void *arg, struct err *err);

#endif
