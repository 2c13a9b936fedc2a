/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_duration.h - how long a job's checkpoint takes, estimated from those written
 *
 * The estimate is the longest duration, because a checkpoint that gets less time is lost. Each new
 * checkpoint lowers older durations by a tenth, so that one slow write is forgotten.
 */
#ifndef CONTROLLER_JOB_CHECKPOINT_DURATION_H
#define CONTROLLER_JOB_CHECKPOINT_DURATION_H

#include <stdint.h>

struct store;

/* Over all attempts; 0: no checkpoint yet. */
int64_t checkpoint_duration_ms(struct store *s, int64_t job);

#endif
