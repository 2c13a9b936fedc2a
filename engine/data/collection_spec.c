/* SPDX-License-Identifier: Apache-2.0 */
/* collection_spec.c - the collection of a training run */
#include <stdio.h>
#include <string.h>

#include "engine/contract/train_config.h"
#include "engine/contract/train_spec.h"
#include "engine/data/collection.h"

static int copy_suffixes(char (*to)[COLLECTION_SUFFIX], const char (*from)[TRAIN_SPEC_SUFFIX], int n)
{
    int len = 0;
    for (; len < n && len < COLLECTION_SUFFIXES; len++)
        snprintf(to[len], COLLECTION_SUFFIX, "%s", from[len]);
    return len;
}

void collection_options(struct collection_options *out, const struct train_spec *s)
{
    const bool plain = s->encoders == ENCODERS_DCT_HASH || s->encoders == ENCODERS_LUMINA;
    *out = (struct collection_options){.path = s->data_path,
                                       .recipe = plain ? COLLECTION_PLAIN : COLLECTION_SANA,
                                       .resolution = s->resolution,
                                       .multi_scale = s->multi_scale,
                                       .step = (plain ? s->dct_block : SYNTHETIC_SHRINK) * s->model.patch,
                                       .suffixes_needed = true,
                                       .prompt = s->data_prompt,
                                       .rule = {s->score_min, s->score_temperature}};
    out->caption_suffixes = copy_suffixes(out->caption_suffix, s->caption_suffix, s->caption_suffixes);
    out->score_suffixes = copy_suffixes(out->score_suffix, s->score_suffix, s->score_suffixes);
}
