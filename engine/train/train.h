/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - a training run: from a job spec to a checkpoint, whatever happens between
 *
 * Everything it writes is below the checkpoint directory:
 *   step-NNNNNNNN/   checkpoints                     (engine/checkpoint/checkpoint.h)
 *   metrics.jsonl    the loss of every step          (engine/train/loss_log.h)
 *   samples/         pictures drawn before and after (engine/train/sample_grid.h)
 *   cache/           encoded data                    (engine/data/pack.h)
 *
 * A run that is killed at any instant and started again goes on from the newest
 * checkpoint that verifies, and ends with the same bits as one that was never
 * killed.  It stops at the next step boundary when asked to (SIGTERM, a command, an
 * agent that is gone), with a checkpoint.
 */
#ifndef ENGINE_TRAIN_TRAIN_H
#define ENGINE_TRAIN_TRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Steps that are left out, by how many were done before each: their loss was not finite once. */
enum { TRAIN_SKIPS = 16 };
struct train_skips {
    int     n;
    int64_t step[TRAIN_SKIPS];
};

/* What the agent says by environment variables (train_env_read) or nobody does. */
struct train_env {
    const char *ckpt_dir;    /* JOBCTL_CKPT_DIR, or NULL */
    const char *flight;      /* JOBCTL_FLIGHT, or NULL */
    const char *backend;     /* --backend, JOBCTL_BACKEND, or NULL: auto */
    int         rank;        /* RANK, or 0 */
    int         world_size;  /* WORLD_SIZE, or 1 */
    struct train_skips skips; /* JOBCTL_SKIP_STEP=17 or 17,23: these are to be left out */
    int         desync_at;   /* JOBCTL_TEST_DESYNC: take the wrong batch from this step on; or 0 */
    const char *oom;         /* JOBCTL_TEST_OOM=HxW:N: more than N samples of this size do not fit; or NULL */
    int64_t     until;       /* --until: the run ends after that step; 0: after its last one */
    bool        again;       /* JOBCTL_ATTEMPT or JOBCTL_GENERATION above 1: the job ran before */
};

struct err;
struct progress;

int train_env_read(struct train_env *env, struct err *err);

/* Runs to the end. Returns an enum exit_code; every failure is told by a `failed` line on
 * `progress` and by a sentence on stderr. */
int train_run(const json_t *job, const struct train_env *env, struct progress *progress);

#endif
