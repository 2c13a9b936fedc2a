/* SPDX-License-Identifier: Apache-2.0 */
/* batch_plan.h - the samples of each step, as a function of seed, bucket sizes and step
 *
 * Pure: no clock, no I/O.
 * A bucket holds samples of one shape, and a step takes its whole batch from one
 * bucket.  Samples are numbered bucket by bucket: 0 .. size[0] - 1 are in bucket 0, and
 * so on.
 *
 * The rule.  Each bucket is an endless queue: its samples in an order drawn for epoch 0,
 * then in one drawn for epoch 1, and so on.  Its k-th batch takes places k B to
 * (k + 1) B - 1 of the queue.  Samples that do not fill a batch by the end of an epoch are
 * carried: the bucket's first batch of the next epoch begins with them.  So each sample
 * comes exactly once in each epoch, whatever the sizes; none is dropped, none repeated.
 * A bucket with fewer samples than a batch collects them over several epochs, and then one batch
 * holds a sample once per epoch.
 *
 * Epoch e of the run has the batches that its places complete, floor((e + 1) n / B) -
 * floor(e n / B) of a bucket of n samples, in an order drawn for the epoch.  Sums of these
 * give the position of any step, without visiting the steps before.
 *
 * The plan is independent of ranks: every rank makes the same plan and takes its slice.
 */
#ifndef ENGINE_DATA_BATCH_PLAN_H
#define ENGINE_DATA_BATCH_PLAN_H

#include <stdint.h>

struct err;

/* The batch of a step. */
struct batch {
    int     bucket;
    int64_t epoch; /* of the run */
    int64_t turn;  /* this is batch number `turn` of the bucket, from 0 */
};

/* One sample of a batch. */
struct batch_slot {
    int64_t  sample;
    uint32_t epoch; /* times the sample was taken before */
};

struct batch_plan;

/* `sizes` holds the samples of each bucket, at least one; a step takes `batch` samples. */
int batch_plan_create(struct batch_plan **out, uint64_t seed, int batch, const int64_t *sizes,
                      int buckets, struct err *err);
void batch_plan_destroy(struct batch_plan *p);

/* Fast for consecutive steps; a jump shuffles the batches of its epoch. */
struct batch batch_plan_at(struct batch_plan *p, int64_t step);
/* Samples [from, from + n) of the step's batch. */
void batch_plan_slots(struct batch_plan *p, struct batch_slot *slots, int64_t step, int from, int n);

/* The number of steps before epoch `epoch`; and how many of the first `steps` take from a bucket. */
int64_t batch_plan_begin(const struct batch_plan *p, int64_t epoch);
int64_t batch_plan_batches(struct batch_plan *p, int bucket, int64_t steps);

#endif
