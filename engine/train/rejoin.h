/* SPDX-License-Identifier: Apache-2.0 */
/* rejoin.h - a rank that has lost the others goes on in the same process
 *
 * When a collective fails because another rank is gone, or the way to it was, nothing is wrong
 * with this process: its device is open, its libraries are loaded, its products are chosen.  It
 * lets go of the communicator and of the run, says {"ev":"detached"} (engine/contract/progress.h),
 * and waits REJOIN_MS for the agent's
 *
 *   {"cmd":"rejoin", "env":{NAME: value}, "snapshot":"/proc/PID/fd/N", "old":["/proc/PID/fd/N"]}
 *
 * env is what differs from the environment that it was started with; snapshot and old are the
 * memory files (engine/checkpoint/snapshot.h) that a new process would inherit.  Then the run
 * begins again: from memory or a checkpoint, with the ranks of the next generation.
 */
#ifndef ENGINE_TRAIN_REJOIN_H
#define ENGINE_TRAIN_REJOIN_H

#include <stdbool.h>

struct err;
struct progress;

enum { REJOIN_MS = 5000 };

/* Does the agent know the word (JOBCTL_REJOIN=1)? */
bool rejoin_offered(const struct progress *p);

/* True: the environment is that of the next generation. False, with *err set: nobody asked in time,
 * or it was asked to stop. */
bool rejoin_wait(struct progress *p, int timeout_ms, struct err *err);

#endif
