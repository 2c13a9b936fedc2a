/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - how gradients and weights travel between ranks: one table per sharing (shard.h)
 *
 *   ddp     each rank has everything.  The sum of gradients goes to all ranks, bucket by bucket, during the last
 *           backward pass.
 *   zero1   each rank has all weights and gradients, and its part of the optimizer's state.  A bucket is a unit of the
 *   model, whose sum goes to the ranks that own parts of it; they update their weights, and all ranks gather them.
 *   fsdp    each rank has its part of everything, and a unit travels when the model needs it.
 *
 * An optimizer that needs whole tensors has parts of unequal length, for which there are no collectives:
 * each rank broadcasts its part, and sums go to all ranks.
 */
#ifndef ENGINE_TRAIN_EXCHANGE_H
#define ENGINE_TRAIN_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dist/dist.h"
#include "engine/dist/shard.h"

struct train;

/* The numbers that ranks add up (reducer.h). */
struct exchange_numbers {
    enum dist_type type;
    /* With fsdp: `grads` of a unit as numbers of `type`, in `sums` or in place. This rank's part of their sum, from
     * index `at`, is added to the gradients of the step. */
    void *(*unit_out)(struct train *t, struct shard_part unit, float *grads, int64_t *sums);
    void (*unit_in)(struct train *t, struct shard_part part, const void *numbers, size_t at);
};

struct exchange {
    /* Before the first step. */
    int (*open)(struct train *t);
    /* Before the micro-batches of a step. */
    void (*begin)(struct train *t);
    /* Starts the sum of n numbers; it becomes complete on the ranks that own them. */
    int (*sum)(struct train *t, void *numbers, size_t n);
    /* After the update of a step: each rank has updated its part. */
    int (*updated)(struct train *t);
};

extern const struct exchange exchange_ddp, exchange_zero1, exchange_fsdp;
/* The gradients of `block` from index `from` are complete: starts the transfer of complete buckets, and polls the
 * running ones. Does nothing for fsdp. */
int exchange_send(struct train *t, size_t from, void *block);

/* Does nothing for the other sharings. */
void exchange_fsdp_close(struct train *t);

#endif
