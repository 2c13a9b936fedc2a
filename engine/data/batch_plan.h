/* SPDX-License-Identifier: Apache-2.0 */
/* batch_plan.h - which samples a step takes: a function of seed, sizes of buckets, and step
 *
 * Pure: no clock, no I/O.
 * A bucket holds samples of one shape, and a step takes its whole batch from one
 * bucket.  Samples are numbered bucket by bucket: 0 .. size[0] - 1 are in bucket 0, and
 * so on.
 *
 * The rule.  Each bucket is an endless line: its samples in an order drawn for epoch 0,
 * then in one drawn for epoch 1, and so on.  Its k-th batch takes the places k B to
 * (k + 1) B - 1 of the line.  What does not fill a batch by the end of an epoch is
 * carried: the bucket's first batch of the next epoch begins with it.  So each sample
 * comes exactly once in each epoch, whatever the sizes; none is dropped, none repeated.
 * A bucket of fewer samples than a batch saves up for some epochs, and then one batch
 * holds a sample once for each of them.
 *
 * Epoch e of the run has the batches that its places complete, floor((e + 1) n / B) -
 * floor(e n / B) of a bucket of n samples, in an order drawn for the epoch.  Sums of these
 * say where a step lies, so that no step before it is looked at.
 *
 * Nothing here knows of ranks: every rank makes the same plan and takes its slice.
 */
#ifndef ENGINE_DATA_BATCH_PLAN_H
#define ENGINE_DATA_BATCH_PLAN_H

#include <stdint.h>

struct err;

/* The batch of a step. */
struct batch {
    int     bucket;
    int64_t epoch; /* of the run */
    int64_t turn;  /* this is the bucket's batch number `turn`, from 0 */
};

/* One sample of a batch. */
struct batch_slot {
    int64_t  sample;
    uint32_t epoch; /* of the sample: it has been taken this often before */
};

struct batch_plan;

/* `sizes` has the samples of each bucket, at least one; `batch` samples are taken by a step. */
int batch_plan_create(struct batch_plan **out, uint64_t seed, int batch, const int64_t *sizes,
                      int buckets, struct err *err);
void batch_plan_destroy(struct batch_plan *p);

/* Fast when steps follow each other, a shuffle of the epoch's batches when they do not. */
struct batch batch_plan_at(struct batch_plan *p, int64_t step);
/* Samples [from, from + n) of the step's batch. */
void batch_plan_slots(struct batch_plan *p, struct batch_slot *slots, int64_t step, int from,
                      int n);

/* Steps before the first of epoch `epoch`; and how many of the first `steps` take from a bucket. */
int64_t batch_plan_begin(const struct batch_plan *p, int64_t epoch);
int64_t batch_plan_batches(struct batch_plan *p, int bucket, int64_t steps);

#endif
