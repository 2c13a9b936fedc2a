/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - rebuilds unfinished jobs from their stored events
 *
 * The code that produced the events replays them; then the effect of each job's
 * state is performed again.
 */
#ifndef CONTROLLER_DAEMON_REPLAY_H
#define CONTROLLER_DAEMON_REPLAY_H

struct daemon;
struct err;

int replay_all(struct daemon *d, struct err *err);

#endif
