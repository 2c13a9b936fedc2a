/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - the numbers that a run must keep, as ranges of named tensors
 *
 * First the weights, then the optimizer's moments, factors and averages.  A rank holds all of a
 * tensor or a range of it, and saves a range of what it holds; what all ranks save together is
 * everything, once.  A checkpoint and a snapshot are made of such ranges, so any number of
 * ranks, dividing the state in any way, can take over from any other.
 */
#ifndef ENGINE_OPTIM_STATE_H
#define ENGINE_OPTIM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct layout;
struct optim;
struct shard;

struct state_part {
    const char    *name;
    int            ndim;
    const int64_t *dim;
    size_t         count;              /* of the whole tensor */
    size_t         from, to;           /* the numbers that this rank holds */
    float         *data;               /* number `from` */
    size_t         save_from, save_to; /* of these, what it saves */
    int            tensor;             /* of the layout, that it is or belongs to */
};

struct state {
    int                weights, len;   /* part[0 .. weights - 1] are weights, the rest is not */
    struct state_part *part;
};

/* What a rank has; all of it outlives the state. */
struct state_source {
    const struct layout *layout;
    const float         *weights; /* in this process's memory: a block, or packed (shard.h) */
    bool                 packed;
    struct optim        *optim;   /* NULL: weights only */
    const struct shard  *shard;   /* NULL: one rank, which has and saves everything */
    int                  rank;
};

int state_make(struct state *out, const struct state_source *source, struct err *err);
void state_free(struct state *s);

/* Numbers that this rank saves. */
size_t state_saves(const struct state *s);

/* Puts numbers [from, to) of the tensor where this rank holds them; returns how many it does. */
size_t state_put(const struct state_part *p, size_t from, size_t to, const float *numbers);

#endif
