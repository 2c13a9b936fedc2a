/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - a training run, from a job spec to the last checkpoint
 *
 * Everything it writes is below the checkpoint directory:
 *   step-NNNNNNNN/   checkpoints                     (engine/checkpoint/checkpoint.h)
 *   metrics.jsonl    the loss of every step          (engine/train/loss_log.h)
 *   samples/         pictures drawn before and after (engine/train/sample_grid.h)
 *
 * A run that is killed at any instant and started again resumes from the newest
 * checkpoint that verifies, and ends with the same bits as an uninterrupted run.
 * SIGTERM, a stop command or the loss of the agent ends it at the next step
 * boundary, with a checkpoint.
 */
#ifndef ENGINE_TRAIN_TRAIN_H
#define ENGINE_TRAIN_TRAIN_H

#include <jansson.h>

struct progress;
struct train_env;

/* Runs to the end. Returns an enum exit_code; a failure writes a `failed` line to
 * `progress` and a sentence to stderr. */
int train_run(const json_t *job, const struct train_env *env, struct progress *progress);

#endif
