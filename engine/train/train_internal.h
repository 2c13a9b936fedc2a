/* SPDX-License-Identifier: Apache-2.0 */
/* train_internal.h - what the train*.c files share; nobody else
 *
 * Functions return 0 or -1 with a sentence in t->err; t->code is the exit code that a failure
 * calls for, or EXIT_DONE to let the kind of the error decide.
 */
#ifndef ENGINE_TRAIN_TRAIN_INTERNAL_H
#define ENGINE_TRAIN_TRAIN_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/progress.h"
#include "engine/contract/train_spec.h"
#include "engine/dist/bucket_plan.h"
#include "engine/dist/dist.h"
#include "engine/dist/shard.h"
#include "engine/dist/step_sync.h"
#include "engine/optim/fit.h"
#include "engine/optim/state.h"
#include "engine/train/train.h"

enum { TRAIN_PENDING = 16 };

/* A checkpoint that has yet to prove good. */
struct train_pending {
    int64_t step;
    char    path[CHECKPOINT_PATH];
};

/* What a run that was too large leaves for the next. */
struct train_lowered {
    int  micro;     /* at most this of any size; 0 = nothing was too large */
    bool recompute;
    int  height, width, samples; /* at most the pixels of so many of this size; 0 samples = no limit */
};

struct train {
    const json_t           *job;
    const struct train_env *env;
    struct train_spec       spec;
    char                    dir[CHECKPOINT_PATH]; /* of checkpoints, absolute */
    char                    spec_digest[MANIFEST_DIGEST], data_digest[MANIFEST_DIGEST];

    struct progress *progress;
    struct flight   *flight;
    struct rendezvous *rendezvous;
    struct dist     *dist;  /* of the ranks' own memory: words, and gradients on the CPU */
    struct dist_device device;
    struct step_sync_words *words; /* [world_size], of the last exchange */
    struct dist     *gpus;  /* of gradients in the memory of GPUs, or NULL */
    struct dataset  *data;
    json_t          *codec; /* of the data, or NULL */
    struct loader   *loader;
    struct step     *step;
    struct params   *params; /* of the step */
    struct loss_log *metrics;
    struct sample_log *samples; /* data.sample_log: true, else NULL */
    const struct reducer *reducer;
    struct fixed_point_sum *fixed_sum; /* reproducible: true, else NULL */
    struct fit              fit;   /* of a batch into memory */
    struct train_lowered lowered;
    struct {
        int height, width, samples;
    } hand;                 /* the micro-batch in the making; samples 0: none */
    struct train_units *units;
    struct train_snapshot *snapshot;
    struct train_saving *saving;

    int64_t at;            /* optimizer steps completed */
    int64_t saved;         /* step of the newest checkpoint, also one on its way; or -1 */
    double  saved_s;       /* when it was asked for, or the run began */
    double  loss;          /* of the last step */
    double  step_s;        /* running mean of a step's time */
    double  said_s, told_s; /* last line for people, for the agent */
    bool    fresh;         /* did not resume */
    struct train_skips left_out; /* so far, as far back as there is room for */
    struct bucket_plan buckets; /* of this step's gradients; those handed over are out of it */
    bool    last_micro;    /* no other micro-batch of this rank follows in this step */

    struct train_pending pending[TRAIN_PENDING];
    float               *before; /* latents drawn before training, or NULL */

    struct err     err;
    enum exit_code code;
};

/*
 * From the bottom up: ranks; memory, units; reducer_buckets, reducer_fixed, reducer; snapshot; micro; save; start;
 * pictures; train. A file calls those below it.
 */

/* train_ranks.c: what ranks do together; each does nothing with one rank. */
int train_ranks_open(struct train *t);
/* Sets the exit code that a failure of t->dist calls for; returns -1. */
int train_ranks_failed(struct train *t);
/* Rank 0 alone works before it comes here. */
int train_ranks_barrier(struct train *t);
/* What rank 0 has in data, for all. */
int train_ranks_tell(struct train *t, void *data, size_t bytes);
/* Is this the first rank of its node; and how many are on it? */
bool train_ranks_first_local(const struct train *t);
int train_ranks_local(const struct train *t);
/* At a step boundary, from what this rank would do to what all do; and all are about to take the same step. */
int train_ranks_agree(struct train *t, struct step_sync_orders *orders);
/* The least of a number of each rank, where some may be waiting for a disk. */
int train_ranks_least(struct train *t, int *value);
/* After params_pull(). */
int train_ranks_same_weights(struct train *t);
/* A number of each rank, added up in the order of ranks. */
int train_ranks_sum(struct train *t, double *value);

/* What the ranks have said to each other so far, and what that took. */
struct train_talk {
    int64_t  step;
    double   at_s, wait_s; /* now; spent in waits that no computing hid */
    uint64_t moved, wire;  /* bytes to other ranks; of which to other nodes */
};
struct train_talk train_ranks_talk(const struct train *t);
/* Prints what it took since `before`. */
void train_ranks_summary(const struct train *t, const struct train_talk *before);

/* Until nothing is outstanding. */
int train_ranks_wait(struct train *t);
/* Until the first `calls` of d's are done. */
int train_ranks_wait_call(struct train *t, struct dist *d, uint64_t calls);

/* train_memory.c: the micro-batch, and whether blocks are computed again; told to people. */
int train_memory_choose(struct train *t);
/* The most samples of this size at once, and none too many for the device (JOBCTL_TEST_OOM). */
int train_memory_micro(const struct train *t, int height, int width);
int train_memory_take(struct train *t, int height, int width, int samples);
/* The device's memory did not do: the next start takes less. Says so in t->err. */
void train_memory_lower(struct train *t);

/* train_units.c: ranks that share the state. */
int train_units_open(struct train *t);
void train_units_close(struct train *t);
void train_units_begin_step(struct train *t);
/* The sum of a unit over ranks, in the reducer's type; only this rank's part of it is valid. */
int train_units_reduce(struct train *t, int unit, void *numbers);
/* zero1: after the update of each rank's part, all weights to all ranks. */
int train_units_gather(struct train *t);
/* fsdp: passes without samples, so that other ranks can make theirs. */
int train_units_idle(struct train *t, int passes);

/* train_snapshot.c: memory that outlives this rank. */
int train_snapshot_open(struct train *t);
void train_snapshot_close(struct train *t);
/* The step that a dead generation left whole, or -1; and to go on from it. All ranks together. */
int train_snapshot_step(struct train *t, int64_t *step);
int train_snapshot_load(struct train *t, int64_t step);
/* The update of a step; after the step; and before the last gradients of the next one go to others, or
 * weights change. */
int train_snapshot_update(struct train *t, double lr, double grad_norm);
void train_snapshot_save(struct train *t);
int train_snapshot_settle(struct train *t);
/* The state of now, as step_state() lists it, stays as it is while steps go on, until it is let go; false: it
 * takes *bytes more, and there is no room for them. */
bool train_snapshot_hold(struct train *t, int64_t *bytes);
void train_snapshot_release(struct train *t);
/* A quarter of what this machine has left, for all of its ranks, and no more. */
bool train_has_memory(const struct train *t, int64_t bytes);

/* train_micro.c: this rank's samples of a step, forward and backward, and the sum of all ranks' gradients. */
int train_accumulate(struct train *t);

/* train_save.c: rank 0 decides, all write, and steps go on meanwhile. */
int train_save_open(struct train *t);
void train_save_close(struct train *t);
/* One of this step; back as soon as steps may go on. */
int train_save(struct train *t);
/* How far this rank is with the one on its way, and fails if that failed; what is to be done, as the
 * least that any rank has done shows. At each step boundary. */
int train_save_look(struct train *t, int *stage);
void train_save_go_on(struct train *t, int least);
/* Until it is whole, for all. */
int train_save_wait(struct train *t);
/* No steps are taken any more. false: a thread is still busy, and only _exit() ends it. */
bool train_save_end(struct train *t);
/* Checkpoints that have seen enough steps are good. */
void train_save_prove(struct train *t);

/* train_start.c: from a spec to a run that can take its next step. */
int train_start(struct train *t);

/* Monotonic seconds. */
static inline double train_clock(void)
{
    return 1e-9 * (double)clock_ns();
}

static inline bool train_is_first(const struct train *t)
{
    return t->env->rank == 0;
}

/* Where in the plan of batches the coming step is; elsewhere than at t->at only in a test. */
static inline int64_t train_plan_step(const struct train *t)
{
    return t->at + (t->env->desync_at > 0 && t->at >= t->env->desync_at);
}

/* train_pictures.c: draw, write, tell, score. */
int train_pictures_before(struct train *t);
int train_pictures_after(struct train *t);

#endif
