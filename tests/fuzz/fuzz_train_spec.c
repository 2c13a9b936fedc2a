/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_train_spec.c - a job spec as JSON, written by hand
 *
 * It becomes a struct whose numbers are in the ranges that the engine requires, or an error that leaves the struct
 * unchanged.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "tests/fuzz/target.h"

static void check(const struct train_spec *s)
{
    const struct model_config *m = &s->model;
    PROMISE(m->depth >= 1 && m->hidden >= 8 && m->heads >= 1 && m->hidden % m->heads == 0);
    PROMISE(m->linear_head_dim >= 1 && m->hidden % m->linear_head_dim == 0);
    PROMISE(m->patch >= 1 && m->mlp_hidden >= 1);
    PROMISE(m->caption_dropout >= 0 && m->caption_dropout <= 1);
    PROMISE(s->steps >= 1 && s->batch_global >= 1 && s->batch_micro >= 1);
    PROMISE(s->batch_micro <= s->batch_global && s->schedule.warmup <= s->steps);
    PROMISE(s->schedule.lr > 0 && s->optim.beta[0] >= 0 && s->optim.beta[0] < 1);
    PROMISE(s->optim.eps[0] > 0 && s->optim.ema >= 0 && s->optim.ema < 1);
    PROMISE(s->dct_block >= 1 && s->dct_block <= 32 && s->caption_words >= 1);
    PROMISE(s->data_path[0] && memchr(s->data_path, 0, sizeof(s->data_path)));
    PROMISE(s->checkpoint_keep >= 1);
    PROMISE(s->checkpoint_every_steps >= 1 || s->checkpoint_every_s > 0);
    PROMISE(s->sample_steps >= 1 && s->sample_count >= 1 && s->flow_shift > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct train_spec s, untouched;
    json_t *job = json_loadb((const char *)data, size, 0, NULL);
    if (!job)
        return 0;
    memset(&s, 0x5a, sizeof(s));
    memcpy(&untouched, &s, sizeof(s));
    if (train_spec_parse(&s, job, &err) < 0) {
        PROMISE(err.code != ERR_NONE && err.text[0]);
        PROMISE(memcmp(&s, &untouched, sizeof(s)) == 0);
    } else {
        check(&s);
    }
    json_decref(job);
    return 0;
}
