/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - from stored events back to living jobs
 *
 * Each job that is not done is put together from its events by the same code
 * that made it, then does again what its state asks for.
 */
#ifndef CONTROLLER_DAEMON_REPLAY_H
#define CONTROLLER_DAEMON_REPLAY_H

struct daemon;
struct err;

int replay_all(struct daemon *d, struct err *err);

#endif
