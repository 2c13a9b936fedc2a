/* SPDX-License-Identifier: Apache-2.0 */
/* train_state.h - struct train, the state of a run
 *
 * The files that run it, from the bottom up: train_ranks; train_memory, train_dir, train_base, train_encode; exchange,
 * exchange_fsdp; reducer, reducer_fixed; train_input; train_snapshot; train_save; train_room; train_start;
 * train_gather; train_draw; train_pictures, train_validate; train.
 * A file calls the files below it; lower files know higher ones only by the declarations in this header.
 *
 * Functions return 0 or -1 with a message in t->err; t->code is the exit code of a failure,
 * or EXIT_DONE to derive it from the kind of the error.
 */
#ifndef ENGINE_TRAIN_TRAIN_STATE_H
#define ENGINE_TRAIN_TRAIN_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/flight.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/base/clock.h"
#include "engine/base/dir_identity.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/progress.h"
#include "engine/contract/train_spec.h"
#include "engine/dist/bucket_plan.h"
#include "engine/dist/dist.h"
#include "engine/optim/fit.h"
#include "engine/optim/state.h"
#include "engine/train/train_env.h"

/* Limits of the micro-batch after the run ran out of memory. */
struct train_lowered {
    int  micro;     /* samples of any size; 0 = no limit */
    bool recompute;
    int  height, width, samples; /* the pixels of this many samples of this size; 0 samples = no limit */
};

/* A source of samples from which each step takes a batch. */
struct train_source {
    struct dataset *data;   /* NULL: none */
    struct loader  *loader;
    double          weight; /* weight of their loss */
};

struct train {
    const json_t           *job;
    const struct train_env *env;
    struct train_spec       spec;
    char                    dir[CHECKPOINT_PATH]; /* directory of checkpoints, absolute; see train_dir_follow() */
    struct dir_identity     dir_inode;
    char                    spec_digest[MANIFEST_DIGEST], data_digest[MANIFEST_DIGEST];
    char                    base_digest[MANIFEST_DIGEST]; /* "": no frozen weights (train_base.h) */

    struct progress *progress;
    struct flight   *flight;
    struct rendezvous *rendezvous;
    struct dist     *dist;  /* of host memory: words, and gradients on the CPU */
    struct dist_device device;
    struct step_sync_words *words; /* [world_size], from the last exchange */
    struct dist     *gpus;  /* for GPU memory, or NULL */
    struct dataset  *data;
    json_t          *codec; /* of the data, or NULL */
    struct train_source prior;   /* from train.prior; zeroed: none */
    struct loader   *loader;
    struct pretrained *pretrained; /* the weights that the run begins with, from their check until they are read; or
                                    * NULL */
    struct step     *step;
    struct params   *params; /* of the step */
    struct loss_log *metrics;
    struct event_file *events; /* train.tensorboard: true, else NULL */
    struct sample_log *samples; /* data.sample_log: true, else NULL */
    const struct reducer *reducer;
    const struct exchange *exchange;
    const struct exchange_numbers *numbers; /* of the reducer */
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
    int64_t began;         /* number of steps completed when this start began */
    int64_t saved;         /* step of the newest checkpoint, written or being written; or -1 */
    double  saved_s;       /* time of the last checkpoint, or of the start */
    double  loss;          /* of the last step */
    double  step_s;        /* moving average of a step's time */
    bool    told_log;      /* a log cannot be written: already warned */
    double  said_s, told_s; /* time of the last line to stdout, to the agent */
    uint64_t told_ns[FLIGHT_PHASES]; /* time in each phase until the last line to the agent ... */
    int64_t  told_at;                /* ... and its step */
    bool    fresh;         /* this start did not resume */
    struct train_skips left_out; /* steps skipped so far, the newest TRAIN_SKIPS */
    struct bucket_plan buckets; /* of this step's gradients; buckets that were sent are removed */
    bool    last_micro;    /* the last micro-batch of this rank in this step */

    float  *before;        /* latents drawn before training, or NULL */

    struct err     err;
    enum exit_code code;
};

/* Monotonic seconds. */
static inline double train_clock(void)
{
    return 1e-9 * (double)clock_ns();
}

static inline bool train_is_first(const struct train *t)
{
    return t->env->rank == 0;
}

/* The next step's place in the plan of batches; differs from t->at only in a test. */
static inline int64_t train_plan_step(const struct train *t)
{
    return t->at + (t->env->desync_at > 0 && t->at >= t->env->desync_at);
}

#endif
