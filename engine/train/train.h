/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - a training run, from a job spec to the last checkpoint
 *
 * Everything it writes is below the checkpoint directory:
 *   step-NNNNNNNN/   checkpoints                     (engine/checkpoint/checkpoint.h)
 *   metrics.jsonl    the loss of every step          (engine/train/loss_log.h)
 *   samples/         pictures drawn before and after (engine/train/sample_grid.h)
 *   cache/           encoded data                    (engine/data/pack.h)
 *
 * A run that is killed at any instant and started again resumes from the newest
 * checkpoint that verifies, and ends with the same bits as an uninterrupted run.
 * SIGTERM, a stop command or the loss of the agent ends it at the next step
 * boundary, with a checkpoint.
 */
#ifndef ENGINE_TRAIN_TRAIN_H
#define ENGINE_TRAIN_TRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Steps to skip because their loss was not finite; each by the number of steps before it. */
enum { TRAIN_SKIPS = 16 };
struct train_skips {
    int     n;
    int64_t step[TRAIN_SKIPS];
};

/* Settings from environment variables (train_env_read), most of them set by the agent. */
struct train_env {
    const char *ckpt_dir;    /* JOBCTL_CKPT_DIR, or NULL */
    const char *flight;      /* JOBCTL_FLIGHT, or NULL */
    const char *backend;     /* --backend, JOBCTL_BACKEND, or NULL: auto */
    int         rank;        /* RANK, or 0 */
    int         world_size;  /* WORLD_SIZE, or 1 */
    struct train_skips skips; /* JOBCTL_SKIP_STEP=17 or 17,23 */
    int         desync_at;   /* JOBCTL_TEST_DESYNC: use the wrong batch from this step on; or 0 */
    const char *oom;         /* JOBCTL_TEST_OOM=HxW:N: out of memory with more than N samples of this size; or NULL */
    int64_t     until;       /* --until: end after this step; 0: after the last one of the spec */
    bool        new_attempt; /* JOBCTL_ATTEMPT above 1, and its first generation */
    bool        again;       /* JOBCTL_ATTEMPT or JOBCTL_GENERATION above 1: the job ran before */
};

struct err;
struct progress;

int train_env_read(struct train_env *env, struct err *err);

/* Runs to the end. Returns an enum exit_code; a failure writes a `failed` line to
 * `progress` and a sentence to stderr. */
int train_run(const json_t *job, const struct train_env *env, struct progress *progress);

#endif
