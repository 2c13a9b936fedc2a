/* SPDX-License-Identifier: Apache-2.0 */
/* step_sync.h - agreement of the ranks before each step: commands, checkpoints, desync check
 *
 * Each rank has one record: its pending commands, whether a checkpoint is due, and a hash of
 * everything that determines the next step (samples, learning rate, job, data).  The ranks exchange
 * records before each step and decide from the same data: so all ranks stop and save at the same step,
 * and a rank that has diverged is named before its gradients are added.
 *
 * A rank that hangs is detected and named in this exchange.
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

/* One rank's record; exactly a DIST_UNIT, so that each rank owns one record. */
struct step_sync_words {
    uint64_t hash[2];
    int64_t  step;
    double   value;
    int32_t  asked, due, stage, least;
    int64_t  height, width; /* of the step's bucket */
};

/* The common decision at a step boundary: the strongest command that any rank got; a checkpoint if
 * it is due on rank 0; the least progress of any rank with the pending checkpoint. */
struct step_sync_orders {
    enum progress_command asked;
    bool                  due;
    int                   stage;
};

/* Everything that determines a step. */
struct step_sync_step {
    int64_t                  step, height, width;
    double                   lr;
    const struct batch_slot *slots;      /* the samples of the global batch, in order */
    size_t                   samples;
    const char              *job, *data; /* digests of the spec, and of the data */
};
/* The record of a rank before the step, without commands or a checkpoint. */
struct step_sync_words step_sync_words(const struct step_sync_step *s);

/* On entry all[] has this rank's record at its rank; on return 0, all records. Waits up to wait_ms
 * without progress; dist_fault() has the fault. */
int step_sync_exchange(struct dist *d, struct step_sync_words *all, int64_t wait_ms, struct err *err);

/* -1 (ERR_CONFLICT): a rank is about to take another step than most; the sentence names it (of two,
 * the second). `what` describes the hashed data. */
int step_sync_check(const struct step_sync_words *all, int world, const char *what, struct err *err);

struct step_sync_orders step_sync_orders(const struct step_sync_words *all, int world);
int step_sync_least(const struct step_sync_words *all, int world);
/* In the order of ranks. */
double step_sync_sum(const struct step_sync_words *all, int world);

/* Limits on a rank's silence. */
struct step_sync_pace {
    double step_s;                     /* duration of a step so far; 0: none was taken yet */
    double hang_first_s, hang_step_s;  /* set in the job, or 0 */
    bool   watched;                    /* an agent watches the ranks and detects hangs sooner */
};
int64_t step_sync_patience_ms(const struct step_sync_pace *pace);

#endif
