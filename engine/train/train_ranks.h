/* SPDX-License-Identifier: Apache-2.0 */
/* train_ranks.h - connection, agreement and exchange between the ranks of a run; no-ops with one rank
 *
 * Every rank derives the same plan of batches, computes its slice of the global batch, and updates its part of the
 * weights, or all of them, from the same sum of gradients.  Only rank 0 writes metrics and pictures.
 *
 * Ranks agree on each step before they compute it (step_sync.h).
 */
#ifndef ENGINE_TRAIN_TRAIN_RANKS_H
#define ENGINE_TRAIN_TRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dist;
struct step_sync_orders;
struct train;

int train_ranks_open(struct train *t);
void train_ranks_close(struct train *t);
/* Sets the exit code of a failure of t->dist; returns -1. */
int train_ranks_failed(struct train *t);
/* All ranks wait for rank 0, which may work for a long time before it calls this. */
int train_ranks_barrier(struct train *t);
/* Broadcasts data of rank 0. */
int train_ranks_broadcast(struct train *t, void *data, size_t bytes);
/* Is this the first rank of its node? And the number of ranks on the node. */
bool train_ranks_first_local(const struct train *t);
int train_ranks_local(const struct train *t);
/* At a step boundary: combines the commands of this rank with those of all ranks. Fails if ranks are not at the same
 * step. */
int train_ranks_agree(struct train *t, struct step_sync_orders *orders);
/* The minimum over ranks; ranks that wait for a disk may be late. */
int train_ranks_least(struct train *t, int *value);
/* Call after params_pull(). */
int train_ranks_same_weights(struct train *t);
/* The sum over ranks, added in rank order. */
int train_ranks_sum(struct train *t, double *value);

/* Communication of this rank so far. */
struct train_traffic {
    int64_t  step;
    double   at_s, wait_s; /* now; seconds spent waiting */
    uint64_t moved, wire;  /* bytes sent to other ranks; and of these to other nodes */
};
struct train_traffic train_ranks_traffic(const struct train *t);
/* Prints the communication since `before`. */
void train_ranks_summary(const struct train *t, const struct train_traffic *before);

/* Waits for all calls. */
int train_ranks_wait(struct train *t);
/* Waits for the first `calls` calls of d. */
int train_ranks_wait_call(struct train *t, struct dist *d, uint64_t calls);

#endif
