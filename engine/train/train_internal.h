/* SPDX-License-Identifier: Apache-2.0 */
/* train_internal.h - struct train, shared by train*.c, reducer*.c and exchange*.c only
 *
 * Functions return 0 or -1 with a sentence in t->err; t->code is the exit code of a failure,
 * or EXIT_DONE to derive it from the kind of the error.
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

/* A checkpoint that is marked good after more steps without failure. */
struct train_pending {
    int64_t step;
    char    path[CHECKPOINT_PATH];
};

/* Limits of the micro-batch after the run ran out of memory. */
struct train_lowered {
    int  micro;     /* samples of any size; 0 = no limit */
    bool recompute;
    int  height, width, samples; /* the pixels of so many samples of this size; 0 samples = no limit */
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
    struct dist     *dist;  /* of host memory: words, and gradients on the CPU */
    struct dist_device device;
    struct step_sync_words *words; /* [world_size], of the last exchange */
    struct dist     *gpus;  /* of GPU memory, or NULL */
    struct dataset  *data;
    json_t          *codec; /* of the data, or NULL */
    struct loader   *loader;
    struct step     *step;
    struct params   *params; /* of the step */
    struct loss_log *metrics;
    struct sample_log *samples; /* data.sample_log: true, else NULL */
    const struct reducer *reducer;
    const struct exchange *exchange;
    struct fixed_point_sum *fixed_sum; /* reproducible: true, else NULL */
    struct fit              fit;   /* the chosen micro-batch and sharing */
    struct train_lowered lowered;
    struct {
        int height, width, samples;
    } micro;                /* the current micro-batch; samples 0: none */
    struct exchange_units *units;
    struct train_snapshot *snapshot;
    struct train_saving *saving;

    int64_t at;            /* optimizer steps completed */
    int64_t saved;         /* step of the newest checkpoint, written or being written; or -1 */
    double  saved_s;       /* time of the last checkpoint, or of the start */
    double  loss;          /* of the last step */
    double  step_s;        /* moving average of a step's time */
    bool    told_log;      /* that a log cannot be written */
    double  said_s, told_s; /* time of the last line to stdout, to the agent */
    bool    fresh;         /* did not resume */
    struct train_skips left_out; /* skipped so far, the newest TRAIN_SKIPS */
    struct bucket_plan buckets; /* of this step's gradients; buckets that were sent are removed */
    bool    last_micro;    /* the last micro-batch of this rank in this step */

    struct train_pending pending[TRAIN_PENDING];
    float               *before; /* latents drawn before training, or NULL */

    struct err     err;
    enum exit_code code;
};

/*
 * From the bottom up: ranks; memory; exchange_fsdp, exchange; reducer_fixed, reducer; snapshot; micro; save; room;
 * start; pictures; train. A file calls those below it.
 */

/* train_ranks.c: agreement and exchange between ranks; no-ops with one rank. */
int train_ranks_open(struct train *t);
/* Sets the exit code of a failure of t->dist; returns -1. */
int train_ranks_failed(struct train *t);
/* All ranks wait for rank 0, which may work for long before it calls this. */
int train_ranks_barrier(struct train *t);
/* Broadcasts data of rank 0. */
int train_ranks_broadcast(struct train *t, void *data, size_t bytes);
/* Whether this is the first rank of its node; the number of ranks on it. */
bool train_ranks_first_local(const struct train *t);
int train_ranks_local(const struct train *t);
/* At a step boundary: from the orders of this rank to those of all. Fails if ranks are not at the same step. */
int train_ranks_agree(struct train *t, struct step_sync_orders *orders);
/* The minimum over ranks; some may be late because they wait for a disk. */
int train_ranks_least(struct train *t, int *value);
/* After params_pull(). */
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

/* train_memory.c: chooses micro-batch, sharing and gradient checkpointing, and prints them. */
int train_memory_choose(struct train *t);
/* The largest micro-batch of this size; records the current one and fails on JOBCTL_TEST_OOM. */
int train_memory_micro(const struct train *t, int height, int width);
int train_memory_take(struct train *t, int height, int width, int samples);
/* Out of device memory: lowers the limits for the next start, and says so in t->err. */
void train_memory_lower(struct train *t);

/* train_snapshot.c: snapshots in memory that outlives this rank. */
int train_snapshot_open(struct train *t);
void train_snapshot_close(struct train *t);
/* The newest complete step of the last generation, or -1; and resuming from it. All ranks call them. */
int train_snapshot_step(struct train *t, int64_t *step);
int train_snapshot_load(struct train *t, int64_t step);
/* The update of a step; starts the snapshot of the step; finishes it, before the last gradients of the next step
 * are sent or weights change. */
int train_snapshot_update(struct train *t, double lr, double grad_norm);
void train_snapshot_save(struct train *t);
int train_snapshot_settle(struct train *t);
/* Keeps the current state, as params_state() lists it, unchanged until the release, while steps go on. False: that
 * needs *bytes more memory than may be used. */
bool train_snapshot_hold(struct train *t, int64_t *bytes);
void train_snapshot_release(struct train *t);
/* Whether `bytes` for each rank of this machine are at most a quarter of its free memory. */
bool train_has_memory(const struct train *t, int64_t bytes);

/* train_micro.c: this rank's samples of a step, forward and backward, and the sum of all ranks' gradients. */
int train_accumulate(struct train *t);

/* train_save.c: checkpoints that all ranks write while steps go on. */
int train_save_open(struct train *t);
void train_save_close(struct train *t);
/* Starts a checkpoint of the current step; returns when steps may go on. */
int train_save(struct train *t);
/* At each step boundary: this rank's stage of the current checkpoint (fails if writing failed); and the next
 * work, given the least stage of all ranks. */
int train_save_poll(struct train *t, int *stage);
void train_save_advance(struct train *t, int least);
/* Waits until all ranks have finished it. */
int train_save_wait(struct train *t);
/* After the last step. False: a thread is still busy, and only _exit() ends it. */
bool train_save_end(struct train *t);
/* Whether the last checkpoint failed on all ranks because its disk is full, and why; nothing of it is left. Set by
 * those above while retry.disk_wait allows to wait. train_save_retry() forgets it. */
bool train_save_lacks_room(const struct train *t);
const struct err *train_save_full(const struct train *t);
void train_save_retry(struct train *t);
/* Marks checkpoints as good that enough steps have followed. */
void train_save_prove(struct train *t);

/* train_room.c: all ranks pause until the checkpoint of this step fits on its disk, and is whole. Fails after
 * retry.disk_wait, and on a stop. */
int train_room_wait(struct train *t);
/* Fails if there is no room for a checkpoint: the job would only train until it has to wait. */
int train_room_check(struct train *t);

/* train_start.c: everything before the first step. */
/* A log of losses or samples cannot be written: says so once. */
void train_warn_log(struct train *t, const struct err *err);
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

/* The coming step's place in the plan of batches; not t->at only in a test. */
static inline int64_t train_plan_step(const struct train *t)
{
    return t->at + (t->env->desync_at > 0 && t->at >= t->env->desync_at);
}

/* train_pictures.c: samples before and after training, drawn, written and scored. */
int train_pictures_before(struct train *t);
int train_pictures_after(struct train *t);

#endif
