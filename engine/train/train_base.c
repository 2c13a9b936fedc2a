/* SPDX-License-Identifier: Apache-2.0 */
/* train_base.c - see train_base.h */
#include "engine/train/train_base.h"

#include <stdio.h>
#include <string.h>

#include "engine/data/dataset.h"
#include "engine/model/lora.h"
#include "engine/optim/step.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
#include "engine/weights/pretrained.h"

bool train_base_is_used(const struct train *t)
{
    return t->spec.model.lora.rank > 0;
}

static size_t null_count(const struct train *t)
{
    return (size_t)t->spec.model.caption_len * (size_t)t->spec.model.caption_channels;
}

/* Ranks of several nodes read files of several disks. */
static int same_everywhere(struct train *t)
{
    char first[sizeof(t->base_digest)];
    memcpy(first, t->base_digest, sizeof(first));
    if (t->env->world_size == 1)
        return 0;
    if (train_ranks_broadcast(t, first, sizeof(first)) < 0)
        return -1;
    if (strcmp(first, t->base_digest) == 0)
        return 0;
    return err_set(&t->err, ERR_USAGE, "train.model.weights: rank %d read different weights (%s) than rank 0 (%s); copy "
                   "the same file to all nodes", t->env->rank, t->base_digest, first);
}

int train_base_read(struct train *t)
{
    if (!train_base_is_used(t))
        return 0;
    char text[PRETRAINED_TEXT];
    int rc = pretrained_freeze(t->pretrained, step_model(t->step), t->base_digest, &t->err);
    if (rc == 0 && !pretrained_null(t->pretrained, step_null(t->step), null_count(t)))
        rc = dataset_null(t->data, step_null(t->step), &t->err);
    pretrained_text(text, t->pretrained);
    if (rc == 0 && train_is_first(t))
        printf("frozen: %s\n", text);
    pretrained_close(t->pretrained);
    t->pretrained = NULL;
    return rc < 0 ? -1 : same_everywhere(t);
}

int train_base_check(struct train *t, const char *dir, const char *digest)
{
    if (strcmp(digest, t->base_digest) == 0)
        return 0;
    return err_set(&t->err, ERR_USAGE, "train.model.weights: these are not the weights that %s was trained on (%s instead of %s); name "
                   "the same file, or start a new run with resume: none in another checkpoint.dir",
                   dir, t->base_digest, digest[0] ? digest : "none");
}

void train_base_share(struct train *t, struct model *m, float *null)
{
    lora_base_share(model_lora(m), model_lora(step_model(t->step)));
    memcpy(null, step_null(t->step), null_count(t) * sizeof(*null));
}
