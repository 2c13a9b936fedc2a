/* SPDX-License-Identifier: Apache-2.0 */
/* train_gather.c - see train_gather.h
 *
 * A piece of a tensor at a time: each rank adds the numbers that it would save to zeros, so the sum over ranks is the
 * piece.
 */
#include "engine/train/train_gather.h"

#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"

enum { PIECE = 1 << 20 };

/* The average of a trained tensor, if there is one; else the tensor. */
static const struct state_part *part_of(const struct train *t, const struct state *s, int tensor)
{
    const struct layout *l = model_layout(step_model(t->step));
    for (int i = s->weights; t->spec.optim.ema > 0 && layout_at(l, tensor)->kind == TENSOR_PARAM && i < s->len; i++)
        if (s->part[i].tensor == tensor && strncmp(s->part[i].name, "ema.", 4) == 0)
            return &s->part[i];
    return &s->part[tensor];
}

/* Numbers [from, from + n) of the tensor, as far as this rank saves them, and else 0. */
static void take(float *piece, const struct state_part *p, size_t from, size_t n)
{
    const size_t low = p->save_from > from ? p->save_from : from;
    const size_t high = p->save_to < from + n ? p->save_to : from + n;
    memset(piece, 0, n * sizeof(*piece));
    if (low < high)
        memcpy(piece + (low - from), p->data + (low - p->from), (high - low) * sizeof(*piece));
}

static int gather_tensor(struct train *t, const struct state_part *p, float *piece, float *to)
{
    for (size_t from = 0; from < p->count; from += PIECE) {
        const size_t n = p->count - from < PIECE ? p->count - from : PIECE;
        take(piece, p, from, n);
        if (dist_all_reduce(t->dist, piece, n, DIST_F32, DIST_SUM, &t->err) < 0)
            return train_ranks_failed(t);
        if (train_ranks_wait(t) < 0)
            return -1;
        if (to)
            memcpy(to + from, piece, n * sizeof(*piece));
    }
    return 0;
}

int train_gather(struct train *t, float *weights)
{
    const struct layout *l = model_layout(step_model(t->step));
    struct state s = {0};
    float *piece = malloc(PIECE * sizeof(*piece));
    int rc = piece ? params_pull(t->params, &t->err) : err_set(&t->err, ERR_MEMORY, "out of memory to gather weights");
    if (rc == 0)
        rc = params_state(t->params, &s, &t->err);
    for (int i = 0; rc == 0 && i < s.weights; i++)
        rc = gather_tensor(t, part_of(t, &s, i), piece, weights ? weights + layout_at(l, i)->offset : NULL);
    state_free(&s);
    free(piece);
    return rc;
}
