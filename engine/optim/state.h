/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - the saved state of a run, as ranges of named tensors
 *
 * First the weights, then the optimizer's moments, factors and averages.  A rank holds all of a
 * tensor or a range of it, and saves a range of what it holds; the ranks together save each
 * number once.  Checkpoints and snapshots consist of such ranges, so ranks of any number and
 * sharing can resume from ranks of any other.
 */
#ifndef ENGINE_OPTIM_STATE_H
#define ENGINE_OPTIM_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dist/shard.h"

struct err;
struct layout;
struct optim;

struct state_part {
    const char    *name;
    int            ndim;
    const int64_t *dim;
    size_t         count;              /* of the whole tensor */
    size_t         from, to;           /* the numbers that this rank holds */
    float         *data;               /* of number `from` */
    size_t         save_from, save_to; /* the part that this rank saves */
    int            tensor;             /* index in the layout of the tensor, or of its weight */
};

struct state {
    int                weights, len;   /* part[0 .. weights - 1] are the weights */
    struct state_part *part;
};

/* The arrays that a rank holds; they must outlive the state. */
struct state_source {
    const struct layout *layout;
    const float         *weights; /* in this process's memory */
    struct optim        *optim;   /* NULL: weights only */
    /* The numbers in `weights`, and those that this rank saves; without shards: everything. */
    struct shard_holder  held, saved;
};

int state_make(struct state *out, const struct state_source *source, struct err *err);
void state_free(struct state *s);

/* Numbers that this rank saves. */
size_t state_saves(const struct state *s);

/* Copies numbers [from, to) of the tensor to where this rank holds them; returns how many it holds. */
size_t state_put(const struct state_part *p, size_t from, size_t to, const float *numbers);

#endif
