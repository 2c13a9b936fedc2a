/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_duration.h - how long a checkpoint of a job takes, as those that it has written tell
 *
 * The longest counts, for whoever has less time than that loses it; what was long ago counts less, by a
 * tenth from one checkpoint to the next: a disk that was slow once is not slow for ever.
 */
#ifndef CONTROLLER_JOB_CHECKPOINT_DURATION_H
#define CONTROLLER_JOB_CHECKPOINT_DURATION_H

#include <stdint.h>

struct store;

/* Over all attempts; 0: none was written yet. */
int64_t checkpoint_duration_ms(struct store *s, int64_t job);

#endif
