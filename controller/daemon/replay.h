/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - rebuilds unfinished jobs from their stored events
 *
 * The code that produced the events replays them; then the effect of each job's
 * state is performed again.
 */
#ifndef CONTROLLER_DAEMON_REPLAY_H
#define CONTROLLER_DAEMON_REPLAY_H

#include <stdint.h>

struct daemon;
struct err;
struct job;

int replay_all(struct daemon *d, struct err *err);

/* One job from its rows, without adding it to the active ones; the caller destroys it. */
int replay_job(struct job **out, struct daemon *d, int64_t id, struct err *err);

#endif
