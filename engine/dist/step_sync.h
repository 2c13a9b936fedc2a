/* SPDX-License-Identifier: Apache-2.0 */
/* step_sync.h - what the ranks of a job tell each other between steps, and what all find in it
 *
 * Each rank has one record of words: what was asked of it, whether a checkpoint is due, and a hash of all
 * that decides the coming step (samples, learning rate, job, data).  They are exchanged before each step, and
 * from the same words every rank finds the same: so all stop and save at the same step, and a rank that has
 * run apart is named before its gradients are mixed in.
 *
 * The wait for the words of all is where a rank that stands still is found, and named.
 */
#ifndef ENGINE_DIST_STEP_SYNC_H
#define ENGINE_DIST_STEP_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/contract/progress.h"

struct batch_slot;
struct dist;
struct err;

/* One rank's words; exactly a DIST_UNIT, so that one record falls to each rank. */
struct step_sync_words {
    uint64_t hash[2];
    int64_t  step;
    double   value;
    int32_t  asked, due, stage, least;
    int64_t  height, width; /* of the bucket that the step takes from */
};

/* What all do at a step boundary: the strongest command that any of them got; a checkpoint, when it is due on
 * rank 0; the least that any has done of the one on its way. */
struct step_sync_orders {
    enum progress_command asked;
    bool                  due;
    int                   stage;
};

/* All that decides what a step is. */
struct step_sync_step {
    int64_t                  step, height, width;
    double                   lr;
    const struct batch_slot *slots;      /* the samples of the global batch, in their order */
    size_t                   samples;
    const char              *job, *data; /* digests of the spec, and of the data */
};
/* The words of a rank that is about to take it; nothing is asked, nothing due. */
struct step_sync_words step_sync_words(const struct step_sync_step *s);

/* all[] has this rank's words at its rank, and those of all when it returns 0. For wait_ms without a sign of
 * the others; how it failed is dist_fault(). */
int step_sync_exchange(struct dist *d, struct step_sync_words *all, int64_t wait_ms,
                       struct err *err);

/* -1 (ERR_CONFLICT): one is about to take another step than most; the sentence names it, and of two the
 * second. `what` the hash is of, in words. */
int step_sync_check(const struct step_sync_words *all, int world, const char *what,
                    struct err *err);

struct step_sync_orders step_sync_orders(const struct step_sync_words *all, int world);
int step_sync_least(const struct step_sync_words *all, int world);
/* In the order of ranks. */
double step_sync_sum(const struct step_sync_words *all, int world);

/* What a rank's silence is measured by. */
struct step_sync_pace {
    double step_s;                     /* a step takes, as far as is known; 0: none was taken yet */
    double hang_first_s, hang_step_s;  /* as the job says, or 0 */
    bool   watched;                    /* by an agent, which sees it sooner and more of it */
};
int64_t step_sync_patience_ms(const struct step_sync_pace *pace);

#endif
